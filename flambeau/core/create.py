"""From Python, NumPy and buffers to tensors, and back.

Stands on core.tensor and core.storage. `make_tensor` is torch.tensor's work; `array_of` is a NumPy view of a tensor's memory.
"""

from __future__ import annotations

import ctypes
from array import array as packed
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from flambeau.base import dtype as dtypes
from flambeau.base import memory_order
from flambeau.base.device import device as Device
from flambeau.base.dtype import bool_, float32, float64, get_default_dtype, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.base.small_floats import AS_BITS, from_bits, to_bits
from flambeau.codegen.runtime import launch
from flambeau.core import storage
from flambeau.core.modes import local
from flambeau.core.tensor import Tensor, empty_layout, tensor_from

CPU = Device("cpu")
_ROW = (1,)
_ONLY_INTS, _ONLY_BOOLS, _NUMBERS = {int}, {bool}, {int, float}
_PACKED = {float32: "f", float64: "d", int64: "q"}      # what array calls the dtypes of plain numbers


def array_of(tensor: Tensor) -> np.ndarray:
    """A NumPy array over the tensor's memory (of bfloat16 and float8, their bits); no checks, no copy."""
    layout = tensor._layout
    held = tensor._storage
    dtype = layout.dtype
    itemsize = dtype.itemsize
    if layout.numel == 0:
        return np.empty(layout.shape, dtype.numpy)
    if layout.strides == _ROW:      # the commonest and quickest
        return np.frombuffer(held, dtype.numpy, layout.numel, tensor._offset * itemsize)
    return np.ndarray(layout.shape, dtype.numpy, held, tensor._offset * itemsize, tuple([s * itemsize for s in layout.strides]))


def from_array(array: np.ndarray, dtype: DType | None = None) -> Tensor:
    """A tensor over the array's memory; strides must be whole elements and not negative."""
    key = (array.shape, array.strides, array.dtype, dtype)
    found = _views.get(key)
    if found is None:
        found = _views[key] = _view_of(array, dtype)
    layout, nbytes = found
    held = storage.wrap_array(array, nbytes)
    if local.inference:
        held.inference = 1
    return tensor_from(held, 0, layout)


_views: dict[Any, tuple[Layout, int]] = register_cache({})      # by geometry and type of the array


def _view_of(array: np.ndarray, dtype: DType | None) -> tuple[Layout, int]:
    """How a tensor over an array lies, and how many bytes from its first element on it may touch."""
    dtype = dtype or dtypes.from_numpy(array.dtype)
    itemsize = array.dtype.itemsize
    if any(s < 0 for s in array.strides):
        raise ValueError("At least one stride in the given numpy array is negative, and tensors with negative strides are not "
                         "currently supported. (You can probably work around this by making a copy of your array  with "
                         "array.copy().) ")
    if any(s % itemsize for s in array.strides):
        raise ValueError("given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate "
                         "the memory.")
    if array.dtype.byteorder not in "=|" and array.dtype.newbyteorder("=") != array.dtype:
        raise ValueError("given numpy array has byte order different from the native byte order. Conversion between byte orders "
                         "is currently not supported.")
    strides = tuple(s // itemsize for s in array.strides)
    extent = 1 + sum((n - 1) * s for n, s in zip(array.shape, array.strides)) if array.size else 0
    nbytes = 0 if not array.size else extent - 1 + itemsize
    return Layout.of(tuple(array.shape), strides, dtype, CPU), nbytes


def copy_array(array: np.ndarray, dtype: DType | None = None) -> Tensor:
    """A fresh tensor with the array's values."""
    dtype = dtype or dtypes.from_numpy(array.dtype)
    made = empty_layout(Layout.contiguous(tuple(array.shape), dtype, CPU))
    if array.size:
        array_of(made)[...] = array if dtype not in AS_BITS or array.dtype == dtype.numpy else to_bits(array, dtype)
    return made


def copy_columns(array: np.ndarray) -> Tensor:
    """A fresh tensor of matrices with the array's values, each column of a matrix in one piece, as LAPACK leaves them."""
    *batch, m, n = array.shape
    made = copy_array(np.swapaxes(array, -2, -1))
    strides = made._layout.strides
    layout = Layout.of((*batch, m, n), (*strides[:-2], strides[-1], strides[-2]), made._layout.dtype, CPU)
    return tensor_from(made._storage, made._offset, layout)


def elementwise(array: np.ndarray, dtype: DType, *operands: Tensor) -> Tensor:
    """A fresh tensor with the array's values, laid out as the result of an elementwise operator on `operands`."""
    shape = tuple(array.shape)
    laid = [(x._layout.shape, x._layout.strides) for x in operands if x._layout.ndim]
    strides = memory_order.elementwise_strides(shape, laid or [((), ())])
    made = empty_layout(Layout.of(shape, strides, dtype, CPU))
    if array.size:
        array_of(made)[...] = array if dtype not in AS_BITS else to_bits(array, dtype)
    return made


def infer_dtype(data: Any) -> DType:
    """The dtype torch.tensor gives to nested Python numbers."""
    found: set[type] = set()
    tensors: list[DType] = []

    def walk(x: Any, first: bool = True) -> None:
        if isinstance(x, (list, tuple)):
            for i, y in enumerate(x):
                walk(y, first and not i)
        elif isinstance(x, Tensor):
            tensors.append(x._layout.dtype)
        elif isinstance(x, (np.generic, np.ndarray)):
            tensors.append(dtypes.from_numpy(x.dtype))
        elif isinstance(x, (bool, int, float, complex)):
            found.add(next(t for t in (bool, int, float, complex) if isinstance(x, t)))
        elif hasattr(x, "__index__") or hasattr(x, "__float__"):
            found.add(int if hasattr(x, "__index__") else float)
        elif x is None or isinstance(x, dict):
            raise RuntimeError(f"Could not infer dtype of {type(x).__name__}")
        elif isinstance(x, str):
            if x is not data and first:
                raise ValueError("too many dimensions 'str'")
            raise TypeError("new(): invalid data type 'str'")
        elif hasattr(x, "__len__") and hasattr(x, "__getitem__"):
            for i in range(len(x)):
                walk(x[i])
        else:
            raise RuntimeError(f"Could not infer dtype of {type(x).__name__}")
    walk(data)
    kinds = {bool: bool_, int: int64, float: get_default_dtype(), complex: get_default_dtype().to_complex()}
    result = None
    for d in [*tensors, *(kinds[t] for t in found)]:
        result = d if result is None else dtypes.promote_types(result, d)
    return result or get_default_dtype()


def _shape_of(data: Any) -> tuple[int, ...]:
    if isinstance(data, (list, tuple)) or (hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(
            data, (str, bytes, Tensor, np.ndarray))):
        if not len(data):
            return (0,)
        inner = _shape_of(data[0])
        for i in range(1, len(data)):
            other = _shape_of(data[i])
            if other != inner:
                if not inner or not other:
                    raise TypeError(f"must be real number, not {type(data[i] if other else data[0]).__name__}") if not inner \
                        else TypeError("not a sequence")
                raise ValueError(f"expected sequence of length {inner[0]} at dim 1 (got {other[0]})" if inner[0] != other[0] else
                                 f"expected sequence of length {inner[1] if len(inner) > 1 else inner[0]} at dim "
                                 f"{2} (got {other[1] if len(other) > 1 else other[0]})")
        return (len(data), *inner)
    if isinstance(data, (Tensor, np.ndarray)):
        return tuple(data.shape)
    return ()


def _plain(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data.tolist()
    if isinstance(data, (list, tuple)):
        return [_plain(x) for x in data]
    if hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes, np.ndarray)):
        return [_plain(data[i]) for i in range(len(data))]
    return data


def make_tensor(data: Any, dtype: DType | None = None) -> Tensor:
    """A fresh CPU tensor with the values of `data`: numbers, nested sequences, arrays, tensors."""
    if isinstance(data, Tensor):
        source = data.detach()
        return source.clone() if dtype is None or dtype is source.dtype else source.to(dtype)
    if isinstance(data, (np.ndarray, np.generic)):
        array = np.asarray(data)
        made = copy_array(array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")))
        return made if dtype is None or dtype is made.dtype else made.to(dtype)
    if hasattr(data, "__array_interface__") and not isinstance(data, (list, tuple)):
        return make_tensor(np.array(data), dtype)
    if data.__class__ is list or data.__class__ is tuple:
        plain = _plain_numbers(data, dtype)
        if plain is not None:
            return plain
    wanted = dtype or infer_dtype(data)
    if data.__class__ is float or (data.__class__ is int and -2 ** 63 <= data < 2 ** 63):
        made = empty_layout(Layout.contiguous((), wanted, CPU))
        if wanted is float32:
            ctypes.c_float.from_address(made._storage.ptr).value = data
            return made
        if wanted is int64 and data.__class__ is int:
            ctypes.c_int64.from_address(made._storage.ptr).value = data
            return made
    shape = _shape_of(data)
    return copy_array(_values(_plain(data), wanted, shape), wanted)


def _plain_numbers(data: Any, dtype: DType | None) -> Tensor | None:
    """Nested lists of floats, ints or bools, the commonest data, without NumPy; None for other data, and for what won't fit."""
    shape = [len(data)]
    while data and (data[0].__class__ is list or data[0].__class__ is tuple):
        length = len(data[0])
        for row in data:
            if not (row.__class__ is list or row.__class__ is tuple) or len(row) != length:
                return None
        shape.append(length)
        data = list(chain.from_iterable(data))
    types = set(map(type, data))
    if types == _ONLY_INTS:
        wanted = dtype or int64
    elif types == _ONLY_BOOLS:
        wanted = dtype or bool_
    elif types and types <= _NUMBERS:
        wanted = dtype or get_default_dtype()
        if wanted is int64:
            return None
    else:
        return None
    code = "B" if wanted is bool_ and types == _ONLY_BOOLS else _PACKED.get(wanted)
    if code is None:
        return None
    try:
        values = packed(code, data)
    except OverflowError:
        return None
    made = empty_layout(Layout.contiguous(tuple(shape), wanted, CPU))
    ctypes.memmove(made._storage.ptr, values.buffer_info()[0], made._storage.capacity)
    return made


def _values(data: Any, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    if dtype in AS_BITS:
        with np.errstate(over="ignore"):
            return to_bits(np.array(data, np.float64).astype(np.float32).reshape(shape), dtype)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            if dtype.is_floating_point or dtype.is_complex:
                return np.array(data, np.complex128 if dtype.is_complex else np.float64).astype(dtype.numpy).reshape(shape)
            if dtype is bool_:
                return np.array(data).astype(bool).reshape(shape)
            array = np.array(data)
            if array.dtype.kind == "O" or (dtype.name == "int64" and array.dtype.kind == "u" and array.size
                                           and int(array.max()) >= 1 << 63):
                raise OverflowError
            if array.dtype.kind == "f":
                return np.trunc(array).astype(dtype.numpy).reshape(shape)
            if array.dtype.kind in "iu" and array.size and dtype.itemsize < 8:
                info = np.iinfo(dtype.numpy)
                if int(array.min()) < info.min or int(array.max()) > info.max:
                    if dtype.name == "uint8" and int(array.min()) >= -255 and int(array.max()) <= 255:
                        return array.astype(dtype.numpy).reshape(shape)
                    raise RuntimeError(f"value cannot be converted to type {_c_integer(dtype)} without overflow")
            return array.astype(dtype.numpy).reshape(shape)
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None


def _c_integer(dtype: DType) -> str:
    return {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "int32": "int"}.get(dtype.name, dtype.name)


def item(tensor: Tensor) -> Any:
    """The value of a one-element tensor as a Python number."""
    layout = tensor._layout
    read = readers.get(layout)
    if read is not None:
        return read(tensor)
    if layout.numel != 1:
        raise RuntimeError(f"a Tensor with {layout.numel} elements cannot be converted to Scalar")
    if layout.device.type == "meta":
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    if storage.without_memory(tensor._storage):
        raise RuntimeError(launch.NO_DATA)
    dtype = layout.dtype
    address = tensor._storage.ptr + tensor._offset * dtype.itemsize
    read = launch.readers.get(dtype.name)
    if read is not None:
        readers[layout] = read
        return read(tensor)
    reader = _READERS.get(dtype)
    if reader is not None:
        return reader.from_address(address).value
    values = tolist_array(tensor)
    return values.reshape(-1)[0].item()


readers: dict[Layout, Any] = register_cache({})     # native readers of one-element layouts
_READERS = {float32: ctypes.c_float, float64: ctypes.c_double, int64: ctypes.c_int64, bool_: ctypes.c_bool,
            dtypes.int32: ctypes.c_int32, dtypes.int16: ctypes.c_int16, dtypes.int8: ctypes.c_int8, dtypes.uint8: ctypes.c_uint8}


def tolist_array(tensor: Tensor) -> np.ndarray:
    """A NumPy array whose tolist() gives the tensor's values."""
    array = array_of(tensor)
    return from_bits(array, tensor._layout.dtype) if tensor._layout.dtype in AS_BITS else array


def legacy_constructor(*args: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """torch.Tensor(...), torch.FloatTensor(...): sizes give uninitialised memory, a sequence gives values."""
    dtype = dtype or get_default_dtype()
    if device is not None and Device(device).type != "cpu":
        raise RuntimeError(f"legacy constructor expects device type: cpu but device type: {Device(device).type} was passed")
    if not args:
        return empty_layout(Layout.contiguous((0,), dtype, CPU))
    if len(args) == 1 and not isinstance(args[0], int):
        given = args[0]
        if isinstance(given, Tensor):
            if given.dtype is not dtype:
                raise TypeError(f"expected {dtype} (got {given.dtype})")
            return given.alias() if given._node is not None else given.detach()
        if isinstance(given, storage.Storage):
            return tensor_from(given, 0, Layout.contiguous((given.capacity // dtype.itemsize,), dtype, CPU))
        if type(given).__name__ == "Size":
            return empty_layout(Layout.contiguous(tuple(given), dtype, CPU))
        if isinstance(given, str):
            raise TypeError("new(): invalid data type 'str'")
        if not hasattr(given, "__len__"):
            raise TypeError(f"new(): data must be a sequence (got {type(given).__name__})")
        return make_tensor(given, dtype)
    return empty_layout(Layout.contiguous(_sizes(args), dtype, CPU))


def _sizes(args: Sequence[Any]) -> tuple[int, ...]:
    sizes = tuple(int(a) for a in args)
    for n in sizes:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(sizes)}")
    return sizes
