"""Views and their gradients by PyTorch's names (`slice`, `select_backward`), copies and conversions.

Stands on the views of core and ops.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base.memory_order import overlaps_itself
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation


@implementation("slice.Tensor")
def slice_tensor(self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """The elements [start:end:step] along a dimension, as a view."""
    index = [slice(None)] * (dim % max(1, self._layout.ndim)) + [slice(start, end, step)]
    return self[tuple(index)]


@implementation("index.Tensor")
def index_tensor(self: Tensor, indices: Any) -> Any:
    """The elements that tensors of places name, None for a whole dimension."""
    return self[tuple([slice(None) if i is None else i for i in indices])]


@implementation()
def index_put(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """A copy in which values stand at the places that tensors name."""
    return self.index_put(tuple(indices), values, accumulate)


@implementation()
def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """The tensor, with values at the places that tensors name."""
    return self.index_put_(tuple(indices), values, accumulate)


@implementation()
def expand(self: Tensor, size: Any, *, implicit: bool = False) -> Any:
    """A view with larger dimensions."""
    return self.expand(size)


@implementation()
def clone(self: Tensor, *, memory_format: Any = None) -> Any:
    """A copy."""
    return self.clone() if memory_format is None else self.clone(memory_format=memory_format)


@implementation()
def copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Any:
    """The values of `src` in the dtype and geometry of `self`: what that would be after a copy_."""
    layout = self._layout
    strides = None if overlaps_itself(layout.shape, layout.strides) else self.stride()
    made = self.new_empty(self.shape) if strides is None else self.new_empty_strided(self.shape, strides)
    return made.copy_(src)


@implementation()
def _to_copy(
    self: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Any:
    """A copy in another dtype, or on another device."""
    named = {} if memory_format is None else {"memory_format": memory_format}
    return self.to(dtype=dtype or self._layout.dtype, device=device, copy=True, **named)


@implementation("_unsafe_view", "_reshape_alias")
def _unsafe_view(self: Tensor, size: Any, stride: Any = None) -> Any:
    return self.view(size)


@implementation()
def _conj_physical(self: Tensor) -> Any:
    return NAMESPACE["conj_physical"](self)


# ---------------------------------------------------------------- gradients of views: zeros with the gradient in one place


def _zeros(gradient: Tensor, sizes: Any) -> Any:
    return gradient.new_zeros(tuple(sizes))


@implementation()
def select_backward(grad_output: Tensor, input_sizes: Any, dim: int, index: int) -> Any:
    """Zeros with the gradient at one index."""
    return NAMESPACE["select_scatter"](_zeros(grad_output, input_sizes), grad_output, dim, index)


@implementation()
def slice_backward(grad_output: Tensor, input_sizes: Any, dim: int, start: int, end: int, step: int) -> Any:
    """Zeros with the gradient in a slice."""
    return NAMESPACE["slice_scatter"](_zeros(grad_output, input_sizes), grad_output, dim, start, end, step)


@implementation()
def diagonal_backward(grad_output: Tensor, input_sizes: Any, offset: int, dim1: int, dim2: int) -> Any:
    """Zeros with the gradient on a diagonal."""
    return NAMESPACE["diagonal_scatter"](_zeros(grad_output, input_sizes), grad_output, offset, dim1, dim2)


@implementation()
def masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: Any) -> Any:
    """The gradient of what masked_scatter took from its source: the chosen elements in front, zeros behind them."""
    found = grad_output.masked_select(mask)
    flat = _zeros(grad_output, (math.prod(sizes),))
    flat[: found.numel()] = found
    return flat.view(tuple(sizes))


# ---------------------------------------------------------------- parts of a tensor


@implementation("unsafe_split", "unsafe_split.Tensor")
def unsafe_split(self: Tensor, split_size: int, dim: int = 0) -> Any:
    """The parts of a dimension."""
    return self.split(split_size, dim)


@implementation("unsafe_split_with_sizes")
def unsafe_split_with_sizes(self: Tensor, split_sizes: Any, dim: int = 0) -> Any:
    """The parts of a dimension, of these sizes."""
    return self.split(list(split_sizes), dim)


@implementation()
def unsafe_chunk(self: Tensor, chunks: int, dim: int = 0) -> Any:
    """At most so many parts of a dimension."""
    return self.unsafe_chunk(chunks, dim)


# ---------------------------------------------------------------- views that a tensor takes itself


@implementation("transpose_", "swapaxes_", "swapdims_")
def transpose_(self: Tensor, dim0: int, dim1: int) -> Any:
    """The tensor, with two dimensions exchanged."""
    return self.transpose_(dim0, dim1)


@implementation()
def unsqueeze_(self: Tensor, dim: int) -> Any:
    """The tensor, with one dimension more."""
    return self.unsqueeze_(dim)


@implementation("squeeze_.dim", "squeeze_.dims")
def squeeze_(self: Tensor, dim: Any) -> Any:
    """The tensor, without dimensions of size one."""
    return self.squeeze_(tuple(dim) if isinstance(dim, list) else dim)


@implementation()
def as_strided_(self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """The tensor, with other sizes and strides."""
    return self.as_strided_(size, stride, storage_offset)
