"""How many threads kernels use: the public switches."""

from __future__ import annotations

import sys
from types import FrameType

import numpy as np

from flambeau.base.layout import clear_caches
from flambeau.base.naming import PACKAGE
from flambeau.codegen.runtime import threads

_interop = [0]  # 0: not chosen
_PLANNERS = tuple(f"{PACKAGE}.{room}." for room in ("codegen", "core", "ops", "vision_ops"))


def _checked(name: str, n: int) -> int:
    """A number of threads; RuntimeError or, beyond a C int, ValueError in PyTorch's words."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(n).__name__}")
    if not -1 << 31 <= n < 1 << 31:
        raise ValueError(f"Overflow when unpacking long{'' if -1 << 63 <= n < 1 << 63 else ' long'}")
    if n <= 0:
        raise RuntimeError(f"{name} expects a positive integer")
    return int(n)


def set_num_threads(n: int) -> None:
    """Use `n` threads inside the operators of this thread, and of threads that begin from now on.

    Raises RuntimeError unless n is a positive int, ValueError if it is beyond 2**31 - 1.
    """
    n = _checked("set_num_threads", n)
    # A handler or a destructor may come in the middle of an operator that has measured its working memory.
    threads.set_threads(n, raises=not _in_operator(sys._getframe(1)))
    clear_caches()  # a plan keeps the number that there was when it was made


def _in_operator(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_PLANNERS):
            return True
        frame = frame.f_back
    return False


def get_num_threads() -> int:
    """The number of threads used inside operators of this thread."""
    return threads.get_threads()


def set_num_interop_threads(n: int) -> None:
    """Accepted once, for compatibility: operators run one after the other here. Raises RuntimeError for a second call."""
    n = _checked("set_num_interop_threads", n)
    if _interop[0]:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or set_num_interop_threads called"
        )
    _interop[0] = n


def get_num_interop_threads() -> int:
    """The number set by `set_num_interop_threads`."""
    return _interop[0] or 1
