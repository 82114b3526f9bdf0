"""From Python, NumPy and buffers to tensors, and back.

Stands on core.tensor.tensor and core.tensor.storage. `make_tensor` is torch.tensor's work; `array_of` is a NumPy view of a
tensor's memory.
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
from flambeau.base.device import in_block, stand_ins_in_use, use_stand_ins
from flambeau.base.dtype import bool_, float32, float64, get_default_dtype, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.base.small_floats import AS_BITS, from_bits, to_bits
from flambeau.base.tracebacks import filter_traceback
from flambeau.codegen.runtime import launch, messages
from flambeau.core.modes.modes import local
from flambeau.core.modes.settings import settings
from flambeau.core.operator.arguments import ints, no_combination
from flambeau.core.tensor import fakes, lazy_conjugate, storage
from flambeau.core.tensor.nested_data import DEEPEST, infer_dtype, shape_of, values_of
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from

CPU = Device("cpu")
_ROW = (1,)
_FAR = 1 << 58  # a stride that only a dimension of size 1 has, in bytes more than an integer of NumPy's holds
_ONLY_INTS, _ONLY_BOOLS, _NUMBERS = {int}, {bool}, {int, float}
_PACKED = {float32: "f", float64: "d", int64: "q"}  # what array calls the dtypes of plain numbers


def array_of(tensor: Tensor) -> np.ndarray:
    """A NumPy array over the tensor's memory (of bfloat16 and float8, their bits); no checks, no copy. Of a conjugate or negative
    view, a copy that can only be read.
    """
    layout = tensor._layout
    if layout.pending:
        array = array_of(lazy_conjugate.resolved(tensor))
        array.flags.writeable = False
        return array
    held = tensor._storage
    dtype = layout.dtype
    itemsize = dtype.itemsize
    if layout.numel == 0:
        return np.empty(layout.shape, dtype.numpy)
    if layout.strides == _ROW:  # the commonest and quickest
        return np.frombuffer(held, dtype.numpy, layout.numel, tensor._offset * itemsize)
    return np.ndarray(
        layout.shape,
        dtype.numpy,
        storage.bytes_of(held),
        tensor._offset * itemsize,
        tuple([s * itemsize if s < _FAR else itemsize for s in layout.strides]),
    )


def from_array(array: np.ndarray, dtype: DType | None = None) -> Tensor:
    """A tensor over the array's memory; strides must be whole elements and not negative."""
    if type(array) is not np.ndarray:
        array = np.asarray(array)  # what a subclass says of itself need not be so
    key = (array.shape, array.strides, array.dtype, dtype)
    found = _views.get(key)
    if found is None:
        found = _views[key] = _view_of(array, dtype)
    layout, nbytes = found
    held = storage.wrap_array(array, nbytes)
    if local.inference:
        held.inference = 1
    return tensor_from(held, 0, layout)


_views: dict[Any, tuple[Layout, int]] = register_cache({})  # by geometry and type of the array


def _view_of(array: np.ndarray, dtype: DType | None) -> tuple[Layout, int]:
    """How a tensor over an array lies, and how many bytes from its first element on it may touch."""
    dtype = dtype or dtypes.from_numpy(array.dtype)
    itemsize = array.dtype.itemsize
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array  with "
            "array.copy().) "
        )
    if any(s % itemsize for s in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory."
        )
    if array.dtype.byteorder not in "=|" and array.dtype.newbyteorder("=") != array.dtype:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders "
            "is currently not supported."
        )
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


def over_storage(data: Any, dtype: DType | None) -> Tensor | None:
    """A tensor over the memory of a storage, all of whole elements; None for other data. Without a dtype the elements of a
    storage of bytes are int64, as in PyTorch. RuntimeError for a storage of another dtype.
    """
    if not isinstance(data, storage.Storage):
        held = getattr(data, "_untyped_storage", None)
        if not isinstance(held, storage.Storage):
            return None
        if dtype is not None and dtype is not data.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {dtype.scalar_name} or an UntypedStorage, but got {data.dtype.scalar_name}"
            )
        dtype, data = data.dtype, held
    if storage.without_memory(data):
        raise ValueError("could not determine the shape of object type 'torch.storage.UntypedStorage'")
    dtype = dtype or (int64 if data.capacity else get_default_dtype())
    return tensor_from(data, 0, Layout.contiguous((data.capacity // dtype.itemsize,), dtype, CPU))


#: torch.tensor and torch.empty, which modes below autograd see; ops.creation enters them.
PUBLIC: dict[str, Any] = {}


def constant(data: Any, dtype: DType | None = None) -> Tensor:
    """`make_tensor` of a program's numbers, which modes below autograd see as they see torch.tensor."""
    made: Tensor = (PUBLIC["tensor"] if local.dispatch_modes else make_tensor)(data, dtype=dtype)
    return made


def make_tensor(data: Any, dtype: DType | None = None) -> Tensor:
    """A CPU tensor with the values of `data`: numbers, nested sequences, arrays, tensors. Fresh, but for storages, whose memory
    it shares. Inside a fake tensor mode a fake one, which knows its values.
    """
    try:
        stand_ins = stand_ins_in_use()
        if stand_ins is None or isinstance(data, Tensor):
            made = _made_of(data, dtype)
            if local.of_data is not None and not isinstance(data, Tensor):
                local.of_data(made)
            return made
        use_stand_ins(None)
        try:
            return stand_ins.mode.lifted(_made_of(data, dtype))  # type: ignore[no-any-return]
        finally:
            use_stand_ins(stand_ins)
    except Exception as error:
        filter_traceback(error)
        raise


def _made_of(data: Any, dtype: DType | None) -> Tensor:
    dtype = dtypes.asked_for(dtype)
    if isinstance(data, Tensor):
        source = data.detach()
        return source.clone() if dtype is None or dtype is source.dtype else source.to(dtype)
    if isinstance(data, np.ndarray) or (isinstance(data, np.generic) and (dtype is None or dtype.category != dtypes.INTEGER)):
        array = np.asarray(data)
        _view_of(array, None)  # refuses what no tensor can lie on, copied or not
        made = copy_array(array)
        return made if dtype is None or dtype is made.dtype else made.to(dtype)
    if data.__class__ is list or data.__class__ is tuple:
        plain = _plain_numbers(data, dtype)
        if plain is not None:
            return plain
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    over = over_storage(data, dtype)
    if over is not None:
        return over
    shape = shape_of(data)
    wanted = dtype or infer_dtype(data)
    if data.__class__ is float or (data.__class__ is int and -(2**63) <= data < 2**63):
        made = empty_layout(Layout.contiguous((), wanted, CPU))
        if wanted is float32:
            ctypes.c_float.from_address(made._storage.ptr).value = data
            return made
        if wanted is int64 and data.__class__ is int:
            ctypes.c_int64.from_address(made._storage.ptr).value = data
            return made
    return copy_array(values_of(data, wanted, shape), wanted)


def _plain_numbers(data: Any, dtype: DType | None) -> Tensor | None:
    """Nested lists of floats, ints or bools, the commonest data, without NumPy; None for other data, and for what won't fit."""
    shape = [len(data)]
    while data and (data[0].__class__ is list or data[0].__class__ is tuple):
        length = len(data[0])
        if len(shape) == DEEPEST:
            return None
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


def item(tensor: Tensor) -> Any:
    """The value of a one-element tensor as a Python number."""
    try:
        layout = tensor._layout
        read = readers.get(layout)
        if read is not None:
            return read(tensor)
        if layout.numel != 1:
            raise RuntimeError(f"a Tensor with {layout.numel} elements cannot be converted to Scalar")
        if layout.device.type == "meta":
            known = fakes.known_value(tensor)
            if known is not None:
                return item(known)
            if fakes.is_fake(layout):
                raise fakes.without_values("_local_scalar_dense")
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        if storage.without_memory(tensor._storage):
            raise RuntimeError(messages.NO_DATA)
        if layout.pending:
            return lazy_conjugate.meant(item(tensor_from(tensor._storage, tensor._offset, layout.in_memory())), layout.pending)
        read = launch.readers.get(layout.dtype.name)
        if read is not None:
            readers[layout] = read
            return read(tensor)
        return tolist_array(tensor).reshape(-1)[0].item()
    except Exception as error:
        filter_traceback(error)
        raise


readers: dict[Layout, Any] = register_cache({})  # native readers of one-element layouts


def tolist_array(tensor: Tensor) -> np.ndarray:
    """A NumPy array whose tolist() gives the tensor's values."""
    array = array_of(tensor)
    return from_bits(array, tensor._layout.dtype) if tensor._layout.dtype in AS_BITS else array


def over_storage_of(given: Any, dtype: DType) -> Tensor | None:
    """`over_storage` in a constructor, which says where in the call a storage of another dtype is."""
    try:
        return over_storage(given, dtype)
    except RuntimeError:
        raise RuntimeError(
            f"Expected a Storage of type {dtype.scalar_name} or an UntypedStorage, but got type "
            f"{given.dtype.scalar_name} for argument 1 'storage'"
        ) from None


def legacy_constructor(*args: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """torch.Tensor(...), torch.FloatTensor(...): sizes give uninitialised memory, a sequence gives values."""
    asked, dtype = dtype, dtype or get_default_dtype()
    if device is not None and Device(device).type != "cpu":
        raise RuntimeError(f"legacy constructor expects device type: cpu but device type: {Device(device).type} was passed")
    if not args:
        return empty_layout(Layout.contiguous((0,), dtype, CPU))
    if len(args) == 1 and not isinstance(args[0], int):
        given = args[0]
        if isinstance(given, Tensor):
            if device is not None:
                raise RuntimeError(
                    "Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not supported.  "
                    "Use torch.tensor(...) or torch.as_tensor(...) instead."
                )
            if asked is not None and given.dtype is not dtype:
                raise TypeError(f"expected {_options(dtype)} (got {_options(given.dtype)})")
            return given.alias() if given._node is not None else given.detach()
        over = None if isinstance(given, (list, tuple)) else over_storage_of(given, dtype)
        if over is not None:
            return over
        if type(given).__name__ == "Size":
            return _uninitialized(tuple(given), dtype)
        if isinstance(given, str):
            raise TypeError("new(): invalid data type 'str'")
        if not hasattr(given, "__len__"):
            raise TypeError(f"new(): data must be a sequence (got {type(given).__name__})")
        return constant(given, dtype)
    return _uninitialized(_sizes(args), dtype)


def _options(dtype: DType) -> str:
    name = {
        "bool": "bool",
        "uint8": "unsigned char",
        "int8": "signed char",
        "int16": "short int",
        "int32": "int",
        "int64": "long int",
        "float32": "float",
        "float64": "double",
    }.get(dtype.name, dtype.c_name)
    return (
        f"TensorOptions(dtype={name}, device=cpu, layout=Strided, requires_grad=false (default), "
        "pinned_memory=false (default), memory_format=(nullopt))"
    )


def _uninitialized(shape: tuple[int, ...], dtype: DType) -> Tensor:
    if local.dispatch_modes:
        return PUBLIC["empty"](shape, dtype=dtype)  # type: ignore[no-any-return]
    made = empty_layout(Layout.contiguous(shape, dtype, in_block(CPU)))
    return settings.fill(made) if settings.fills else made


def _sizes(args: Sequence[Any]) -> tuple[int, ...]:
    if args[0].__class__ is bool or not hasattr(args[0], "__index__"):
        raise no_combination("new", args)
    sizes = ints("new", "size", args)
    for n in sizes:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(sizes)}")
    return sizes
