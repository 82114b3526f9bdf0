"""torch.utils._content_store: tensors in a folder, each storage in a file that is named after what it holds.

Storages with the same bytes become one file, and what was written of one storage comes back on one storage. Stands on
torch.save; used by programs that keep many states of the same tensors.
"""

from __future__ import annotations

import functools
import hashlib
import os
from typing import Any
from weakref import WeakValueDictionary

import flambeau as torch

__all__ = ["ContentStoreReader", "ContentStoreWriter", "hash_storage"]


def hash_storage(storage: Any, *, stable_hash: bool = False) -> str:
    """A name for the bytes of a storage, 40 hexadecimal digits: equal bytes have equal names, on every machine."""
    return hashlib.sha1(bytes(storage), usedforsecurity=False).hexdigest()


def _facts(tensor: torch.Tensor, name: str) -> tuple[Any, ...]:
    """What is written of a tensor beside its storage: (dtype, name of the storage, offset, shape, strides, attributes)."""
    attributes = {"requires_grad": True} if tensor.requires_grad else {}
    return tensor.dtype, name, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), attributes


class ContentStoreWriter:
    """Writes tensors below a folder: `tensors/NAME` says how each lies on `storages/HASH`."""

    def __init__(self, loc: str, stable_hash: bool = False) -> None:
        self.loc = loc
        self.seen_storage_hashes: set[str] = set()
        self.stable_hash = stable_hash

    def write_storage(self, storage: Any) -> str:
        """Write the bytes of a storage, if they aren't there yet; their name."""
        name = hash_storage(storage, stable_hash=self.stable_hash)
        if name not in self.seen_storage_hashes:
            folder = os.path.join(self.loc, "storages")
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                torch.save(storage, path)
            self.seen_storage_hashes.add(name)
        return name

    def write_tensor(self, name: str, t: torch.Tensor) -> None:
        """Write a tensor under a name, which may have folders in it. A later one of that name replaces it."""
        path = os.path.join(self.loc, "tensors", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        torch.save(_facts(t, self.write_storage(t.untyped_storage())), path)


class ContentStoreReader:
    """Reads what ContentStoreWriter wrote.

    cache: whether a storage that is read again while it is alive is the same object.
    """

    def __init__(self, loc: str, *, cache: bool = True) -> None:
        self.loc = loc
        self.storage_cache: WeakValueDictionary[tuple[str, str], Any] | None = WeakValueDictionary() if cache else None

    def read_storage(self, h: str, *, device: Any = None) -> Any:
        """The storage of a name, on the CPU unless another device is given."""
        key = (h, "cpu" if device is None else str(device))
        held = None if self.storage_cache is None else self.storage_cache.get(key)
        if held is not None:
            return held
        path = os.path.join(self.loc, "storages", h)
        storage = torch.load(path, weights_only=True, map_location=device)._untyped_storage
        if self.storage_cache is not None:
            self.storage_cache[key] = storage
        return storage

    @functools.lru_cache  # noqa: B019 - one reader, few names
    def read_tensor_metadata(self, name: str) -> Any:
        """What is written of a tensor beside its storage. FileNotFoundError for a name that isn't there."""
        path = os.path.join(self.loc, "tensors", name)
        if not os.path.exists(path):
            raise FileNotFoundError(path)
        return torch.load(path, weights_only=True)

    def read_tensor(self, name: str, *, device: Any = None) -> torch.Tensor:
        """The tensor of a name, which shares memory with others that did when they were written."""
        dtype, held, offset, shape, strides, attributes = self.read_tensor_metadata(name)
        storage = self.read_storage(held, device=device)
        made = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, strides)
        return made.requires_grad_(attributes.get("requires_grad", False))
