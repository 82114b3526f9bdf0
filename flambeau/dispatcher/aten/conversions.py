"""Conversions by PyTorch's names: the overloads of `to`, and what asserts of what a tensor is. Stands on Tensor's methods."""

from __future__ import annotations

from typing import Any

from flambeau.base import device as devices
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation


@implementation("to.dtype")
def to_dtype(self: Tensor, dtype: Any, non_blocking: bool = False, copy: bool = False, memory_format: Any = None) -> Any:
    """The tensor in a dtype, itself if it is of that and no copy is asked for."""
    return _to(self, dtype, copy, memory_format)


@implementation("to.device")
def to_device(
    self: Tensor, device: Any, dtype: Any, non_blocking: bool = False, copy: bool = False, memory_format: Any = None
) -> Any:
    """The tensor in a dtype."""
    return _to(self, dtype, copy, memory_format)


@implementation("to.other")
def to_other(self: Tensor, other: Tensor, non_blocking: bool = False, copy: bool = False, memory_format: Any = None) -> Any:
    """The tensor in the dtype of another."""
    return _to(self, other._layout.dtype, copy, memory_format)


@implementation("to.dtype_layout")
def to_dtype_layout(
    self: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Any:
    """The tensor in a dtype."""
    return _to(self, dtype or self.dtype, copy, memory_format)


def _to(self: Any, dtype: Any, copy: bool, memory_format: Any) -> Any:
    order = {} if memory_format is None else {"memory_format": memory_format}
    return self.to(dtype, copy=copy, **order)


@implementation()
def numpy_T(self: Any) -> Any:
    """All dimensions in reverse."""
    return self.T


@implementation()
def mT(self: Any) -> Any:
    """The last two dimensions exchanged."""
    return self.mT


@implementation("unflatten.int")
def unflatten(self: Any, dim: int, sizes: Any) -> Any:
    """A dimension as several."""
    return self.unflatten(dim, tuple(sizes))


@implementation()
def detach_(self: Any) -> Any:
    """The tensor, without its place in the graph."""
    return self.detach_()


@implementation("_assert_tensor_metadata")
def assert_tensor_metadata(
    a: Any, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None, layout: Any = None
) -> None:
    """RuntimeError unless the tensor has these sizes, strides, dtype, device and layout, as far as they are given."""

    def check(what: str, wanted: Any, got: Any, *shown: Any) -> None:
        if wanted is not None and wanted != got:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {shown[0]}, Got: {shown[1]}")

    check("sizes", size and list(size), list(a.shape), size, list(a.shape))
    check("strides", stride and list(stride), list(a.stride()), stride, list(a.stride()))
    check("dtype", dtype, a.dtype, getattr(dtype, "scalar_name", dtype), a.dtype.c_name)
    check("device", device and devices.device(device), a.device, device, a.device)
    check("layout", layout, a.layout, *[str(x).rpartition(".")[2].removesuffix("_coo").capitalize() for x in (layout, a.layout)])
