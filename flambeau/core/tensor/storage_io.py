"""The narrow door between files and memory: bytes of a storage, storages from bytes, tensors over storages.

Stands on core's Storage and Tensor; nothing else in this room touches an address. Every tensor that comes out of a file
passes `make_tensor`, which refuses geometry that reaches outside its storage.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

from flambeau.base.device import cpu, meta, stand_ins_in_use
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, Size
from flambeau.core.tensor import storage as memory
from flambeau.core.tensor.storage import Storage
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from

LARGEST = 2**63 - 1


def parts(tensor: Tensor) -> tuple[Storage, int, tuple[int, ...], tuple[int, ...], DType]:
    """(storage, offset in elements, shape, strides, dtype) of a tensor that has its values in memory."""
    layout = tensor._layout
    return tensor._storage, tensor._offset, tuple(layout.shape), tuple(layout.strides), layout.dtype


def memory_of(storage: Storage) -> memoryview:
    """The bytes of a storage, writable, without a copy."""
    if not storage.capacity:
        return memoryview(bytearray())
    return memoryview(storage)


def allocate(nbytes: int) -> Storage:
    """A storage of `nbytes` undefined bytes."""
    return memory.empty(nbytes)


def without_memory(storage: Storage) -> bool:
    """Whether it is a storage on meta: nothing but a size."""
    return memory.without_memory(storage)


def on_meta(nbytes: int) -> Storage:
    """A storage on meta."""
    return memory.empty_without_memory(nbytes)


def map_storage(mapped: mmap.mmap, start: int, nbytes: int) -> Storage:
    """A storage over a stretch of a mapped file, which stays mapped as long as the storage lives."""
    if not nbytes:
        return memory.empty(0)
    window = (ctypes.c_char * nbytes).from_buffer(mapped, start)
    return memory.wrap(ctypes.addressof(window), nbytes, window)


def stretch(storage: Storage, start: int, nbytes: int) -> Storage:
    """A storage that is a part of another one's memory. The caller has checked that it is."""
    return memory.part(storage, start, nbytes) if nbytes else memory.empty(0)


def checked_geometry(
    shape: Sequence[int], strides: Sequence[int], offset: int, itemsize: int
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape and strides as tuples, and the bytes of storage that a tensor of this geometry needs.

    Raises RuntimeError for geometry that is impossible, TypeError for what is no integer.
    """
    for numbers in (shape, strides):
        if not isinstance(numbers, tuple | list):
            raise TypeError(f"sizes and strides must be tuple of ints, not {type(numbers).__name__}")
    shape, strides = tuple(shape), tuple(strides)
    for number in (*shape, *strides, offset):
        if type(number) is not int:
            raise TypeError(f"sizes, strides and storage offset must be int, not {type(number).__name__}")
    if len(shape) != len(strides):
        raise RuntimeError(f"unequal size length ({len(shape)}) and stride length ({len(strides)})")
    count, last, hollow = 1, offset, 0 in shape
    for size, stride in zip(shape, strides, strict=True):
        if size < 0 or size > LARGEST or (not hollow and count * size > LARGEST):
            raise RuntimeError("numel: integer multiplication overflow")
        if stride < 0 or stride > LARGEST:
            raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(strides)}")
        count *= size
        last += (size - 1) * stride
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    needed = 0 if hollow else (last + 1) * itemsize
    if needed > LARGEST or offset > LARGEST:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(strides)}")
    return shape, strides, needed


def check_geometry(
    shape: Sequence[int], strides: Sequence[int], offset: int, itemsize: int, available: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides as tuples, if a tensor of this geometry lies inside a storage of `available` bytes (None: any).

    Raises RuntimeError for geometry that is impossible or reaches outside, TypeError for what is no integer.
    """
    shape, strides, needed = checked_geometry(shape, strides, offset, itemsize)
    if available is not None and needed > available:
        raise RuntimeError(
            f"Trying to resize storage that is not resizable: sizes {list(shape)}, strides {list(strides)}, storage offset "
            f"{offset}, and itemsize {itemsize} require a storage of {needed} bytes, but it has {available}"
        )
    return shape, strides


def make_tensor(storage: Storage | None, dtype: DType, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """A tensor of this geometry over a storage; None makes a meta tensor with one of its own. Bounds are checked. Inside a fake
    tensor mode a fake one like it.
    """
    if not isinstance(dtype, DType):
        raise TypeError(f"expected a torch.dtype, not {type(dtype).__name__}")
    shape, strides = check_geometry(shape, strides, offset, dtype.itemsize, None if storage is None else storage.capacity)
    if storage is None:
        made = empty_layout(Layout.of(Size(shape), strides, dtype, meta))
    else:
        made = tensor_from(storage, offset, Layout.of(Size(shape), strides, dtype, meta if without_memory(storage) else cpu))
    stand_ins = stand_ins_in_use()
    return made if stand_ins is None else stand_ins.mode.from_tensor(made)  # type: ignore[no-any-return]
