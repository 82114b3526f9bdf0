"""Storages whose elements have a dtype: torch.TypedStorage, and the old classes torch.FloatStorage and its siblings.

PyTorch deprecates them: every public use warns, once. What the package itself uses begins with an underscore and doesn't.
Stands on ops/interop/untyped_storage, whose storage of bytes lies under each; a file's storages (serialize) are of these classes.
"""

from __future__ import annotations

import copy
import copyreg
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.base.device import device as Device
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import get_default_dtype
from flambeau.base.naming import PACKAGE, public_module
from flambeau.base.warn import warn
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor import storage as memory
from flambeau.core.tensor.rebuild import reduce_storage
from flambeau.core.tensor.storage import Storage
from flambeau.core.tensor.storage_types import BY_DTYPE, StorageReference, StorageType
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.interop.untyped_storage import CONVERSIONS, Common, device_of, elements, made_of_bytes, need_memory, shown

_warning = {"always": False, "first": True}


def warn_removal() -> None:
    """The warning of every public use: the first time, or always if that was asked for."""
    if _warning["always"] or _warning["first"]:
        _warning["first"] = False
        warn(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
            "class. This should only matter to you if you are using storages directly.  To access UntypedStorage "
            "directly, use tensor.untyped_storage() instead of tensor.storage()"
        )


def always_warn(always: bool) -> None:
    """Whether every use warns, and not only the first."""
    _warning["always"] = always


def warns_always() -> bool:
    """What `always_warn` was told."""
    return _warning["always"]


def forget_warning() -> None:
    """Have the next use warn as the first."""
    _warning["first"] = True


_FORMS = (
    " * (*, torch.device device, torch.dtype dtype)\n * (int size, *, torch.device device, torch.dtype dtype)\n"
    " * (Sequence data, *, torch.device device, torch.dtype dtype)\n"
    " * (*, UntypedStorage wrap_storage, torch.dtype dtype)\n"
)
_OLD_FORMS = " * no arguments\n * (int size)\n * (Sequence data)\n * (*, UntypedStorage wrap_storage)\n"


def _refused(kind: type[Exception], who: str, forms: str, why: str) -> Exception:
    return kind(f"{who} received an invalid combination of arguments. Expected one of:\n{forms}{why}")


def _made(
    refuse: Callable[[type[Exception], str], Exception], arguments: tuple[Any, ...], wrapped: Any, dtype: DType, device: Any
) -> Any:
    """The storage of bytes that a constructor's arguments stand for; `refuse` makes its errors."""
    if wrapped is not None:
        if arguments:
            raise refuse(RuntimeError, "No positional arguments should be given when using 'wrap_storage'")
        if not isinstance(wrapped, Storage):
            raise refuse(TypeError, f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrapped)}")
        return wrapped
    if len(arguments) > 1:
        raise refuse(RuntimeError, "Too many positional arguments")
    if not isinstance(dtype, DType):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    given = arguments[0] if arguments else 0
    if hasattr(given, "__index__") and not isinstance(given, (Tensor, Sequence)):
        return made_of_bytes(int(given) * dtype.itemsize, device)
    if not isinstance(given, (Sequence, np.ndarray)):
        raise refuse(TypeError, f"Argument type not recognized: {type(given)}")
    made_of_bytes(0, device)  # refuses devices that aren't there
    return NAMESPACE["tensor"](given, dtype=dtype, device=Device(device or "cpu"))._storage


class TypedStorage(Common, StorageReference):
    """A storage whose elements have a dtype. Deprecated by PyTorch; use UntypedStorage, or a tensor.

    arguments: nothing, a number of elements, or a sequence of them; wrap_storage: the UntypedStorage to look at.
    """

    __module__ = public_module("storage")
    __slots__ = ()

    def __init__(self, *arguments: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None, _internal: bool = False):
        if not _internal:
            warn_removal()

        def refuse(kind: type[Exception], why: str) -> Exception:
            return _refused(kind, "TypedStorage.__init__", _FORMS, why)

        if wrap_storage is not None and not arguments:
            if dtype is None:
                raise refuse(RuntimeError, "Argument 'dtype' must be specified")
            if not isinstance(dtype, DType):
                raise refuse(TypeError, f"Argument 'dtype' must be torch.dtype, not {type(dtype)}")
            if device is not None:
                raise refuse(RuntimeError, "Argument 'device' should not be specified when 'wrap_storage' is given")
        element = get_default_dtype() if dtype is None else dtype
        super().__init__(_made(refuse, arguments, wrap_storage, element, device), element)

    # ---- what the package uses

    @property
    def _untyped_storage(self) -> Any:  # type: ignore[override]
        return self.storage

    @property
    def _dtype(self) -> Any:
        return self.dtype

    @property
    def _cdata(self) -> int:
        return self.storage._cdata

    def _tensor(self) -> Tensor:
        from flambeau.ops.quantized.tensor import CODES

        return elements(self.storage, CODES.get(self.dtype, self.dtype))  # type: ignore[arg-type, call-overload]

    def _like(self, held: Any, dtype: Any = None) -> TypedStorage:
        return of(held, dtype or self.dtype)

    def _size(self) -> int:
        return self.storage.capacity // self.itemsize

    def _nbytes(self) -> int:
        return self.storage.capacity

    def _element_size(self) -> int:
        return self.itemsize

    def _data_ptr(self) -> int:
        return self.storage.data_ptr()

    def _resize_(self, size: int) -> None:
        self.storage.resize_(size * self.itemsize)

    def _is_shared(self) -> bool:
        return memory.is_shared(self.storage)

    def _share_memory_(self) -> TypedStorage:
        self.storage.share_memory_()
        return self

    def _pickle_storage_type(self) -> str:
        return name_of(self.dtype)

    def _deepcopy(self, memo: dict[Any, Any]) -> TypedStorage:
        return self._like(copy.deepcopy(self.storage, memo))

    def _setitem(self, index: Any, value: Any) -> None:
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a {TypedStorage} with {type(index)}")
        if isinstance(value, (StorageReference, Storage)):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        if not memory.without_memory(self.storage):
            self._tensor()[index] = value

    def _getitem(self, index: Any) -> Any:
        need_memory(self.storage)
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if isinstance(index, bool):
            raise TypeError(f"can't index a {TypedStorage} with {type(index)}")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {TypedStorage} with {type(index)}")
        if not -self._size() <= index < self._size():
            raise IndexError(f"index {index} out of range for storage of size {self._size()}")
        return self._tensor()[index].item()

    def _weak_ref(self) -> int:
        return self.storage._weak_ref()

    def _expired(self, *reference: int) -> bool:
        return self.storage._expired(*reference)

    def _free_weak_ref(self, *reference: int) -> None:
        self.storage._free_weak_ref(*reference)

    # ---- Python's own

    def __len__(self) -> int:
        warn_removal()
        return self._size()

    def __repr__(self) -> str:
        return shown(self, f"TypedStorage(dtype={self.dtype}, device={device_of(self.storage)})")

    def __iter__(self) -> Any:
        warn_removal()
        return iter(self._tensor().tolist())

    def __getitem__(self, index: Any) -> Any:
        """The element at an index."""
        warn_removal()
        return self._getitem(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write an element, or the same to several."""
        warn_removal()
        self._setitem(index, value)

    def __copy__(self) -> TypedStorage:
        return self._like(self.storage.clone())

    def __deepcopy__(self, memo: dict[Any, Any]) -> TypedStorage:
        warn_removal()
        return self._deepcopy(memo)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.storage.capacity

    # ---- the public methods: facts

    @property
    def device(self) -> Device:
        """Where the memory is."""
        warn_removal()
        return device_of(self.storage)

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        """False."""
        warn_removal()
        return False

    @property
    def filename(self) -> str | None:
        """The file that writes reach, or None."""
        warn_removal()
        return self.storage.filename

    def untyped(self) -> Any:
        """The bytes under it."""
        warn_removal()
        return self.storage

    def size(self) -> int:
        """The number of elements."""
        warn_removal()
        return self._size()

    def nbytes(self) -> int:  # type: ignore[override]
        """The size in bytes."""
        warn_removal()
        return self.storage.capacity

    def element_size(self) -> int:
        """Bytes of an element."""
        warn_removal()
        return self.itemsize

    def data_ptr(self) -> int:
        """The address of the first element; 0 without memory."""
        warn_removal()
        return self.storage.data_ptr()

    def tolist(self) -> list[Any]:
        """The elements."""
        warn_removal()
        need_memory(self.storage)
        return self._tensor().tolist()

    def resizable(self) -> bool:
        """Whether the memory is the storage's own."""
        warn_removal()
        return self.storage.resizable()

    def pickle_storage_type(self) -> str:
        """The name under which a file lists it, such as "FloatStorage"."""
        warn_removal()
        return name_of(self.dtype)

    # ---- the public methods: changes and copies

    def resize_(self, size: int) -> None:
        """Change the number of elements."""
        warn_removal()
        self._resize_(size)

    def fill_(self, value: Any) -> TypedStorage:
        """Write one element everywhere."""
        warn_removal()
        self._setitem(slice(0, self._size()), value)
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Take over the bytes of a storage of the same size."""
        warn_removal()
        if memory.without_memory(source._untyped_storage) and not memory.without_memory(self.storage):
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        self.storage.copy_(source)
        return self

    def clone(self) -> TypedStorage:
        """A storage of its own with the same elements."""
        warn_removal()
        return self._like(self.storage.clone())

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """The storage itself, on the CPU."""
        warn_removal()
        return self._like(self.storage.to(device=device))

    def pin_memory(self, device: Any = None) -> Any:
        """RuntimeError: there is no accelerator."""
        warn_removal()
        return self.storage.pin_memory()

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class, such as "torch.FloatStorage"; with a class or a name, the elements in it."""
        warn_removal()
        return f"torch.{name_of(self.dtype)}" if dtype is None else converted(self._tensor(), dtype)

    def _share_fd_cpu_(self) -> tuple[int, int]:
        return self.storage._share_fd_cpu_()

    def _share_filename_cpu_(self) -> Any:
        return self.storage._share_filename_cpu_()

    def _write_file(self, *arguments: Any) -> Any:
        return self.storage._write_file(*arguments)

    @classmethod
    def from_buffer(cls, *arguments: Any, **named: Any) -> TypedStorage:
        """A copy of an object's bytes, as UntypedStorage.from_buffer; dtype: float32 unless given."""
        element = getattr(cls, "_of", None)
        if element is not None and ("dtype" in named or len(arguments) == 5):
            raise RuntimeError(
                "from_buffer: 'dtype' can only be specified in UntypedStorage.from_buffer and TypedStorage.from_buffer"
            )
        if len(arguments) < 5:
            named["dtype"] = element or named.get("dtype") or get_default_dtype()
        if named.pop("device", None) is not None:
            raise RuntimeError("from_buffer: Not available for other devices than the CPU")
        return of(Storage.from_buffer(*arguments, **named), named.get("dtype") or arguments[4])  # type: ignore[attr-defined]

    @classmethod
    def from_file(cls, filename: Any, shared: bool, size: int) -> TypedStorage:
        """The elements of a mapped file; shared: writes reach it, and it is made longer if it must."""
        warn_removal()
        element = getattr(cls, "_of", None)
        if element is None:
            raise RuntimeError("from_file can only be called on derived classes")
        return of(Storage.from_file(filename, shared, size * element.itemsize), element)  # type: ignore[attr-defined]


def of(held: Any, dtype: Any) -> TypedStorage:
    """A storage of bytes seen as elements of a dtype."""
    made = TypedStorage.__new__(TypedStorage)
    made.storage, made.dtype = held, dtype
    return made


def retyped(found: Any, marker: StorageType) -> Any:
    """A storage of a file as another reference to it has it: of no elements, one may be met as several types."""
    if isinstance(found, StorageReference) and found.dtype is not marker.dtype and not found.storage.capacity:
        return found.storage if marker.dtype is None else of(found.storage, marker.dtype)
    return found


copyreg.pickle(TypedStorage, reduce_storage)  # type: ignore[arg-type]


def name_of(dtype: Any) -> str:
    """The name of the old class, such as "FloatStorage"."""
    marker = BY_DTYPE.get(dtype)
    return f"{dtype.scalar_name}Storage" if marker is None else marker.name


def converted(given: Tensor, kind: Any) -> TypedStorage:
    """Elements in the dtype of a class of storages, or of its name."""
    if isinstance(kind, str):
        kind = KINDS.get(kind.rpartition(".")[2], kind)
    dtype = getattr(kind, "_of", kind)
    if not isinstance(dtype, DType):
        raise AttributeError(f"{kind!r} is no class of storages")
    return of(given.to(dtype)._storage, dtype)


for _name in CONVERSIONS:
    setattr(TypedStorage, _name, getattr(Storage, _name))


# ---------------------------------------------------------------- the classes of one dtype each


class _LegacyStorageMeta(type):
    """The class of torch.FloatStorage and its siblings: a TypedStorage of its dtype is an instance."""

    _of: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is TypedStorage and instance.dtype is cls._of

    @property
    def dtype(cls) -> Any:
        """The dtype of the elements."""
        warn_removal()
        return cls._of

    @property
    def _dtype(cls) -> Any:
        return cls._of


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """What torch.FloatStorage and its siblings are made from; calling one gives a TypedStorage."""

    __module__ = public_module("storage")
    _of: Any = None

    def __new__(
        cls,
        *arguments: Any,
        wrap_storage: Any = None,
        dtype: Any = None,
        device: Any = None,  # type: ignore[misc]
        _internal: bool = False,
    ) -> TypedStorage:
        if not _internal:
            warn_removal()
        if cls._of is None:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")

        def refuse(kind: type[Exception], why: str) -> Exception:
            return _refused(kind, f"{cls}.__new__", _OLD_FORMS, why)

        for name, value in (("device", device), ("dtype", dtype)):
            if value is not None:
                raise refuse(RuntimeError, f"Keyword argument '{name}' cannot be specified")
        return of(_made(refuse, arguments, wrap_storage, cls._of, None), cls._of)


#: torch.FloatStorage and its siblings.
KINDS: dict[str, Any] = {
    marker.name: _LegacyStorageMeta(
        marker.name,
        (_LegacyStorage,),
        {"_of": dtype, "__module__": PACKAGE, "__doc__": f"A storage of {dtype}; deprecated, use a tensor."},
    )
    for dtype, marker in BY_DTYPE.items()
}


def names_by_dtype() -> dict[Any, str]:
    """The name of the old class by dtype."""
    return {dtype: marker.name for dtype, marker in BY_DTYPE.items()}


def dtypes_by_name() -> dict[str, Any]:
    """The dtype by the name of the old class."""
    return {marker.name: dtype for dtype, marker in BY_DTYPE.items()}


def dtype_of_name(name: str) -> Any:
    """The dtype that a file means by the name of an old class. KeyError for another name."""
    try:
        return dtypes_by_name()[name]
    except KeyError:
        raise KeyError(f'pickle storage type "{name}" is not recognized') from None


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A vector of `size` elements over a mapped file; shared: writes reach it, and it is made longer if it must.

    Raises RuntimeError for a file that is too short or isn't there, or a device other than the CPU.
    """
    if Device(device or "cpu").type != "cpu":
        raise RuntimeError(f"torch.from_file() maps a file on the CPU, not on {device}")
    element = dtype or get_default_dtype()
    made = elements(Storage.from_file(filename, bool(shared), (size or 0) * element.itemsize), element)  # type: ignore[attr-defined]
    return made.requires_grad_() if requires_grad else made
