"""mpi4py as other libraries find it: not initialized before one of them really talks to another process.

`from mpi4py import MPI` initializes MPI, which can be done once in a process's life. Lightning imports it only to ask how large
COMM_WORLD is, and a process in which that has initialized MPI for itself alone can't join a world of ours. So where no process
manager started this process, COMM_WORLD is a stand-in until MPI is initialized: it knows that it is alone, and initializes MPI
for any other question. Installed when torch.distributed is imported; `library.load` puts the real one back.
"""

from __future__ import annotations

import atexit
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["install", "restore"]

_NAME = "mpi4py.MPI"


class _World:
    """COMM_WORLD before MPI is initialized."""

    def __init__(self, MPI: Any) -> None:
        self._MPI, self._real = MPI, MPI.COMM_WORLD

    def Get_size(self) -> int:
        return int(self._real.Get_size()) if self._MPI.Is_initialized() else 1

    def Get_rank(self) -> int:
        return int(self._real.Get_rank()) if self._MPI.Is_initialized() else 0

    size = property(Get_size)
    rank = property(Get_rank)

    def __getattr__(self, name: str) -> Any:
        if not self._MPI.Is_initialized():
            self._MPI.Init_thread()
            atexit.register(self._MPI.Finalize)  # as mpi4py does where it initializes MPI itself
        return getattr(self._real, name)


class _Loader(Loader):
    def __init__(self, spec: ModuleSpec) -> None:
        self._inner: Any = spec.loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._inner.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        package: Any = sys.modules["mpi4py"]
        package.rc.initialize = False
        self._inner.exec_module(module)
        module.COMM_WORLD = _World(module)  # type: ignore[attr-defined]


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != _NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec)
        return spec


_finder = _Finder()


def install() -> None:
    """Has the next import of mpi4py.MPI leave MPI uninitialized."""
    if _NAME not in sys.modules and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def restore() -> None:
    """Puts mpi4py's own COMM_WORLD in its place, for who initializes MPI."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    MPI = sys.modules.get(_NAME)
    if MPI is not None and isinstance(MPI.COMM_WORLD, _World):
        MPI.COMM_WORLD = MPI.COMM_WORLD._real  # type: ignore[attr-defined]
