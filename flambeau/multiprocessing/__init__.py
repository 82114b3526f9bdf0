"""torch.multiprocessing: Python's multiprocessing, with `spawn`. A tensor is sent by moving its memory to shared pages."""

from __future__ import annotations

import multiprocessing as _multiprocessing
from multiprocessing import *
from multiprocessing.reduction import ForkingPickler as _Pickler
from typing import Any as _Any

from flambeau.core.tensor import shared_memory as _shared_memory  # registers how tensors are sent
from flambeau.multiprocessing._thread_names import _get_thread_name, _set_thread_name
from flambeau.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)
from flambeau.ops.interop.typed_storage import TypedStorage as _TypedStorage

__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


def _typed(storage: _Any, dtype: _Any) -> _TypedStorage:
    return _TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


_Pickler.register(_TypedStorage, lambda sent: (_typed, (sent.untyped(), sent.dtype)))
_STRATEGIES = ("file_descriptor", "file_system")
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The names of the ways in which tensors travel between processes."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """The way that was chosen."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose by name. Under either, a descriptor of an anonymous file travels, which needs no clearing up."""
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}")
    _strategy = new_strategy
