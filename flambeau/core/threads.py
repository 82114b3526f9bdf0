"""How many threads kernels use: the public switches."""

from __future__ import annotations

from flambeau.base.layout import clear_caches
from flambeau.codegen.runtime import launch

_interop = [1]


def set_num_threads(n: int) -> None:
    """Use `n` threads inside operators from now on. Raises RuntimeError unless n is positive."""
    if not isinstance(n, int):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    launch.set_threads(n)
    clear_caches()  # a plan's working memory has a share for each of the threads there were when it was made


def get_num_threads() -> int:
    """The number of threads used inside operators."""
    return launch.get_threads()


def set_num_interop_threads(n: int) -> None:
    """Accepted for compatibility: operators run one after the other here."""
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _interop[0] = n


def get_num_interop_threads() -> int:
    """The number set by `set_num_interop_threads`."""
    return _interop[0]
