"""What programs do with a storage itself: `UntypedStorage`'s methods, which look at its bytes through uint8 tensors.

A storage is the native block of core.tensor.storage; here it gets PyTorch's methods. Stands on core; storages of one dtype
(ops/interop/typed_storage) stand on it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from flambeau.base.device import device as Device
from flambeau.base.dtype import all_dtypes, bool_, uint8
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.core.operator.publishing import public
from flambeau.core.tensor import storage as memory
from flambeau.core.tensor.nested_data import type_name
from flambeau.core.tensor.storage import Storage
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from

_CPU, _META = Device("cpu"), Device("meta")


def device_of(held: Any) -> Device:
    return _META if memory.without_memory(held) else _CPU


def elements(held: Any, dtype: DType = uint8) -> Tensor:
    """A storage's memory as a vector."""
    return tensor_from(held, 0, Layout.contiguous((held.capacity // dtype.itemsize,), dtype, device_of(held)))


def need_memory(held: Any) -> None:
    if memory.without_memory(held):
        raise NotImplementedError("Not available for 'meta' device type")


def shown(self: Any, name: str) -> str:
    if memory.without_memory(self._untyped_storage):
        values = "..."
    else:
        values = "\n ".join(str(x) for x in self.tolist())
        values = f" {values}"
    return f"{values}\n[torch.storage.{name} of size {len(self)}]"


class Common:
    """What storages of bytes and storages of one dtype answer alike."""

    is_cuda = is_hpu = is_sparse = False
    _untyped_storage: Any

    def __iter__(self: Any) -> Iterator[Any]:
        return iter(self.tolist())

    def __copy__(self: Any) -> Any:
        return self.clone()

    def get_device(self) -> None:
        """None: there are no accelerators whose number it could be."""

    def cpu(self) -> Any:
        """The storage itself. NotImplementedError for one without memory."""
        if memory.without_memory(self._untyped_storage):
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return self

    def is_shared(self) -> bool:
        """Whether other processes can see the memory."""
        return memory.is_shared(self._untyped_storage)

    def share_memory_(self) -> Any:
        """Move the memory to pages that forked children see, and processes to which it is sent. RuntimeError without memory."""
        from flambeau.core.tensor.shared_memory import share

        share(self._untyped_storage)
        return self

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the memory is locked for an accelerator."""
        return False


# ---------------------------------------------------------------- storages of bytes


class _Untyped(Common):
    """The methods of torch.UntypedStorage; they are put on the native type."""

    is_sparse_csr = False
    _untyped_storage = property(lambda self: self)

    @property
    def filename(self: Any) -> str | None:
        """The file that writes to the storage reach (`from_file(shared=True)`), or None."""
        owner = memory.root(self).owner
        return owner.filename if isinstance(owner, _MappedFile) else None

    def __len__(self: Any) -> int:
        return self.capacity

    size = nbytes = __len__

    def __repr__(self: Any) -> str:
        return shown(self, f"UntypedStorage(device={device_of(self)})")

    def __getitem__(self: Any, index: Any) -> Any:
        """The byte at an index, or a storage over a slice of the bytes. IndexError outside, RuntimeError for steps."""
        need_memory(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(self.capacity)
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            return memory.part(self, start, max(stop - start, 0))
        if isinstance(index, bool) or not hasattr(index, "__index__"):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        at = index.__index__()
        if not -self.capacity <= at < self.capacity:
            raise IndexError(f"index {at} out of range for storage of size {self.capacity}")
        return int(elements(self)[at].item())

    def __setitem__(self: Any, index: Any, value: int) -> None:
        """Write a byte (of a larger number, the lowest), or the same byte to a slice. RuntimeError outside, and for no int."""
        if not isinstance(value, int):
            raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
        if isinstance(index, slice):
            start, stop, step = index.indices(self.capacity)
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            elements(self)[start:stop] = value & 255
        elif not hasattr(index, "__index__"):
            raise RuntimeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        elif not 0 <= index.__index__() < self.capacity:
            raise RuntimeError("out of bounds")
        else:
            elements(self)[index.__index__()] = value & 255

    def __bytes__(self: Any) -> bytes:
        return elements(self).numpy().tobytes()

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

    def __sizeof__(self: Any) -> int:
        return object.__sizeof__(self) + self.capacity

    def data_ptr(self: Any) -> int:
        """The address of the first byte; 0 without memory."""
        memory.show(self)
        return self.ptr

    @property
    def _cdata(self: Any) -> int:
        return id(memory.root(self))

    @property
    def device(self: Any) -> Device:
        """Where the memory is."""
        return device_of(self)

    def element_size(self) -> int:
        """1: bytes."""
        return 1

    def resizable(self: Any) -> bool:
        """Whether the memory is the storage's own."""
        return memory.resizable(self)

    def resize_(self: Any, size: int) -> Any:
        """Change the number of bytes, for all tensors on the storage; what is new is undefined. A tensor that reaches outside
        afterwards can't be read. RuntimeError for memory of another object, or that a NumPy array shows.
        """
        if not hasattr(size, "__index__"):
            raise RuntimeError(f"resize_ expects an int, but got {type(size).__name__}")
        memory.resize(self, _checked_size(size.__index__()))
        return self

    def tolist(self: Any) -> list[int]:
        """The bytes."""
        need_memory(self)
        return elements(self).tolist()

    def fill_(self: Any, value: int) -> Any:
        """Write one byte everywhere."""
        elements(self).fill_(value)
        return self

    def copy_(self: Any, source: Any, non_blocking: bool = False) -> Any:
        """Take over the bytes of a storage of the same size. RuntimeError for another size."""
        given = source._untyped_storage
        if given.capacity != self.capacity:
            raise RuntimeError(f"size does not match, self was {self.capacity} bytes but src was {given.capacity} bytes")
        elements(self).copy_(elements(given))
        return self

    def clone(self: Any) -> Any:
        """A storage of its own with the same bytes."""
        return elements(self).clone()._storage

    def new(self) -> Any:
        """A storage of no bytes."""
        return memory.empty(0)

    def byteswap(self: Any, dtype: DType) -> None:
        """Turn the bytes of each element of `dtype` (of each part of a complex one) round."""
        need_memory(self)
        width = dtype.itemsize // (2 if dtype.is_complex else 1)
        if width > 1:
            elements(self).numpy().view(f"u{width}").byteswap(inplace=True)

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        """The storage itself, on the CPU; one without memory, of the same size, on meta."""
        wanted = Device(device)
        return self if wanted == device_of(self) else _made_of(self.capacity, device=wanted)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class; with a type of storage (torch.FloatStorage, or its name), every byte as a number of it."""
        if dtype is None:
            return "torch.storage.UntypedStorage"
        return _typed().converted(elements(self), dtype)

    def untyped(self) -> Any:
        """The storage itself."""
        return self

    def pin_memory(self, device: Any = "cuda") -> Any:
        """RuntimeError: there is no accelerator."""
        raise RuntimeError("Cannot access accelerator device when none is available.")

    def _share_fd_cpu_(self: Any) -> tuple[int, int]:
        """(a descriptor of the shared pages that the memory moves to, its size in bytes). RuntimeError on meta."""
        from flambeau.core.tensor.shared_memory import descriptor_of

        return descriptor_of(self), self.capacity

    def _share_filename_cpu_(self: Any) -> Any:
        """NotImplementedError: shared pages have no names here. RuntimeError on meta."""
        if memory.without_memory(self):
            raise RuntimeError("_share_filename_: only available on CPU")
        raise NotImplementedError(
            "shared memory has no name here: use _share_fd_cpu_, or send the tensor through torch.multiprocessing"
        )

    def _write_file(self: Any, file: Any, is_real_file: bool, save_size: bool, element_size: int) -> None:
        """Write the bytes to a file, behind the number of elements if that is asked for."""
        if memory.without_memory(self):
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if save_size:
            file.write((self.capacity // element_size).to_bytes(8, "little"))
        file.write(bytes(self))

    def _weak_ref(self: Any) -> int:
        """A number that stands for the storage while it lives, and tells afterwards that it doesn't (`_expired`)."""
        _weak[id(self)] = weakref.ref(self)
        return id(self)

    def _expired(self: Any, *reference: int) -> bool:
        found = _weak.get(reference[0] if reference else self)
        return found is None or found() is None

    def _free_weak_ref(self: Any, *reference: int) -> None:
        _weak.pop(reference[0] if reference else self, None)

    def _fix_weakref(self) -> None:
        """Nothing: a storage that Python code holds is the storage itself."""

    @staticmethod
    def from_buffer(buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0, dtype: Any = None) -> Any:
        """A copy of an object's bytes; byte_order: "little", "native" or "big", in which elements of `dtype` are given.
        ValueError for sizes that don't fit, RuntimeError without an order for elements of several bytes.
        """
        return _from_buffer(buffer, byte_order, count, offset, dtype)

    @staticmethod
    def from_file(filename: str, shared: bool = False, nbytes: int = 0) -> Any:
        """A storage over a mapped file; shared: writes reach the file, which is made longer if it must. RuntimeError for a file
        that is too short or isn't there.
        """
        return _from_file(filename, shared, nbytes)

    @staticmethod
    def _new_with_weak_ptr(reference: int) -> Any:
        """The storage that `_weak_ref` gave the number for, or None."""
        found = _weak.get(reference)
        return None if found is None else found()


_weak: dict[int, weakref.ref[Any]] = {}


def _from_buffer(buffer: Any, byte_order: str | None, count: int, offset: int, dtype: Any) -> Any:
    given = memoryview(buffer).cast("B")
    if dtype is None:
        raise RuntimeError("argument 'dtype' cannot be None")
    if byte_order is None and (dtype.itemsize > 1 or dtype is bool_):
        raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
    if byte_order not in (None, "little", "native", "big"):
        raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
    size, width = len(given), dtype.itemsize
    if not 0 <= offset <= size:
        raise ValueError(f"offset must be non-negative and no greater than buffer length ({offset}) , but got {size}")
    if count < 0:
        if (size - offset) % width:
            raise ValueError(f"buffer size ({size}) must be a multiple of element size ({width})")
        count = (size - offset) // width
    elif offset + count * width > size:
        raise ValueError(f"buffer has only {size - offset} elements after offset {offset}, but specified a size of {count}")
    made = memory.empty(count * width)
    taken = given[offset : offset + count * width]
    if count:
        memoryview(made)[:] = taken
    if byte_order == "big":
        made.byteswap(dtype)
    if dtype is bool_ and count:
        elements(made).copy_(elements(made) != 0)
    return made


class _MappedFile(np.memmap):
    """The pages of a file that a storage lies on."""

    filename: str | None


def _from_file(filename: Any, shared: bool, nbytes: int) -> Any:
    path = os.fspath(filename)
    try:
        with open(path, "ab" if shared else "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size < nbytes and not shared:
                raise RuntimeError(f"file <{path}> size <{size}> is smaller than the required mapping size <{nbytes}>")
            if nbytes < 0:
                raise RuntimeError(f"unable to mmap {nbytes} bytes from file <{path}>: Cannot allocate memory (12)")
            if size < nbytes:
                file.truncate(nbytes)
        if not nbytes:
            return memory.empty(0)
        mapped = np.memmap(path, np.uint8, "r+" if shared else "c", shape=(nbytes,)).view(_MappedFile)
    except OSError as error:
        mode = "read-write" if shared else "read-only"
        raise RuntimeError(f"unable to open file <{path}> in {mode} mode: {error.strerror} ({error.errno})") from None
    mapped.filename = path if shared else None
    return memory.wrap_array(mapped, nbytes)


def _storage_of_bytes(data: bytes) -> Any:
    return _from_buffer(data, None, -1, 0, uint8)


def _checked_size(nbytes: int) -> int:
    if nbytes < 0:
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:98] ((ptrdiff_t)nbytes) >= 0. alloc_cpu() seems to have been "
            f"called with negative number: {nbytes % (1 << 64)}"
        )
    return nbytes


def made_of_bytes(nbytes: int, device: Any = None) -> Any:
    """A storage of so many bytes. AssertionError or RuntimeError for devices that aren't there."""
    where = Device(device or "cpu")
    if where.type == "cuda":
        raise AssertionError("Torch not compiled with CUDA enabled")
    if where.type not in ("cpu", "meta"):
        raise RuntimeError(f"torch.UntypedStorage(): Storage device not recognized: {where.type}")
    return empty_layout(Layout.contiguous((_checked_size(nbytes),), uint8, where))._storage


def _made_of(*arguments: Any, device: Any = None, allocator: Any = None, **unknown: Any) -> Any:
    """torch.UntypedStorage(): of a number of bytes, or of a sequence of them. RuntimeError for other items."""
    if len(arguments) > 1 or unknown:
        got = [type_name(x) for x in arguments] + [f"{name}={type_name(x)}, " for name, x in unknown.items()]
        raise TypeError(
            f"torch.UntypedStorage() received an invalid combination of arguments - got ({', '.join(got)}), but "
            "expected one of:\n * (*, int allocator = None, torch.device device = None)\n"
            " * (int size, *, int allocator = None, torch.device device = None)\n"
            " * (object sequence, *, int allocator = None, torch.device device = None)\n"
        )
    given = arguments[0] if arguments else 0
    if isinstance(given, int):
        return made_of_bytes(given, device)
    if isinstance(given, Tensor) or not (isinstance(given, (Sequence, Storage)) or hasattr(given, "__getitem__")):
        raise RuntimeError(f"torch.UntypedStorage(): Expected a sequence type, but got {type_name(given)}")
    items = list(given)
    for item in items:
        if not isinstance(item, int):
            raise RuntimeError(
                f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(given).__name__}), "
                f"but one of the items was of type {type(item).__name__} instead of int"
            )
    made = made_of_bytes(len(items), device)
    if items and not memory.without_memory(made):
        memoryview(made)[:] = bytes([item & 255 for item in items])
    return made


Storage.__new__ = lambda cls, *arguments, **options: _made_of(*arguments, **options)  # type: ignore[assignment]
for _name, _member in {**vars(Common), **vars(_Untyped)}.items():
    if _name not in ("__module__", "__doc__", "__dict__", "__weakref__", "__annotations__"):
        setattr(Storage, _name, _member)


# ---------------------------------------------------------------- storages of one dtype, which are loaded when they are asked for


def _typed() -> Any:
    from flambeau.ops.interop import typed_storage

    return typed_storage


#: Methods that give the elements in another dtype, of storages of bytes and of one dtype: name -> name of the dtype.
CONVERSIONS = dict(zip(*["bool bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz".split()] * 2)) | {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "complex_double": "complex128",
    "complex_float": "complex64",
}


def _conversion(name: str, dtype: str) -> None:
    def convert(self: Any) -> Any:
        wanted = all_dtypes()[dtype]
        return _typed().of(elements(self._untyped_storage, getattr(self, "dtype", uint8)).to(wanted)._storage, wanted)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The elements as {dtype}."
    setattr(Storage, name, convert)


for _name, _dtype in CONVERSIONS.items():
    _conversion(_name, _dtype)


@public(namespace=False)
def storage(self: Tensor) -> Any:
    """The memory behind the tensor as a TypedStorage. Deprecated; use untyped_storage()."""
    _typed().warn_removal()
    return _typed().of(self._storage, self._layout.dtype)


@public(namespace=False)
def _typed_storage(self: Tensor) -> Any:
    return _typed().of(self._storage, self._layout.dtype)


@public(namespace=False)
def storage_type(self: Tensor) -> type:
    """The class of `storage()`, such as torch.FloatStorage."""
    return _typed().KINDS[_typed().name_of(self._layout.dtype)]
