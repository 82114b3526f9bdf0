"""Where modules come from: `sys_importer`, Python's own import, and several importers in order."""

from __future__ import annotations

import functools
import importlib
import logging
import pickle
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any

from flambeau.base.naming import public_module
from flambeau.core.tensor.storage_types import StorageType
from flambeau.package._mangling import demangle, get_mangle_prefix, is_mangled
from flambeau.serialize import names

_log = logging.getLogger(__name__)

__all__ = ["Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter", "sys_importer"]


class ObjNotFoundError(Exception):
    """An importer has no object of the name that another one has."""

    __module__ = public_module("package.importer")


class ObjMismatchError(Exception):
    """What an importer finds under an object's name is another object."""

    __module__ = public_module("package.importer")


class Importer(ABC):
    """Where modules come from: Python's own import, or a package."""

    __module__ = public_module("package.importer")

    modules: dict[str, ModuleType]

    @abstractmethod
    def import_module(self, module_name: str) -> ModuleType:
        """The module of that name. Raises ImportError if there is none."""

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """(module, qualified name) under which this importer has an object.

        Raises ObjNotFoundError if it has nothing under its name, ObjMismatchError if that is another object.
        """
        if isinstance(obj, StorageType):
            return obj.module, obj.name
        if name is None:
            name = getattr(obj, "__qualname__", None)
        if name is None:  # as pickle does for objects that say their name by being reduced to it
            reduced = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if hasattr(obj, "__reduce_ex__") else None
            name = reduced if isinstance(reduced, str) else obj.__name__
        assert name is not None
        module_name = self.whichmodule(obj, name)
        own, qualified = names.outward(demangle(module_name), name)
        try:
            found = self.find(own, qualified)
        except (ImportError, KeyError, AttributeError) as error:
            raise ObjNotFoundError(f"{obj} was not found as {own}.{qualified}") from error
        if found is not obj:
            raise ObjMismatchError(self._mismatch(obj, found, name))
        return own, qualified

    def find(self, module_name: str, name: str) -> Any:
        """The object of a qualified name in a module; raises ImportError or AttributeError if there is none."""
        module = self.import_module(module_name)
        if module_name.partition(".")[0] == "torch":
            return names.resolve(module_name, name)
        return functools.reduce(getattr, name.split("."), module)

    def _mismatch(self, obj: Any, found: Any, name: str) -> str:
        def place(x: Any) -> tuple[str, str, str]:
            home = self.whichmodule(x, name)
            if not is_mangled(home):
                return home, "the current Python environment", "'sys_importer'"
            return home, get_mangle_prefix(home), f"the importer for {get_mangle_prefix(home)}"

        (first, here, listed), (second, there, behind) = place(obj), place(found)
        return (
            f"\n\nThe object provided is from '{first}', which is coming from {here}.\nHowever, when we import '{second}', "
            f"it's coming from {there}.\nTo fix this, make sure this 'PackageExporter's importer lists {listed} before "
            f"{behind}."
        )

    def whichmodule(self, obj: Any, name: str) -> str:
        """The name of the module that an object is from: what it says itself, else the first of this importer's that has it."""
        said = getattr(obj, "__module__", None)
        if said is not None:
            return said
        for module_name, module in list(self.modules.items()):
            if module_name == "__main__" or module_name == "__mp_main__" or module is None or is_mangled(demangle(module_name)):
                continue
            try:
                if getattr(module, name, None) is obj:
                    return module_name
            except Exception:
                continue
        return "__main__"


class _SysImporter(Importer):
    """Python's own import."""

    __module__ = public_module("package.importer")

    def import_module(self, module_name: str) -> ModuleType:
        return importlib.import_module(names.inward(module_name, "")[0])

    def find(self, module_name: str, name: str) -> Any:
        if module_name.partition(".")[0] == "torch":  # names that files have for what is elsewhere here
            return names.resolve(module_name, name)
        return super().find(module_name, name)

    def whichmodule(self, obj: Any, name: str) -> str:
        return pickle.whichmodule(obj, name)  # type: ignore[attr-defined]


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Several importers: each answers where those before it have nothing."""

    __module__ = public_module("package.importer")

    def __init__(self, *args: Importer) -> None:
        self._importers = list(args)

    def _is_torchpackage_dummy(self, module: Any) -> bool:
        """Whether a module only stands for a package that has submodules: another importer may have it itself."""
        return (
            bool(getattr(module, "__torch_package__", False))
            and hasattr(module, "__path__")
            and (getattr(module, "__file__", None) is None)
        )

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        for importer in self._importers:
            try:
                return importer.get_name(obj, name)
            except (ObjNotFoundError, ObjMismatchError) as error:
                _log.warning("get_name of %r and name %r: %s has it not: %s", obj, name, importer, error)
        raise ObjNotFoundError(f"Could not find obj {obj} and name {name} in any of the importers {self._importers}")

    def import_module(self, module_name: str) -> ModuleType:
        error: ModuleNotFoundError | None = None
        for importer in self._importers:
            if not hasattr(importer, "import_module"):
                raise TypeError(f"{importer} is not a importer")
            try:
                module = importer.import_module(module_name)
                if not self._is_torchpackage_dummy(module):
                    return module
            except ModuleNotFoundError as missing:
                error = missing
        raise error if error is not None else ModuleNotFoundError(module_name)

    def whichmodule(self, obj: Any, name: str) -> str:
        for importer in self._importers:
            found = importer.whichmodule(obj, name)
            if found != "__main__":
                return found
        return "__main__"
