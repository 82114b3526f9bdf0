"""`import torch` resolves to flambeau: the redirection behind `flambeau run`.

Stands on `version` and the standard library. `install()` puts one finder in front of `sys.meta_path`. It answers for
`torch` and `torch.*` with the very module objects of `flambeau` and `flambeau.*` (so `torch.nn.Linear is
flambeau.nn.Linear`), and for the package metadata of a distribution named `torch`. Nothing is written to
site-packages. Forked children, such as the workers of a data loader, inherit it; `install_in_children()` has the
interpreters that this process starts do the same, by the folder `startup` on their path.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from . import version

PACKAGE = __name__.partition(".")[0]


def own_name(name: str) -> str | None:
    """The flambeau module that stands for the module `name`, or None where `name` is not PyTorch's."""
    head, dot, rest = name.partition(".")
    return PACKAGE + dot + rest if head == "torch" else None


def exists(name: str) -> bool:
    """Whether the flambeau module `name` can be imported; imports its parents only."""
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent is missing, or is no package
        return False


class AliasLoader(Loader):
    """Loads `torch.x` by handing out what `flambeau.x` is, a module."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        package, _, last = self.name.rpartition(".")
        module: ModuleType
        if self.name == PACKAGE + ".ops":  # the tree of operators, while a package of that name holds their code
            module = getattr(importlib.import_module(package), last)
        else:
            module = importlib.import_module(self.name)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just replaced the module's spec by the alias's: give it back, or `importlib.reload`
        # would take flambeau.x for torch.x.
        module.__spec__ = self.own_spec


class TorchDistribution(importlib.metadata.Distribution):
    """What `importlib.metadata` says of the distribution `torch`."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {version.__version__}\nSummary: provided by flambeau\n"

    def locate_file(self, path):  # type: ignore[no-untyped-def]
        raise FileNotFoundError(f"torch is provided by flambeau and has no file {path}")


class TorchFinder(MetaPathFinder):
    """Finds the modules `torch`, `torch.*` and the distribution `torch`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = own_name(fullname)
        if name is None or not exists(name):
            return None
        own = sys.modules[name].__spec__ if name in sys.modules else importlib.util.find_spec(name)
        spec = ModuleSpec(fullname, AliasLoader(name), origin=own.origin if own else None)
        if own is not None and own.submodule_search_locations is not None:
            spec.submodule_search_locations = list(own.submodule_search_locations)
        return spec

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context | None = None
    ) -> list[importlib.metadata.Distribution]:
        wanted = context.name if context is not None else None
        return [TorchDistribution()] if wanted is None or wanted.lower() == "torch" else []


def installed() -> bool:
    """Whether `import torch` resolves to flambeau in this process."""
    return any(isinstance(finder, TorchFinder) for finder in sys.meta_path)


def install() -> None:
    """Make `import torch` resolve to flambeau in this process; a second call changes nothing.

    Raises:
        RuntimeError: PyTorch itself is already imported.
    """
    if installed():
        return
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded is not sys.modules.get(PACKAGE):
        raise RuntimeError(
            "torch is already imported in this process; call flambeau.as_torch.install() before anything imports it, "
            "or start the program by `flambeau run`"
        )
    sys.meta_path.insert(0, TorchFinder())
    importlib.invalidate_caches()


def install_in_children() -> None:
    """Make `import torch` resolve to flambeau in the Python processes that this one will start, however it starts them."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
    others = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in ("", folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *others])


def uninstall() -> None:
    """Undo `install()` for imports to come, and forget the modules that were imported under the name torch."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, TorchFinder)]
    for name, module in list(sys.modules.items()):
        own = own_name(name)
        if own is not None and module is sys.modules.get(own):
            del sys.modules[name]
