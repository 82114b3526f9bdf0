"""Tensors of what a program has: tensor, as_tensor, asarray, from_numpy, frombuffer.

Numbers and nested sequences are copied (core.tensor.nested_data); arrays, buffers, storages and objects with `__dlpack__`
can share their memory. Stands on core.tensor.create, ops.creation.factories and ops.interop.python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.base import scalar_range
from flambeau.base.device import default_device
from flambeau.base.dtype import bool_, float32, float64, get_default_dtype, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import register_cache
from flambeau.base.warn import warn, warn_once
from flambeau.core.autograd.node import AccumulateGrad
from flambeau.core.modes.modes import local, told_of_data
from flambeau.core.operator import arguments
from flambeau.core.operator.publishing import NAMESPACE, public
from flambeau.core.tensor.create import PUBLIC, from_array, make_tensor, over_storage
from flambeau.core.tensor.nested_data import type_name
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import specialize_fill, to
from flambeau.ops.creation.factories import home, leaf


@public(method=False)
def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new leaf tensor with a copy of `data` (numbers, nested sequences, arrays); the dtype is inferred if not given.

    A storage's memory is shared, as in PyTorch. ValueError for sequences of different lengths, TypeError for what is no number.
    """
    launch = _of_numbers.get((data.__class__, dtype))
    if (
        launch is not None
        and device is None
        and (data.__class__ is float or -1 << 63 <= data < 1 << 63)
        and default_device().type == "cpu"
        and (not told_of_data.count or local.of_data is None)
    ):
        made = launch(None, data)
        return made if requires_grad is False else leaf(made, requires_grad)
    if isinstance(data, Tensor):
        warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor)."
        )
    foreign = _foreign(data)
    try:
        made = make_tensor(data, dtype) if foreign is None else make_tensor(foreign, dtype)
    except AttributeError as error:
        arguments.blame(error)
        raise
    if device is not None or default_device().type != "cpu":
        made = to(made, home(device))
    elif data.__class__ is _OF_NUMBERS.get(made._layout.dtype):
        _of_numbers[data.__class__, dtype] = specialize_fill(made._layout, data)
    return made if requires_grad is False else leaf(made, requires_grad)


PUBLIC["tensor"] = tensor


_of_numbers: dict[Any, Callable] = register_cache({})  # what makes a zero-dim tensor, by the class of the number and the dtype
_OF_NUMBERS: dict[DType, type] = {float32: float, float64: float, int64: int, bool_: bool}


def _foreign(data: Any) -> Tensor | None:
    """A tensor over the memory of an object of another library that says where it is; None for other data."""
    if data.__class__ in (list, tuple, int, float, bool, complex) or isinstance(data, (Tensor, np.ndarray, np.generic)):
        return None
    if hasattr(data, "__cuda_array_interface__"):
        raise RuntimeError("Tensors on a CUDA device are not supported here: bring the array to the CPU first")
    return NAMESPACE["from_dlpack"](data) if hasattr(data, "__dlpack__") else None


@public(method=False)
def scalar_tensor(
    s: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False, layout: Any = None
) -> Tensor:
    """A zero-dim tensor of the default (or given) dtype. RuntimeError for a complex number that it can't hold."""
    if s.__class__ is complex:
        scalar_range.check(s, dtype or get_default_dtype())
    return tensor(s, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad)


@public(method=False)
def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory (and history) where nothing has to change."""
    if isinstance(data, Tensor):
        return to(data, device=device, dtype=dtype)
    if isinstance(data, np.ndarray):
        made = _over_array(data)
    else:
        foreign = _foreign(data)
        made = make_tensor(data, dtype) if foreign is None else foreign
    return to(made, device=device, dtype=dtype)


@public(method=False)
def asarray(
    obj: Any, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """`obj` as a tensor: of arrays, tensors and buffers over their memory unless dtype or device differ; of a buffer's bytes
    as elements of `dtype` (default: the default dtype).

    copy: True always copies, False never does (ValueError if it must). requires_grad: of a leaf that is `obj` itself it is set;
    unless given, that of `obj`. Raises RuntimeError for dtypes that have no gradients.
    """
    if isinstance(obj, Tensor):
        made = obj
    elif isinstance(obj, np.ndarray):
        made = _over_array(obj)
    elif isinstance(obj, np.generic):
        if copy is False:
            raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
        made = make_tensor(obj)
    elif type(obj).__name__ == "PyCapsule":  # of DLPack, or refused
        made = NAMESPACE["from_dlpack"](obj)
    elif over_storage(obj, dtype) is None and _has_buffer(obj):
        made = _over_buffer(obj, dtype or get_default_dtype(), -1, 0)
    else:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        made = as_tensor(obj, dtype, device)
        return made if not requires_grad else leaf(made)
    layout = made._layout
    wanted, place = dtype or layout.dtype, layout.device if device is None else home(device)
    differs = wanted is not layout.dtype or place is not layout.device
    if copy or (copy is None and differs):
        made = to(made, place, wanted) if differs else made.clone()
    elif differs:
        if place is not layout.device:
            raise ValueError(f"can't alias tensor from device '{layout.device}' to '{place}'.")
        raise ValueError(f"can't alias tensor with dtype '{layout.dtype.scalar_name}' into dtype '{wanted.scalar_name}'.")
    if requires_grad is None:
        if isinstance(obj, Tensor) and obj._node is not None:
            warn_once(
                "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
                "requires_grad=False explicitly to get the old behavior and silence this warning."
            )
        return made
    if made._node is not None and type(made._node) is not AccumulateGrad:
        return made if requires_grad else made.detach()
    if not (requires_grad is False or wanted.is_floating_point or wanted.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return made.requires_grad_(requires_grad)


def _over_array(array: np.ndarray) -> Tensor:
    """A tensor over an array's memory, with a warning where that is not to be written to."""
    if not array.flags.writeable:
        warn_once(
            "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means "
            "writing to this tensor will result in undefined behavior. You may want to copy the array to protect its "
            "data or make it writable before converting it to a tensor. This type of warning will be suppressed for "
            "the rest of this program."
        )
    return from_array(array)


@public(method=False)
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor over the memory of a NumPy array; writes are seen by both. Raises TypeError for unsupported dtypes."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type_name(ndarray)})")
    return _over_array(ndarray)


def _has_buffer(obj: Any) -> bool:
    """Whether an object gives its memory by the buffer protocol."""
    if isinstance(obj, (list, tuple, int, float, complex, str)):
        return False
    try:
        memoryview(obj).release()
    except (TypeError, ValueError):
        return False
    return True


@public(method=False)
def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A 1-d tensor over the memory of an object with the buffer interface."""
    made = _over_buffer(buffer, dtype, count, offset)
    return made if requires_grad is False else leaf(made, requires_grad)


def _over_buffer(buffer: Any, dtype: DType, count: int, offset: int) -> Tensor:
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    if not view.c_contiguous:
        raise RuntimeError("could not retrieve buffer from object")
    size = view.nbytes
    if view.readonly:
        warn_once(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can "
            "write to the underlying (supposedly non-writable) buffer using the tensor. You may want to copy the buffer "
            "to protect its data or make it writable before converting it to a tensor. This type of warning will be "
            "suppressed for the rest of this program."
        )
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1")
    if count < 0 and (size - offset) % dtype.itemsize:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of "
            f"element size ({dtype.itemsize})"
        )
    if count > 0 and offset + count * dtype.itemsize > size:
        raise ValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({size} bytes)"
        )
    return from_array(np.frombuffer(buffer, dtype.numpy, count, offset), dtype)
