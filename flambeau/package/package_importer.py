"""Reading packages: modules are made of the source in an archive, and objects of its pickles and those modules.

A package is a program: its modules run when they are imported, and its pickles call what they name. Stands on the reader of
archives and importers.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import inspect
import io
import linecache
import os
import types
from collections.abc import Callable
from types import ModuleType
from typing import IO, Any
from weakref import WeakValueDictionary

from flambeau.base.naming import public_module
from flambeau.core.tensor import storage_io
from flambeau.ops.interop.typed_storage import of, retyped
from flambeau.package._directory_reader import DirectoryReader
from flambeau.package._importlib import calculated_package, checked_name, resolved_name
from flambeau.package._mangling import PackageMangler, demangle
from flambeau.package._package_unpickler import PackageUnpickler
from flambeau.package.file_structure_representation import Directory, _create_directory_from_file_list
from flambeau.package.glob_group import GlobPattern
from flambeau.package.importer import Importer
from flambeau.package.resources import PackageResourceReader
from flambeau.serialize import names
from flambeau.serialize.identity import parts, storage_identity
from flambeau.serialize.locations import restorer
from flambeau.serialize.records import PyTorchFileReader

__all__ = ["PackageImporter"]

#: Modules of packages by their names, for `inspect`, which asks sys.modules otherwise.
_IMPORTED: WeakValueDictionary[str, ModuleType] = WeakValueDictionary()

#: Modules that take another's place in sys.modules, by names that nothing else has then.
_IMPLICIT = {"typing.io", "typing.re", "os.path"}


class _Node:
    """A package of the archive: modules, packages and files by name."""

    def __init__(self, source: str | None) -> None:
        self.source, self.children = source, dict[str, Any]()


class _Module:
    """A module of the archive: the record that has its source."""

    def __init__(self, source: str) -> None:
        self.source, self.children = source, dict[str, Any]()


class _Extern:
    """A module that comes from outside, with all that is below it."""

    children: dict[str, Any] = {}


class PackageImporter(Importer):
    """Imports modules and loads objects from a package.

    file_or_buffer: a path of an archive or of a folder that one has been unpacked to, a binary file, or a PyTorchFileReader.
    module_allowed: says of a name whether the package may take that module from outside; ImportError if it needs one that it may
    not.

    A package is a program: load only those that you trust. RuntimeError for a damaged archive.
    """

    __module__ = public_module("package.package_importer")

    modules: dict[str, ModuleType]

    def __init__(
        self,
        file_or_buffer: str | os.PathLike[str] | IO[bytes] | PyTorchFileReader,
        module_allowed: Callable[[str], bool] = lambda module_name: True,
    ) -> None:
        self.zip_reader: Any
        if isinstance(file_or_buffer, PyTorchFileReader):
            self.filename, self.zip_reader = "<pytorch_file_reader>", file_or_buffer
        elif isinstance(file_or_buffer, (str, os.PathLike)):
            self.filename = os.fspath(file_or_buffer)
            self.zip_reader = (DirectoryReader if os.path.isdir(self.filename) else _opened)(self.filename)
        else:
            self.filename, self.zip_reader = "<binary>", PyTorchFileReader(file_or_buffer)
        self._mangler = PackageMangler()
        self.root = _Node(None)
        self.modules = {}
        self.extern_modules = [line for line in self._record(".data/extern_modules").decode().splitlines() if line]
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(
                    f"package '{file_or_buffer}' needs the external module '{name}' but that module has been disallowed"
                )
            self._add_extern(name)
        for record in self.zip_reader.get_all_records():
            self._add_file(record)
        self.patched_builtins = builtins.__dict__.copy()
        self.patched_builtins["__import__"] = self.__import__
        self.modules["torch_package_importer"] = self  # type: ignore[assignment]   # packages know it by this name
        _patch_inspect()

    def _record(self, name: str) -> bytes:
        """The content of a record. RuntimeError for a file that is an archive, but no package."""
        if not self.zip_reader.has_record(name):
            raise RuntimeError(
                f"{self.filename} is no package: it has no record {name}. Read what torch.save wrote by torch.load"
            )
        return self.zip_reader.get_record(name)

    # ---- resources
    def load_binary(self, package: str, resource: str) -> bytes:
        """The bytes of a resource."""
        return self.zip_reader.get_record(self._zipfile_path(package, resource))

    def load_text(self, package: str, resource: str, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The text of a resource."""
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package: str, resource: str, map_location: Any = None) -> Any:
        """The object of a resource, with classes and functions from the package.

        map_location: where its storages go, as in torch.load.
        """
        content = self.load_binary(package, resource)
        reader = PackageUnpickler(self, io.BytesIO(content))
        restore, storages, reduced = restorer(map_location), dict[str, Any](), dict[Any, Any]()

        def persistent_load(identity: Any) -> Any:
            kind, *rest = identity if isinstance(identity, tuple) and identity else (None,)
            if kind == "reduce_package":
                if len(rest) == 2:  # as the first packages were written
                    return rest[0](self, *rest[1])
                key, function, arguments = rest
                if key not in reduced:
                    reduced[key] = function(self, *arguments)
                return reduced[key]
            marker, key, location, numel = storage_identity(*parts(identity))
            if key not in storages:
                storage = restore(self._storage(f".data/{key}.storage", numel * marker.itemsize), location)
                storages[key] = storage if marker.dtype is None else of(storage, marker.dtype)
            return retyped(storages[key], marker)

        reader.persistent_load = persistent_load  # type: ignore[method-assign]
        return reader.load()

    def _storage(self, name: str, nbytes: int) -> Any:
        content = self._record(name)
        if len(content) != nbytes:
            raise RuntimeError(f"record {name} has {len(content)} bytes, but the pickle says {nbytes}: the package is damaged")
        storage = storage_io.allocate(nbytes)
        storage_io.memory_of(storage)[:] = content
        return storage

    def id(self) -> str:
        """The parent of its modules' names, which no other importer has."""
        return self._mangler.parent_name()

    def file_structure(self, *, include: GlobPattern = "**", exclude: GlobPattern = ()) -> Directory:
        """The files of the package as a tree, of those that patterns of paths choose."""
        return _create_directory_from_file_list(self.filename, self.zip_reader.get_all_records(), include, exclude)

    def python_version(self) -> str | None:
        """The version of Python that wrote the package, None where it doesn't say."""
        name = ".data/python_version"
        return self.zip_reader.get_record(name).decode().strip() if self.zip_reader.has_record(name) else None

    def get_source(self, module_name: str) -> str:
        """The source of a module of the package."""
        module = self.import_module(demangle(module_name))
        return self.zip_reader.get_record(demangle(module.__file__ or "")).decode()

    def get_resource_reader(self, fullname: str) -> PackageResourceReader | None:
        """What importlib.resources reads the resources of a package by; None for what is no package."""
        try:
            self._get_package(fullname)
        except ImportError:
            return None
        return PackageResourceReader(self, fullname)

    # ---- modules
    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """A module of the package, or one from outside that the package names. ModuleNotFoundError if there is none."""
        name = self._mangler.demangle(name)
        return self._gcd_import(name)

    def __import__(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if not level:
            module = self._gcd_import(name)
        else:
            package = calculated_package(globals or {})
            module = self._gcd_import(name, self._mangler.demangle(package), level)
        if fromlist:
            return self._handle_fromlist(module, fromlist) if hasattr(module, "__path__") else module
        if not level:
            return self._gcd_import(name.partition(".")[0])
        if not name:
            return module
        whole = self._mangler.demangle(module.__name__)
        return self.modules[whole[: len(whole) - (len(name) - len(name.partition(".")[0]))]]

    def _gcd_import(self, name: str, package: str | None = None, level: int = 0) -> ModuleType:
        checked_name(name, package, level)
        if level:
            name = resolved_name(name, package or "", level)
        if name not in self.modules:
            self._find_and_load(name)
        return self.modules[name]

    def _find_and_load(self, name: str) -> None:
        parent, _, last = name.rpartition(".")
        if parent:
            self._gcd_import(parent)
            if name in self.modules:
                return
            path = getattr(self.modules[parent], "__path__", None)
            if path is None and name not in _IMPLICIT and not self._is_extern(name):
                raise ModuleNotFoundError(f"No module named {name!r}; {parent!r} is not a package", name=name)
        module = self._load_module(name, parent)
        if parent and module is not None:
            self._install_on_parent(parent, last, module)

    def _is_extern(self, name: str) -> bool:
        node: Any = self.root
        for atom in name.split("."):
            node = node.children.get(atom) if not isinstance(node, _Extern) else node
            if node is None:
                return False
        return isinstance(node, _Extern)

    def _load_module(self, name: str, parent: str) -> ModuleType:
        node: Any = self.root
        for atom in name.split("."):
            if isinstance(node, _Extern):
                break
            if node is None or atom not in node.children:
                node = None
                break
            node = node.children[atom]
        if isinstance(node, _Extern):
            module = self.modules[name] = importlib.import_module(names.inward(name, "")[0])
            return module
        if node is None:
            raise ModuleNotFoundError(
                f'No module named "{name}" in self-contained archive "{self.filename}" and the module is also not in the list of '
                f"allowed external modules: {self.extern_modules}",
                name=name,
            )
        return self._make_module(name, node.source, isinstance(node, _Node), parent)

    def _make_module(self, name: str, filename: str | None, is_package: bool, parent: str) -> ModuleType:
        mangled = self._mangler.mangle(name)
        spec = importlib.machinery.ModuleSpec(name, self, origin="<package_importer>", is_package=is_package)  # type: ignore[arg-type]
        file = None if filename is None else self._mangler.mangle(filename)
        module = types.ModuleType(mangled)
        own = module.__dict__
        own.update(
            __spec__=spec,
            __loader__=self,
            __file__=file,
            __cached__=None,
            __builtins__=self.patched_builtins,
            __torch_package__=True,
        )
        if is_package:
            own["__path__"] = [self._mangler.mangle(name.replace(".", "/"))]
        own["__package__"] = mangled if is_package else self._mangler.mangle(parent) if parent else ""
        self.modules[name] = module
        _IMPORTED[mangled] = module
        if filename is None or file is None:
            return module
        try:
            source = self.zip_reader.get_record(filename).decode()
            linecache.lazycache(file, own)
            exec(compile(source, file, "exec", dont_inherit=True), own)
        except BaseException:
            self.modules.pop(name, None)
            raise
        return self.modules[name]

    def _install_on_parent(self, parent: str, name: str, module: ModuleType) -> None:
        if not self._is_extern(parent):
            setattr(self.modules[parent], name, module)

    def _handle_fromlist(self, module: ModuleType, fromlist: Any, *, recursive: bool = False) -> ModuleType:
        """The module, once what is to be taken from it has been loaded where it is a module below."""
        name = self._mangler.demangle(module.__name__)
        for each in fromlist:
            if not isinstance(each, str):
                where = name + ".__all__" if recursive else "``from list''"
                raise TypeError(f"Item in {where} must be str, not {type(each).__name__}")
            if each == "*":
                if not recursive and hasattr(module, "__all__"):
                    self._handle_fromlist(module, module.__all__, recursive=True)
            elif not hasattr(module, each):
                inner = f"{name}.{each}"
                try:
                    self._gcd_import(inner)
                except ModuleNotFoundError as error:
                    if error.name == inner and self.modules.get(inner, self) is not None:
                        continue  # `from` says itself that there is no such name
                    raise
        return module

    # ---- the tree of what there is
    def _get_package(self, package: Any) -> ModuleType:
        """The module of a package, given or by its name. TypeError or ModuleNotFoundError for what is no package."""
        module = package if hasattr(package, "__spec__") else self.import_module(package)
        if module.__spec__ is None or module.__spec__.submodule_search_locations is None:
            raise TypeError(f"{getattr(module, '__name__', package)!r} is not a package")
        return module

    def _zipfile_path(self, package: Any, resource: str | None = None) -> str:
        module = self._get_package(package)
        name = self._mangler.demangle(module.__name__).replace(".", "/")
        if resource is None:
            return name
        if os.path.split(resource)[0]:
            raise ValueError(f"{resource!r} must be only a file name")
        return f"{name}/{resource}"

    def _node_of(self, atoms: list[str]) -> Any:
        node: Any = self.root
        for atom in atoms:
            if isinstance(node, _Extern):
                break
            found = node.children.get(atom)
            if found is None or isinstance(found, _Module):
                made = _Node(None)
                found = node.children[atom] = made
            node = found
        return node

    def _add_file(self, filename: str) -> None:
        """Add a record to the tree: a module, or a file in a package."""
        *folders, last = filename.split("/")
        if folders and folders[0] == ".data":
            return
        if any(part in ("", ".", "..") for part in (*folders, last)):
            raise RuntimeError(f"the package has a record of the path {filename!r}, which is no file below its folder")
        package = self._node_of(folders)
        if isinstance(package, _Extern):
            raise ImportError(
                f"inconsistent module structure. package contains a module file {filename} that is a subpackage of "
                "a module marked external."
            )
        if last == "__init__.py":
            package.source = filename
        elif last.endswith(".py"):
            name = last[: -len(".py")]
            if not isinstance(package.children.get(name), _Node):
                package.children[name] = _Module(filename)

    def _add_extern(self, extern_name: str) -> None:
        *packages, last = extern_name.split(".")
        package = self._node_of(packages)
        if not isinstance(package, _Extern):  # else a module above comes from outside
            package.children[last] = _Extern()


def _opened(path: str) -> PyTorchFileReader:
    try:
        return PyTorchFileReader(path)
    except FileNotFoundError:
        raise RuntimeError(
            f"open file failed because of errno 2 on fopen: No such file or directory, file path: {path}"
        ) from None


_getfile: Any = None


def _patch_inspect() -> None:
    """Have `inspect` find the files of classes of packages: it looks for their modules in sys.modules, where they aren't."""
    global _getfile
    if _getfile is not None:
        return
    own = _getfile = inspect.getfile

    def getfile(object: Any) -> str:
        if inspect.isclass(object) and (module := _IMPORTED.get(object.__module__)) is not None:
            return module.__file__ or own(object)
        return own(object)

    inspect.getfile = getfile
