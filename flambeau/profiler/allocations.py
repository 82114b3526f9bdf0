"""Memory while a profiler measures it: what tensors take, and when it is given back.

Storages are found on the results of what is measured; that one is new is told by its epoch. It is watched from then on, by a
weak reference: memory that one profiler saw taken, a later one sees given back. While no profiler measures memory, nothing is
looked at.
Stands on core.tensor.storage; used by flambeau.profiler.recorder.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.base.device import device as Device
from flambeau.codegen.runtime import memory
from flambeau.core.tensor.storage import begin_epoch
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Identities", "Watch"]

_CPU = Device("cpu")
_lock = threading.RLock()  # a storage may die while another is looked at
_watches: list[Watch] = []
_held: dict[int, _Held] = {}  # by the storage's address as an object
_total = 0


class _Held(weakref.ref):  # type: ignore[type-arg]
    """A living storage that a profiler saw taken, and what memory it had when it was last looked at."""

    __slots__ = ("at", "ptr", "size")
    at: int
    ptr: int
    size: int


class Watch:
    """Tells report(address, bytes, bytes held in all) of memory that is taken, and given back (as negative bytes)."""

    def __init__(self, report: Callable[[int, int, int], None]) -> None:
        self.report = report
        self.epoch = begin_epoch()

    def start(self) -> None:
        """Begin."""
        _watches.append(self)

    def stop(self) -> None:
        """End."""
        if self in _watches:
            _watches.remove(self)

    def look(self, tensors: Iterable[Tensor]) -> None:
        """Look at the memory of tensors that a call gave."""
        for tensor in tensors:
            storage = getattr(tensor, "_storage", None)
            if storage is None or storage.size_class in (memory.META, memory.LENT):
                continue
            with _lock:
                held: Any = _held.get(id(storage))
                if held is not None and held() is storage:
                    if held.ptr != storage.ptr:
                        self._moved(held, storage)
                elif storage.epoch >= self.epoch and storage.nbytes() and storage.size_class != memory.OWNED_ELSEWHERE:
                    made = _Held(storage, _forget)
                    made.at, made.ptr, made.size = id(storage), storage.ptr, storage.nbytes()
                    _held[made.at] = made
                    _tell(made.ptr, made.size)

    def _moved(self, held: _Held, storage: Any) -> None:
        before = held.ptr, held.size
        held.ptr, held.size = storage.ptr, storage.nbytes()
        if held.size:
            _tell(held.ptr, held.size)
        if before[1]:
            _tell(before[0], -before[1])


def _forget(held: _Held) -> None:
    with _lock:
        if _held.get(held.at) is held:
            del _held[held.at]
            if held.size:
                _tell(held.ptr, -held.size)


def _tell(ptr: int, size: int) -> None:
    global _total
    _total += size
    for watch in tuple(_watches):
        watch.report(ptr, size, _total)


class Identities:
    """A number for every tensor that stays its own after its end: an address is used again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._fresh = 1 << 60

    def of(self, tensor: Tensor) -> int:
        """The tensor's number: its address, unless another one had that before."""
        at = id(tensor)
        known = self._known.get(at)
        if known is not None and known[0]() is tensor:
            return known[1]
        number = at
        if known is not None:
            self._fresh += 1
            number = self._fresh
        self._known[at] = weakref.ref(tensor), number
        return number
