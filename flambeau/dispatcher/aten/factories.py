"""Whole numbers at random, and reads of a tensor's sizes and value.

Stands on ops.creation.factories and core.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import int64
from flambeau.base.layout import contiguous_format
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation


@implementation("randint", "randint.default")
def randint(high: int, size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
    """Integers from 0 up to below `high`."""
    return NAMESPACE["randint"](0, high, size, dtype=dtype, device=device)


@implementation("randint.low")
def randint_between(
    low: int, high: int, size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Any:
    """Integers from `low` up to below `high`."""
    return NAMESPACE["randint"](low, high, size, dtype=dtype, device=device)


@implementation()
def _local_scalar_dense(self: Tensor) -> Any:
    """The only element, as a number of Python's. RuntimeError without one."""
    if not self._layout.numel:
        raise RuntimeError("Empty tensor not supported")
    return self.item()


@implementation()
def _shape_as_tensor(self: Tensor) -> Tensor:
    """The sizes as an int64 tensor."""
    return NAMESPACE["tensor"](list(self._layout.shape), dtype=int64)


@implementation("lift_fresh", "lift")
def lift_fresh(self: Tensor) -> Tensor:
    """The tensor itself, which a mode may put its own in the place of."""
    return self


@implementation("sym_size", "sym_size.int")
def sym_size(self: Tensor, dim: int | None = None) -> Any:
    """A size, or all of them."""
    return list(self.shape) if dim is None else self.shape[dim]


@implementation("sym_stride", "sym_stride.int")
def sym_stride(self: Tensor, dim: int | None = None) -> Any:
    """A stride, or all of them, in elements."""
    return list(self.stride()) if dim is None else self.stride(dim)


@implementation()
def sym_numel(self: Tensor) -> int:
    """The number of elements."""
    return self.numel()


@implementation()
def sym_storage_offset(self: Tensor) -> int:
    """Where the tensor begins in its storage, in elements."""
    return self.storage_offset()


@implementation()
def sym_is_contiguous(self: Tensor, memory_format: Any = contiguous_format) -> bool:
    """Whether the elements lie in the order of that format."""
    return self.is_contiguous(memory_format=memory_format if memory_format else contiguous_format)


@implementation("random_.from", "random_.to", "random_")
def random_(self: Tensor, *bounds: Any, generator: Any = None) -> Any:
    """Whole numbers, drawn into the tensor."""
    return self.random_(*bounds, generator=generator)


@implementation()
def normal_functional(self: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Any:
    """Normal numbers in a tensor like another."""
    return self.clone().normal_(mean, std, generator=generator)
