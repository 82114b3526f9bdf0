"""`import torch` means flambeau: a finder in front of `sys.meta_path`.

The package flambeau is loaded from its own folder under the name torch, so its modules and classes are called as PyTorch's
are: `torch.nn.modules.linear.Linear` prints, pickles and is looked up by that name. `flambeau` and `flambeau.*` are then
aliases that give the very same module objects. Where flambeau was loaded under its own name before, it keeps that name and
`torch` is the alias.

Stands on the standard library, and imports as little as it can: it runs at the start of every process that a program under
`flambeau run` starts. Used by the command, by `startup`, and by the distribution named torch.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import itertools
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import Distribution, DistributionFinder

OURS, THEIRS = "flambeau", "torch"
OLDER = "functorch"  # a package that comes with PyTorch: function transforms by their older names
TOLD = "TOLD = "  # begins the line of the installed stub that says which version of torch programs are told


def folder_of_flambeau() -> str:
    """The folder of the package flambeau, which is not imported. Raises ModuleNotFoundError if there is none."""
    spec = importlib.util.find_spec(OURS)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {OURS!r}", name=OURS)
    return os.path.dirname(spec.origin)


def versions(folder: str) -> dict[str, Any]:
    """What flambeau's version.py says; it stands on the standard library, and so is read without loading the package."""
    import runpy

    return runpy.run_path(os.path.join(folder, "version.py"))


def told_version(folder: str) -> str:
    """The version of torch that programs are told: what this environment's installed stub says, else version.py's."""
    stub = PathFinder.find_spec(THEIRS)
    if stub is not None and stub.origin is not None:
        with contextlib.suppress(OSError, UnicodeDecodeError), open(stub.origin, encoding="utf-8") as file:
            for line in itertools.islice(file, 5):
                if line.startswith(TOLD):
                    return line.removeprefix(TOLD).strip().strip('"')
    return str(versions(folder)["__version__"])


class VersionLoader(SourceFileLoader):
    """Loads flambeau's version.py with the version that this environment's programs are told."""

    def __init__(self, name: str, path: str, told: str) -> None:
        super().__init__(name, path)
        self.told = told

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.__version__ = module.TorchVersion(self.told)


class AliasLoader(Loader):
    """Loads a module by handing out the one of another name.

    It is that module which the import system keeps under the alias from the beginning: an empty one that is replaced later would
    be what a second thread gets that asks for the alias meanwhile.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        made = importlib.import_module(self.name)
        own = made.__spec__
        while own is not None and isinstance(own.loader, AliasLoader):  # another alias is being imported
            own = own.loader.spec
        self.spec = own
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # which is the alias's by now


class TorchFinder(MetaPathFinder):
    """Finds `torch` in the folder of flambeau, aliases of its modules, functorch, and the metadata of the distribution."""

    def __init__(self) -> None:
        self.folder = folder_of_flambeau()
        self.name, self.alias = (OURS, THEIRS) if OURS in sys.modules else (THEIRS, OURS)

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        head, dot, rest = fullname.partition(".")
        if head == self.alias:
            return self.alias_of(self.name + dot + rest, fullname)
        if head == OLDER:
            return self.alias_of(f"{self.name}._functorch.functorch{dot}{rest}", fullname)
        if fullname == THEIRS:  # its submodules are found as those of any package, by its __path__
            file = os.path.join(self.folder, "__init__.py")
            return importlib.util.spec_from_file_location(THEIRS, file, submodule_search_locations=[self.folder])
        if fullname == f"{THEIRS}.version":
            file = os.path.join(self.folder, "version.py")
            loader = VersionLoader(fullname, file, told_version(self.folder))
            return importlib.util.spec_from_file_location(fullname, file, loader=loader)
        return None

    def alias_of(self, name: str, alias: str) -> ModuleSpec | None:
        """What gives the module `name` under the name `alias`; None if there is no such module."""
        loaded = sys.modules.get(name)
        if loaded is not None and loaded.__spec__ is None:  # it was made, not read from a file
            return ModuleSpec(alias, AliasLoader(name))
        try:
            found = loaded.__spec__ if loaded is not None else importlib.util.find_spec(name)
        except ModuleNotFoundError:  # a parent is missing, or is no package
            return None
        if found is None:
            return None
        spec = ModuleSpec(alias, AliasLoader(name), origin=found.origin)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> list[Distribution]:
        wanted = context.name if context is not None else None
        if wanted is not None and wanted.lower() != THEIRS:
            return []
        from importlib.metadata import Distribution

        version = told_version(self.folder)
        texts = {
            "METADATA": f"Metadata-Version: 2.1\nName: {THEIRS}\nVersion: {version}\nSummary: provided by flambeau\n",
            "top_level.txt": f"{THEIRS}\n",
        }

        class TorchDistribution(Distribution):
            """What `importlib.metadata` says of torch."""

            def read_text(self, filename: str) -> str | None:
                return texts.get(filename)

            def locate_file(self, path):  # type: ignore[no-untyped-def]
                raise FileNotFoundError(f"torch is provided by flambeau and has no file {path}")

        return [TorchDistribution()]


def installed() -> bool:
    """Whether `import torch` means flambeau in this process."""
    return any(isinstance(finder, TorchFinder) for finder in sys.meta_path)


def install() -> None:
    """Make `import torch` mean flambeau in this process; a second call changes nothing.

    Raises:
        RuntimeError: PyTorch itself is already imported.
        ModuleNotFoundError: there is no flambeau.
    """
    if installed():
        return
    if THEIRS in sys.modules:
        raise RuntimeError(
            "torch is already imported in this process; call flambeau_torch.install() before anything imports it, or start "
            "the program by `flambeau run`"
        )
    sys.meta_path.insert(0, TorchFinder())
    importlib.invalidate_caches()


def install_in_children() -> None:
    """Make `import torch` mean flambeau in the Python processes that this one will start, however it starts them."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
    others = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in ("", folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *others])


def replace_stub() -> None:
    """Put flambeau in the place of the module torch that calls this while it is imported (distribution.py writes it)."""
    del sys.modules[THEIRS]
    install()
    importlib.import_module(THEIRS)
