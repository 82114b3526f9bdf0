"""Storage: the memory that tensors share, with the counter of in-place writes.

Stands on the native Block (codegen.runtime.memory). One Storage may be seen through many tensors; it is freed with the last of
them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np

from flambeau.base.locks import short_lock
from flambeau.codegen.runtime import launch, memory, messages, state, weight_cache
from flambeau.codegen.targets.cpu import CPU

if TYPE_CHECKING:

    class Storage:
        """Memory of `capacity` bytes at address `ptr`; `version` counts in-place writes. RuntimeError
        for memory of inference mode, whose count only `writes` tells; `inference` is its mark. Made by `empty` and `wrap`;
        gives its bytes by the buffer protocol. `address` is `ptr` for who won't read or write there; `serial`, the number of its
        memory."""

        ptr: int
        address: int
        serial: int
        capacity: int
        exports: int
        version: int
        writes: int
        inference: int
        epoch: int
        mark: int
        owner: Any
        size_class: int
else:
    Storage = launch.Block


_BYTE = np.dtype(np.uint8)
WRITABLE = memory.WRITABLE  # the mark of an alias of inference memory that may be written to anywhere
_counting = short_lock()
COPY_ON_WRITE = memory.COPY_ON_WRITE  # that of memory which is copied before it is written to
LENT = memory.LENT  # the size class of memory that NumPy was handed, which can't grow any more


def empty(nbytes: int) -> Any:
    """Fresh, uninitialised memory, 64-byte aligned. Raises RuntimeError if there is not as much."""
    if not 0 <= nbytes < 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed: {nbytes} bytes")
    return CPU.allocate(nbytes)


def empty_without_memory(nbytes: int) -> Any:
    """What a tensor without data stands on: a size, and no address."""
    return launch.new_storage(~nbytes)


def begin_epoch() -> int:
    """The number, greater than those before, that memory allocated from now on has as its `epoch`."""
    with _counting:
        state.words[state.EPOCH] += 1
        epoch: int = state.words[state.EPOCH]
    return epoch


_lenders: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by the block that their memory went to with the first alias


_lazy: WeakKeyDictionary[Any, WeakSet[Any]] = WeakKeyDictionary()  # by memory: the storages that are copied on write


def lazy_copy(held: Any) -> Any:
    """A storage on the same memory, which is copied when either is written to; None for memory that others may write to without
    being asked: that of an array, or one that has an alias.
    """
    if held.exports or held.size_class in (LENT, memory.OWNED_ELSEWHERE, memory.META):
        return None
    owner = launch.owner_of(held)
    made = launch.wrap_storage(held.address, held.capacity, owner)
    made.inference, made.epoch = held.inference, held.epoch
    _lazy.setdefault(owner, WeakSet()).update((held, made))
    held.size_class = made.size_class = COPY_ON_WRITE
    return made


def materialize(held: Any) -> None:
    """Give a storage that is copied on write memory of its own, whatever tensors are on it: that which it has if no other storage
    is on it any more, else a copy. Others stay as they are.
    """
    if held.size_class != COPY_ON_WRITE:
        return
    sharing = _lazy[held.owner]
    sharing.discard(held)
    held.size_class = memory.OWNED_ELSEWHERE
    if sharing:
        _move(held, held.capacity)


state.words[state.MATERIALIZE] = id(materialize)


def alias(held: Any) -> Any:
    """The same memory with a counter of writes of its own."""
    materialize(held)
    if held.size_class == memory.META:
        made = empty_without_memory(held.capacity)
    else:
        owned = held.size_class != memory.OWNED_ELSEWHERE
        owner = launch.owner_of(held)
        if owned and owner is not held:
            _lenders[id(owner)] = held
        made = launch.wrap_storage(held.address, held.capacity, owner)
    if held.inference:
        made.inference = WRITABLE
    made.epoch = held.epoch
    return made


def part(held: Any, start: int, nbytes: int) -> Any:
    """A stretch of a storage's memory, with a counter of writes of its own."""
    materialize(held)
    return wrap(held.address + start, nbytes, launch.owner_of(held))


def wrap(address: int, nbytes: int, owner: Any) -> Any:
    """Memory that belongs to `owner` (a NumPy array, a mapped file), which is kept alive."""
    return launch.wrap_storage(address, nbytes, owner)


def wrap_array(array: Any, nbytes: int) -> Any:
    """The `nbytes` bytes from the first element of a NumPy array on, which is kept alive."""
    return launch.wrap_buffer(array, nbytes)


def without_memory(storage: Any) -> bool:
    """Whether it belongs to a tensor that has no data: one on the meta device, or one that a transform answers for."""
    return storage.size_class == memory.META


def bytes_of(storage: Any) -> np.ndarray:
    """An array of a storage's bytes, which keeps the memory from moving while it, or an array over it, lives. RuntimeError if
    there are none: NumPy would lay an array that wants some on memory of its own.
    """
    if not storage.capacity:
        raise RuntimeError(messages.OUTSIDE)
    return np.frombuffer(storage, _BYTE)


def copy_bytes(into: Any, source: Any, count: int) -> None:
    """Copy the first `count` bytes of one storage to another, of as many as both have."""
    materialize(into)
    launch.copy_bytes(into, source, count)


def show(storage: Any) -> None:
    """Somebody gets the address of the memory, and may write there without being seen."""
    materialize(storage)
    storage.mark = memory.EXPOSED
    if isinstance(storage.owner, Storage):
        storage.owner.mark = memory.EXPOSED


def resizable(storage: Any) -> bool:
    """Whether the memory can get another size: it is the allocator's, no part of a storage, and was never handed to NumPy."""
    whole = root(storage)
    owned = whole.size_class not in (memory.OWNED_ELSEWHERE, memory.LENT)
    return owned and (storage.address, storage.capacity) == (whole.address, whole.capacity) and not storage.exports


_replaced: dict[int, Any] = {}  # memory that a launch may still have the address of


def resize(storage: Any, nbytes: int) -> None:
    """Give a storage another size, and all tensors on it with it: its memory moves, what was there is kept as far as it fits, and
    what is new is undefined. An alias (`.data`) stays on the old memory.

    Raises RuntimeError for memory that belongs to another object (NumPy, a mapped file) or that an array shows.
    """
    if without_memory(storage):
        launch.set_size(storage, nbytes)
        return
    materialize(storage)
    if not resizable(storage):
        raise RuntimeError("Trying to resize storage that is not resizable")
    _move(storage, nbytes)


def _move(storage: Any, nbytes: int) -> None:
    """Give a storage fresh memory of so many bytes, with those of its bytes that fit."""
    replaced = tuple(_replaced)
    if not state.words[state.RUNNING]:  # whoever had an address in these has ended
        for key in replaced:
            _replaced.pop(key, None)
    moved = empty(nbytes)
    launch.copy_bytes(moved, storage, min(nbytes, storage.capacity))
    launch.exchange(storage, moved)
    if state.words[state.RUNNING]:
        _replaced[id(moved)] = moved


def root(storage: Any) -> Any:
    """The storage whose memory this one is an alias of (`.data` has a count of writes of its own), or itself."""
    while storage.size_class != COPY_ON_WRITE and isinstance(storage.owner, Storage):
        storage = storage.owner
    return storage


def lender(root: Any) -> Any:
    """The storage that was there before the first of a root's aliases, and lives; or None."""
    return _lenders.get(id(root))


def is_shared(storage: Any) -> bool:
    """Whether other processes can see the memory (core.tensor.shared_memory)."""
    return getattr(root(storage).owner, "shared", False)


def exchange(one: Any, other: Any) -> None:
    """Let two storages of the same size change their memory: what stood on the one stands on the memory of the other."""
    if one.capacity != other.capacity:
        raise ValueError(f"storages that change their memory must have one size, not {one.capacity} and {other.capacity} bytes")
    materialize(one)
    materialize(other)
    launch.exchange(one, other)


def _forked() -> None:
    """What other threads were running ended with the fork."""
    state.words[state.RUNNING] = state.words[state.WRITING] = 0


os.register_at_fork(after_in_child=_forked)


def memory_statistics() -> dict[str, int]:
    """What the caching allocator holds: bytes in tensors now and at most, bytes kept for reuse, allocations so far, and the bytes
    of those in tensors that are packed weights.
    """
    words = state.words
    return {
        "allocated_bytes": words[state.ALLOCATED],
        "peak_allocated_bytes": words[state.ALLOCATED_PEAK],
        "cached_bytes": words[state.CACHED],
        "allocations": words[state.ALLOCATIONS],
        "weight_cache_bytes": weight_cache.total(),
    }


def reset_peak() -> None:
    state.words[state.ALLOCATED_PEAK] = state.words[state.ALLOCATED]


def empty_cache() -> None:
    """Give the memory kept for reuse back to the system, and packed weights."""
    weight_cache.clear()
    launch.empty_cache()
