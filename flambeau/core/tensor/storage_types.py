"""What stands for a storage inside a pickle: the old typed names (FloatStorage, ...) and references to memory.

PyTorch's files name the element type by the class of storage it once had. Here such a name is a `StorageType` marker.
Stands on base; used by the readers, the writers and the rebuild functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from flambeau.base import dtype as dtypes


class StorageType:
    """The marker that a file writes as `torch FloatStorage`. dtype None: bytes without a type (UntypedStorage)."""

    __slots__ = ("dtype", "module", "name")

    def __init__(self, module: str, name: str, dtype: dtypes.dtype | None):
        self.module, self.name, self.dtype = module, name, dtype

    @property
    def itemsize(self) -> int:
        """Bytes per element, by which a file counts this storage."""
        return 1 if self.dtype is None else self.dtype.itemsize

    def __repr__(self) -> str:
        return f"<class '{self.module}.{self.name}'>"


UNTYPED = StorageType("torch.storage", "UntypedStorage", None)

_NAMES = {
    "Double": dtypes.float64, "Float": dtypes.float32, "Half": dtypes.float16, "BFloat16": dtypes.bfloat16,
    "Long": dtypes.int64, "Int": dtypes.int32, "Short": dtypes.int16, "Char": dtypes.int8, "Byte": dtypes.uint8,
    "QUInt8": dtypes.quint8, "QInt8": dtypes.qint8, "QInt32": dtypes.qint32,
    "QUInt4x2": dtypes.quint4x2, "QUInt2x4": dtypes.quint2x4,
    "Bool": dtypes.bool_, "ComplexDouble": dtypes.complex128, "ComplexFloat": dtypes.complex64,
}  # fmt: skip

#: dtype -> marker. Types that came later (uint16, float8, ...) have none; their tensors name the dtype themselves.
BY_DTYPE = {dtype: StorageType("torch", f"{name}Storage", dtype) for name, dtype in _NAMES.items()}

#: Full name in a file -> marker. Files from accelerators say torch.cuda.FloatStorage; the location tells where it was.
BY_NAME: dict[str, StorageType] = {
    "torch.storage.UntypedStorage": UNTYPED,
    **{f"torch.{marker.name}": marker for marker in BY_DTYPE.values()},
    **{f"torch.cuda.{marker.name}": marker for marker in BY_DTYPE.values()},
}


class StorageReference:
    """A storage together with the type of its elements (None: bytes): what a pickled tensor refers to. TypedStorage is one."""

    __slots__ = ("__weakref__", "dtype", "storage")

    def __init__(self, storage: Any, dtype: dtypes.dtype | None = None):
        self.storage, self.dtype = storage, dtype

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return 1 if self.dtype is None else self.dtype.itemsize

    @staticmethod
    def of(storage: Any, dtype: dtypes.dtype | None = None) -> StorageReference:
        """The reference to a storage: the same one while anybody holds it, by which pickle knows what it has written."""
        found = _references.get((id(storage), dtype))
        if found is None:
            found = _references[id(storage), dtype] = StorageReference(storage, dtype)
        return found


_references: WeakValueDictionary[tuple[int, dtypes.dtype | None], StorageReference] = WeakValueDictionary()

#: The room that writes and reads files. The namespace, which knows all rooms, says how to get it.
files: Callable[[], Any]
