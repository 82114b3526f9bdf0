"""The name that the system shows of a thread, which torch.multiprocessing can set and read. Linux only."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_NAME, _PR_GET_NAME = 15, 16
_LONGEST = 15


def _prctl(option: int, name: ctypes.Array[ctypes.c_char]) -> None:
    if not sys.platform.startswith("linux"):
        raise NotImplementedError(f"names of threads are not implemented in flambeau on {sys.platform}; use threading's names")
    if ctypes.CDLL(None, use_errno=True).prctl(option, name, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl failed")


def _set_thread_name(name: str) -> None:
    """Name the calling thread; the system keeps 15 bytes."""
    _prctl(_PR_SET_NAME, ctypes.create_string_buffer(name.encode()[:_LONGEST]))


def _get_thread_name() -> str:
    """The name of the calling thread."""
    name = ctypes.create_string_buffer(_LONGEST + 1)
    _prctl(_PR_GET_NAME, name)
    return name.value.decode(errors="replace")
