"""torch.storage: the classes of storages. Stands on ops.interop.untyped_storage and ops.interop.typed_storage, which have
their methods."""

from __future__ import annotations

from flambeau.core.tensor.rebuild import load_from_bytes as _load_from_bytes
from flambeau.core.tensor.storage import Storage as UntypedStorage
from flambeau.ops.interop.typed_storage import TypedStorage, _LegacyStorage
from flambeau.ops.interop.typed_storage import always_warn as _set_always_warn_typed_storage_removal
from flambeau.ops.interop.typed_storage import dtype_of_name as _get_dtype_from_pickle_storage_type
from flambeau.ops.interop.typed_storage import dtypes_by_name as _storage_type_to_dtype_map
from flambeau.ops.interop.typed_storage import forget_warning as _reset_warn_typed_storage_removal
from flambeau.ops.interop.typed_storage import names_by_dtype as _dtype_to_storage_type_map
from flambeau.ops.interop.typed_storage import warns_always as _get_always_warn_typed_storage_removal

__all__ = [
    "TypedStorage", "UntypedStorage", "_LegacyStorage", "_dtype_to_storage_type_map", "_get_always_warn_typed_storage_removal",
    "_get_dtype_from_pickle_storage_type", "_load_from_bytes", "_reset_warn_typed_storage_removal",
    "_set_always_warn_typed_storage_removal", "_storage_type_to_dtype_map",
]  # fmt: skip
