"""torch.multiprocessing.reductions: references to storages by which programs tell whether tensors share memory."""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["StorageWeakRef"]


class StorageWeakRef:
    """A reference to a storage that doesn't keep it; equal for storages of the same memory. `cdata`: a number of that memory."""

    __slots__ = ("_reference", "cdata")

    def __init__(self, storage: Any) -> None:
        self.cdata = storage._cdata
        self._reference = weakref.ref(storage)

    def expired(self) -> bool:
        """Whether the storage is gone."""
        return self._reference() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata
