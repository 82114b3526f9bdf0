"""Memory that several processes see: storages moved to shared pages, and how they are sent to other processes.

The pages belong to an anonymous file; its descriptor is what travels, so nothing has a name and nothing stays behind when a
process is killed. A forked child sees the pages as its parent does. Stands on storage; loaded when memory is first shared, or
with torch.multiprocessing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from multiprocessing import reduction
from typing import Any
from weakref import WeakValueDictionary

from flambeau.base.locks import short_lock
from flambeau.core.tensor import rebuild, storage
from flambeau.core.tensor.storage import Storage
from flambeau.core.tensor.storage_types import StorageReference
from flambeau.core.tensor.tensor import Tensor

_moving = short_lock()
_over_files: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()  # the storages of this process, by file


class SharedFile:
    """The anonymous file under a storage. `replaced` keeps the memory that the storage had before.

    Arrays and running kernels may still hold the address of that memory, so it is not given back while the storage lives.
    """

    shared = True

    def __init__(self, descriptor: int, nbytes: int):
        self.descriptor, self.identity = descriptor, _identity(descriptor)
        self.pages = mmap.mmap(descriptor, max(nbytes, 1))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.replaced: Any = None

    def __del__(self) -> None:
        os.close(self.descriptor)


def share(held: Any) -> None:
    """Move a storage's memory to shared pages; every tensor on it moves along. A storage that is shared stays as it is.

    An alias (`.data`) that was taken before stays on the old memory. Raises RuntimeError for a storage without memory, OSError
    where the system gives none.
    """
    if storage.without_memory(held):
        raise RuntimeError("_share_fd_: only available on CPU")
    storage.materialize(held)
    root = storage.root(held)
    with _moving:
        if not storage.is_shared(root):
            _move(root)
        for each in (storage.lender(root), held):
            if each is not None and each.ptr != root.ptr:
                storage.exchange(each, storage.wrap(root.ptr, root.capacity, root))


def descriptor_of(held: Any) -> int:
    """A descriptor of its own for the shared pages that a storage lies on, or moves to."""
    share(held)
    return os.dup(storage.root(held).owner.descriptor)


def _move(held: Any) -> None:
    nbytes = held.capacity
    descriptor = os.memfd_create("flambeau-tensor", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, max(nbytes, 1))
    except OSError:
        os.close(descriptor)
        raise
    file = SharedFile(descriptor, nbytes)
    moved = storage.wrap(file.address, nbytes, file)
    storage.copy_bytes(moved, held, nbytes)
    storage.exchange(held, moved)
    file.replaced = moved
    _over_files[file.identity] = held


def _identity(descriptor: int) -> tuple[int, int]:
    """What is a file's own while it is open anywhere."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def attach(sent: Any, nbytes: int) -> Any:
    """The storage over pages that another process has sent, or this one: what comes twice is one storage while it lives."""
    descriptor = sent.detach()
    key = _identity(descriptor)
    with _moving:
        made = _over_files.get(key)
        if made is None or made.capacity != nbytes or getattr(made.owner, "identity", None) != key:
            file = SharedFile(descriptor, nbytes)
            made = _over_files[key] = storage.wrap(file.address, nbytes, file)
        else:
            os.close(descriptor)
    return made


def _reduce_storage(held: Any) -> tuple[Any, ...]:
    share(held)
    return attach, (reduction.DupFd(storage.root(held).owner.descriptor), held.capacity)


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """How a tensor is taken apart for another process, which will see the same memory. RuntimeError for a result of the graph."""
    rebuild.refuse_graph(tensor)
    return tensor.__reduce_ex__(2)


def _reduce_reference(reference: StorageReference) -> tuple[Any, ...]:
    return StorageReference, (reference.storage, reference.dtype)


reduction.ForkingPickler.register(Storage, _reduce_storage)
reduction.ForkingPickler.register(StorageReference, _reduce_reference)
reduction.ForkingPickler.register(Tensor, reduce_tensor)
