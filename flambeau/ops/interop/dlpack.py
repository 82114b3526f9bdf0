"""DLPack: memory that array libraries hand to each other, described by structures in capsules.

NumPy makes and reads the capsules. Of elements that it doesn't know (bfloat16, float8, complex32) it sees the bits, and what the
description says of them is exchanged here. Stands on ctypes and core; attaches `__dlpack__` to Tensor and `from_dlpack` to the
namespace.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from flambeau.base.device import device as Device
from flambeau.base.dtype import all_dtypes
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import CONJUGATE, Layout, strided
from flambeau.core.operator.publishing import NAMESPACE, public
from flambeau.core.tensor import create
from flambeau.core.tensor.tensor import Tensor, tensor_from

CPU = 1  # DLPack's number of the kind of device
_UINT = 1  # its number of unsigned integers
_INVALID = (
    "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have "
    "already constructed a tensor from it once."
)
# Where the kind of elements (a byte), and the bits of one (a byte), stand in what a capsule of each name holds.
_PLACES = {b"dltensor": 20, b"dltensor_versioned": 52}


@cache
def _kinds() -> dict[DType, int]:
    """DLPack's numbers of the dtypes that NumPy lacks."""
    names = {
        "bfloat16": 4,
        "complex32": 5,
        "float8_e4m3fn": 10,
        "float8_e4m3fnuz": 11,
        "float8_e5m2": 12,
        "float8_e5m2fnuz": 13,
        "float8_e8m0fnu": 14,
    }
    return {dtype: names[dtype.name] for dtype in all_dtypes().values() if dtype.name in names}


def _bits(dtype: DType) -> DType:
    """The unsigned integer with as many bits."""
    return all_dtypes()[f"uint{8 * dtype.itemsize}"]


def _elements(capsule: Any) -> Any:
    """The two bytes of a capsule's description that tell its elements: kind, bits. RuntimeError for what is no capsule of DLPack,
    or one that was taken already.
    """
    valid, pointer = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    valid.argtypes = pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    pointer.restype = ctypes.c_void_p
    for name, place in _PLACES.items():
        if valid(capsule, name):
            return (ctypes.c_uint8 * 2).from_address(pointer(capsule, name) + place)
    raise RuntimeError(_INVALID)


@public(namespace=False)
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """(kind of device, its number). ValueError for a tensor on meta."""
    if self._layout.device.type == "meta":
        raise ValueError("Unknown device type meta for Dlpack")
    return CPU, 0


@public(namespace=False)
def __dlpack__(
    self: Tensor, *, stream: Any = -1, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """A DLPack capsule over the same memory, or a copy of it. max_version: (major, minor) of the protocol that is understood.

    Raises BufferError for tensors that require grad, aren't strided or have no data, TypeError or AssertionError for a stream:
    the CPU has none.
    """
    if self._node is not None:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    layout = self._layout
    if self.layout is not strided:
        raise BufferError("Can't export tensors with layout other than torch.strided")
    if layout.device.type == "meta":
        raise BufferError("Cannot pack tensors on meta")
    if layout.pending & CONJUGATE:
        raise BufferError("Can't export tensors with the conjugate bit set")
    if layout.pending:
        raise BufferError("Can't export tensors with the negative bit set")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    if dl_device is not None and next(iter(dl_device)) != CPU:
        raise BufferError(f"a tensor can be exported to the CPU only, not to the device {tuple(dl_device)}")
    kind = _kinds().get(layout.dtype)
    given = self.clone() if copy else self
    if kind is not None:
        given = tensor_from(given._storage, given._offset, _like(given._layout, _bits(layout.dtype)))
    options = {"max_version": tuple(max_version)} if max_version is not None else {}
    capsule = given.numpy().__dlpack__(**options)  # type: ignore[attr-defined]
    if kind is not None:
        _elements(capsule)[0] = kind
    return capsule


def _like(layout: Layout, dtype: DType) -> Layout:
    return Layout.of(layout.shape, layout.strides, dtype, layout.device)


class _Exporter:
    """What NumPy takes a capsule from."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0


def _capsule_of(given: Any, copy: bool | None) -> Any:
    """The capsule of an object with `__dlpack__`, asked in the newest way that it understands."""
    kind = given.__dlpack_device__()[0] if hasattr(given, "__dlpack_device__") else CPU
    if kind != CPU:
        raise BufferError(f"DLPack memory on a device of kind {kind} can't be used: bring the array to the CPU first")
    try:
        return given.__dlpack__(max_version=(1, 0), **({} if copy is None else {"copy": copy}))
    except TypeError:
        return given.__dlpack__()


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of an object with `__dlpack__` (or of a DLPack capsule, which can be taken once).

    copy: True copies. Raises RuntimeError for what is neither, BufferError for other devices than the CPU.
    """
    if device is not None and Device(device).type != "cpu":
        raise BufferError(f"Cannot pack tensors on {Device(device).type}")
    capsule = _capsule_of(ext_tensor, copy) if hasattr(ext_tensor, "__dlpack__") else ext_tensor
    elements = _elements(capsule)
    dtype = next((dtype for dtype, kind in _kinds().items() if (kind, 8 * dtype.itemsize) == tuple(elements)), None)
    if dtype is not None:
        elements[0] = _UINT
    array = np.from_dlpack(_Exporter(capsule))
    made = create.from_array(array)
    # NumPy has strides of its own where there are no elements, or one along a dimension
    layout = ext_tensor._layout if isinstance(ext_tensor, Tensor) else made._layout
    if layout is not made._layout or dtype is not None:
        made = tensor_from(made._storage, made._offset, _like(layout, dtype or made._layout.dtype))
    return made.clone() if copy else made


NAMESPACE["from_dlpack"] = from_dlpack
