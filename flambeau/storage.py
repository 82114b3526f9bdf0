"""torch.storage: the classes of storages. Stands on ops.storages and ops.typed_storages, which have their methods."""

from __future__ import annotations

from flambeau.core.rebuild import load_from_bytes as _load_from_bytes
from flambeau.core.storage import Storage as UntypedStorage
from flambeau.ops.typed_storages import TypedStorage, _LegacyStorage
from flambeau.ops.typed_storages import always_warn as _set_always_warn_typed_storage_removal
from flambeau.ops.typed_storages import dtype_of_name as _get_dtype_from_pickle_storage_type
from flambeau.ops.typed_storages import dtypes_by_name as _storage_type_to_dtype_map
from flambeau.ops.typed_storages import forget_warning as _reset_warn_typed_storage_removal
from flambeau.ops.typed_storages import names_by_dtype as _dtype_to_storage_type_map
from flambeau.ops.typed_storages import warns_always as _get_always_warn_typed_storage_removal

__all__ = [
    "TypedStorage", "UntypedStorage", "_LegacyStorage", "_dtype_to_storage_type_map", "_get_always_warn_typed_storage_removal",
    "_get_dtype_from_pickle_storage_type", "_load_from_bytes", "_reset_warn_typed_storage_removal",
    "_set_always_warn_typed_storage_removal", "_storage_type_to_dtype_map",
]  # fmt: skip
