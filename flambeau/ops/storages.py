"""What programs do with a storage itself: `UntypedStorage`'s methods, and the storages of one dtype (`TypedStorage`) over them.

A storage is the native block of core.storage; here it gets PyTorch's methods, which look at its bytes through uint8 tensors.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from flambeau.base.device import device as Device
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import get_default_dtype, uint8
from flambeau.base.layout import Layout
from flambeau.base.naming import PACKAGE, public_module
from flambeau.base.notices import warn_once
from flambeau.core import storage as memory
from flambeau.core.derive import NAMESPACE, public
from flambeau.core.storage import Storage
from flambeau.core.storage_types import BY_DTYPE
from flambeau.core.tensor import Tensor, empty_layout, tensor_from

_CPU, _META = Device("cpu"), Device("meta")


def _device(held: Any) -> Device:
    return _META if memory.without_memory(held) else _CPU


def _elements(held: Any, dtype: DType = uint8) -> Tensor:
    """A storage's memory as a vector."""
    return tensor_from(held, 0, Layout.contiguous((held.capacity // dtype.itemsize,), dtype, _device(held)))


def _need_memory(held: Any) -> None:
    if memory.without_memory(held):
        raise NotImplementedError("Not available for 'meta' device type")


def _show(self: Any, name: str) -> str:
    if memory.without_memory(self if isinstance(self, Storage) else self._held):
        values = "..."
    else:
        values = "\n ".join(str(x) for x in self.tolist())
        values = f" {values}"
    return f"{values}\n[torch.storage.{name} of size {len(self)}]"


class _Common:
    """What storages of bytes and storages of one dtype answer alike."""

    is_cuda = is_hpu = is_sparse = False

    def __iter__(self: Any) -> Iterator[Any]:
        return iter(self.tolist())

    def __copy__(self: Any) -> Any:
        return self.clone()

    def get_device(self) -> None:
        """None: there are no accelerators whose number it could be."""

    def cpu(self) -> Any:
        """The storage itself. NotImplementedError for one without memory."""
        if memory.without_memory(self.untyped()):  # type: ignore[attr-defined]
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return self

    def is_shared(self) -> bool:
        """Whether other processes can see the memory."""
        return memory.is_shared(self.untyped())  # type: ignore[attr-defined]

    def share_memory_(self) -> Any:
        """Move the memory to pages that forked children see, and processes to which it is sent. RuntimeError without memory."""
        from flambeau.core.shared_memory import share
        share(self.untyped())  # type: ignore[attr-defined]
        return self

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the memory is locked for an accelerator."""
        return False


# ---------------------------------------------------------------- storages of bytes


class _Untyped(_Common):
    """The methods of torch.UntypedStorage; they are put on the native type."""

    is_sparse_csr = False
    filename = None

    def __len__(self: Any) -> int:
        return self.capacity

    size = nbytes = __len__

    def __repr__(self: Any) -> str:
        return _show(self, f"UntypedStorage(device={_device(self)})")

    def __getitem__(self: Any, index: Any) -> Any:
        """The byte at an index, or a storage over a slice of the bytes. IndexError outside, RuntimeError for steps."""
        _need_memory(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(self.capacity)
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            return memory.wrap(self.ptr + start, max(stop - start, 0), self)
        if isinstance(index, bool) or not hasattr(index, "__index__"):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        at = index.__index__()
        if not -self.capacity <= at < self.capacity:
            raise IndexError(f"index {at} out of range for storage of size {self.capacity}")
        return int(_elements(self)[at].item())

    def __setitem__(self: Any, index: Any, value: int) -> None:
        """Write a byte, or the same byte to a slice."""
        _need_memory(self)
        if isinstance(index, slice):
            self[index].fill_(value)
        else:
            self[index]         # checks
            _elements(self)[index.__index__()] = value

    def __bytes__(self: Any) -> bytes:
        return _elements(self).numpy().tobytes()

    def __deepcopy__(self: Any, memo: dict[Any, Any]) -> Any:
        if memory.without_memory(self):
            return self.clone()
        # an alias of the same bytes (`.data`), which copy.deepcopy may meet as well, keeps sharing them
        key = ("storage", id(memory.root(self)), self.ptr, self.capacity)
        if key not in memo:
            memo[key] = made = memory.empty(self.capacity)
            memory.copy_bytes(made, self, self.capacity)
        return memo[key]

    def __reduce__(self: Any) -> Any:
        return _storage_of_bytes, (bytes(self),)

    def data_ptr(self: Any) -> int:
        """The address of the first byte; 0 without memory."""
        return self.ptr

    @property
    def _cdata(self: Any) -> int:
        return id(memory.root(self))

    @property
    def device(self: Any) -> Device:
        """Where the memory is."""
        return _device(self)

    def element_size(self) -> int:
        """1: bytes."""
        return 1

    def resizable(self: Any) -> bool:
        """Whether the memory is the storage's own."""
        return not memory.owned_elsewhere(self)

    def resize_(self: Any, size: int) -> Any:
        """Not supported, unless the size is the storage's own. RuntimeError for memory of another object."""
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")
        if size != self.capacity:
            raise NotImplementedError("storages can't be resized here; make a tensor of the new size and copy what is wanted")
        return self

    def tolist(self: Any) -> list[int]:
        """The bytes."""
        _need_memory(self)
        return _elements(self).tolist()

    def fill_(self: Any, value: int) -> Any:
        """Write one byte everywhere."""
        _elements(self).fill_(value)
        return self

    def copy_(self: Any, source: Any, non_blocking: bool = False) -> Any:
        """Take over the bytes of a storage of the same size. RuntimeError for another size."""
        if source.nbytes() != self.capacity:
            raise RuntimeError(f"size does not match, self was {self.capacity} bytes but src was {source.nbytes()} bytes")
        _elements(self).copy_(_elements(source.untyped()))
        return self

    def clone(self: Any) -> Any:
        """A storage of its own with the same bytes."""
        return _elements(self).clone()._storage

    def new(self) -> Any:
        """A storage of no bytes."""
        return memory.empty(0)

    def byteswap(self: Any, dtype: DType) -> None:
        """Turn the bytes of each element of `dtype` (of each part of a complex one) round."""
        width = dtype.itemsize // (2 if dtype.is_complex else 1)
        if width > 1:
            _elements(self).numpy().view(f"u{width}").byteswap(inplace=True)

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        """The storage itself, on the CPU; one without memory, of the same size, on meta."""
        wanted = Device(device)
        return self if wanted == _device(self) else _made_of(self.capacity, device=wanted)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class."""
        return "torch.storage.UntypedStorage" if dtype is None else self._to_type(dtype)  # type: ignore[attr-defined]

    def _to_type(self: Any, dtype: Any) -> Any:
        """Every byte as a number of `dtype`."""
        return TypedStorage(wrap_storage=_elements(self).to(dtype)._storage, dtype=dtype, _internal=True)

    def untyped(self) -> Any:
        """The storage itself."""
        return self

    def pin_memory(self, device: Any = "cuda") -> Any:
        """RuntimeError: there is no accelerator."""
        raise RuntimeError("Cannot access accelerator device when none is available.")

    @staticmethod
    def from_buffer(buffer: Any, byte_order: str | None = None, *, dtype: DType, count: int = -1, offset: int = 0) -> Any:
        """A copy of an object's bytes; byte_order: "little", "native" or "big", in which multi-byte elements are given.
        RuntimeError without it for such elements.
        """
        if byte_order is None and dtype.itemsize > 1:
            raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
        made = NAMESPACE["frombuffer"](bytearray(buffer), dtype=dtype, count=count, offset=offset).clone()._storage
        if byte_order == "big":
            made.byteswap(dtype)
        return made

    @staticmethod
    def from_file(filename: str, shared: bool = False, nbytes: int = 0) -> Any:
        """A storage over a mapped file; shared: writes reach the file, which is made longer if it must."""
        if shared:
            with open(filename, "ab") as file:
                file.truncate(max(file.tell(), nbytes))
        mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,)) if nbytes else np.empty(0, np.uint8)
        return memory.wrap_array(mapped, nbytes)


def _storage_of_bytes(data: bytes) -> Any:
    return _Untyped.from_buffer(data, dtype=uint8) if data else memory.empty(0)


def _made_of(*arguments: Any, device: Any = "cpu") -> Any:
    """torch.UntypedStorage(): of a number of bytes, or of a sequence of them. RuntimeError for other items."""
    given = arguments[0] if arguments else 0
    if isinstance(given, int):
        if given < 0:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:98] ((ptrdiff_t)nbytes) >= 0. alloc_cpu() seems to have been "
                               f"called with negative number: {given % (1 << 64)}")
        return empty_layout(Layout.contiguous((given,), uint8, Device(device)))._storage
    for item in given:
        if not isinstance(item, int):
            raise RuntimeError(f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(given).__name__}), "
                               f"but one of the items was of type {type(item).__name__} instead of int")
    return NAMESPACE["tensor"](list(given), dtype=uint8)._storage


Storage.__new__ = lambda cls, *arguments, **options: _made_of(*arguments, **options)   # type: ignore[assignment]
for _name, _member in {**vars(_Common), **vars(_Untyped)}.items():
    if _name not in ("__module__", "__doc__", "__dict__", "__weakref__"):
        setattr(Storage, _name, _member)


# ---------------------------------------------------------------- storages of one dtype


def _warn() -> None:
    warn_once("TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
                  "class. This should only matter to you if you are using storages directly.  To access UntypedStorage "
                  "directly, use tensor.untyped_storage() instead of tensor.storage()")


class TypedStorage(_Common):
    """A storage whose elements have a dtype. Deprecated by PyTorch; use UntypedStorage, or a tensor.

    arguments: nothing, a number of elements, or a sequence of them; wrap_storage: the UntypedStorage to look at.
    """

    __module__ = public_module("storage")

    _of: DType | None = None

    def __init__(self, *arguments: Any, wrap_storage: Any = None, dtype: DType | None = None, device: Any = None,
                 _internal: bool = False):
        if not _internal:
            _warn()
        if len(arguments) > 1:
            raise RuntimeError(f"{type(self).__name__}() takes at most 1 positional argument, but got {len(arguments)}")
        self.dtype: DType = self._of or dtype or get_default_dtype()
        if wrap_storage is not None:
            if not isinstance(wrap_storage, Storage):
                raise TypeError(f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
            self._held: Any = wrap_storage
        elif arguments and not isinstance(arguments[0], int):
            self._held = NAMESPACE["tensor"](list(arguments[0]), dtype=self.dtype)._storage
        else:
            self._held = memory.empty((arguments[0] if arguments else 0) * self.dtype.itemsize)

    def _tensor(self) -> Tensor:
        return _elements(self._held, self.dtype)

    def __len__(self) -> int:
        return self._held.capacity // self.dtype.itemsize

    size = __len__

    def __repr__(self) -> str:
        return _show(self, f"TypedStorage(dtype={self.dtype}, device={self.device})")

    def __getitem__(self, index: Any) -> Any:
        """The element at an index."""
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return self._tensor()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write an element, or several."""
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        self._tensor()[index] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self.dtype is other.dtype and self._held is other._held

    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict[Any, Any]) -> TypedStorage:
        return self._like(copy.deepcopy(self._held, memo))

    def __reduce__(self) -> Any:
        return _typed, (self._held, self.dtype)

    def _like(self, held: Any) -> TypedStorage:
        return TypedStorage(wrap_storage=held, dtype=self.dtype, _internal=True)

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self._held.device

    def untyped(self) -> Any:
        """The bytes under it."""
        return self._held

    @property
    def _untyped_storage(self) -> Any:
        return self._held

    def nbytes(self) -> int:
        """The size in bytes."""
        return self._held.capacity

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._held.ptr

    def tolist(self) -> list[Any]:
        """The elements."""
        _need_memory(self._held)
        return self._tensor().tolist()

    def fill_(self, value: Any) -> TypedStorage:
        """Write one element everywhere."""
        self._tensor().fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> TypedStorage:
        """Take over the bytes of a storage of the same size."""
        self._held.copy_(source.untyped())
        return self

    def clone(self) -> TypedStorage:
        """A storage of its own with the same elements."""
        return self._like(self._held.clone())

    def resizable(self) -> bool:
        """Whether the memory is the storage's own."""
        return self._held.resizable()

    def resize_(self, size: int) -> None:
        """Not supported, unless the size is the storage's own."""
        self._held.resize_(size * self.dtype.itemsize)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class, such as "torch.FloatStorage"; with a dtype, the elements in it."""
        if dtype is None:
            return f"torch.{_name_of(self.dtype)}"
        return TypedStorage(wrap_storage=self._tensor().to(dtype)._storage, dtype=dtype, _internal=True)

    def pickle_storage_type(self) -> str:
        """The name under which a file lists it, such as "FloatStorage"."""
        return _name_of(self.dtype)


def _typed(held: Any, dtype: DType) -> TypedStorage:
    return TypedStorage(wrap_storage=held, dtype=dtype, _internal=True)


def _name_of(dtype: DType) -> str:
    """Such as "FloatStorage"."""
    marker = BY_DTYPE.get(dtype)
    return f"{dtype.scalar_name}Storage" if marker is None else marker.name


def _conversion(name: str, dtype: DType) -> None:
    def convert(self: Any) -> TypedStorage:
        return self.type(dtype)
    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The elements as {dtype}."
    setattr(Storage, name, convert)
    setattr(TypedStorage, name, convert)


for _dtype, _marker in BY_DTYPE.items():
    _conversion({"ComplexFloatStorage": "complex_float", "ComplexDoubleStorage": "complex_double"}.get(
        _marker.name, _marker.name.removesuffix("Storage").lower()), _dtype)

#: torch.FloatStorage and its siblings.
KINDS: dict[str, type] = {
    marker.name: type(marker.name, (TypedStorage,), {
        "_of": dtype, "__module__": PACKAGE, "__doc__": f"A storage of {dtype}; deprecated, use a tensor."})
    for dtype, marker in BY_DTYPE.items()}


@public(namespace=False)
def storage(self: Tensor) -> TypedStorage:
    """The memory behind the tensor as a TypedStorage. Deprecated; use untyped_storage()."""
    _warn()
    return TypedStorage(wrap_storage=self._storage, dtype=self._layout.dtype, _internal=True)


@public(namespace=False)
def storage_type(self: Tensor) -> type:
    """The class of `storage()`, such as torch.FloatStorage."""
    return KINDS[_name_of(self._layout.dtype)]

