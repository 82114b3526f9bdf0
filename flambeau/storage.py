"""torch.storage: the classes of storages. Stands on ops.storages, which has their methods."""

from __future__ import annotations

from flambeau.core.rebuild import load_from_bytes as _load_from_bytes
from flambeau.core.storage import Storage as UntypedStorage
from flambeau.ops.storages import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage", "_load_from_bytes"]
