"""Lowerings of reshapes of tensors whose sizes have symbols: in PyTorch's operators, with the symbols.

The public functions compute with numbers, so they serve where there are no symbols. Stands on lowerings; loaded by
dispatcher.dispatch_modes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import contiguous_format
from flambeau.base.symbolic.numbers import is_symbolic_number, plain_value
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.lowerings import LOWERINGS, lowering, packets

__all__: list[str] = []


def _symbolic(input: Tensor, sizes: Sequence[Any] = ()) -> bool:
    return any(map(is_symbolic_number, (*input.shape, *sizes)))


def _filled(sizes: Sequence[Any], count: Any) -> list[Any]:
    """Sizes with the one that is -1 worked out."""
    if not any(type(n) is int and n == -1 for n in sizes):
        return list(sizes)
    return [count // math.prod(m for m in sizes if not (type(m) is int and m == -1)) if type(n) is int and n == -1 else n
            for n in sizes]  # fmt: skip


def _reshaped(input: Tensor, sizes: Sequence[Any]) -> Any:
    layout = input._layout
    if layout.is_contiguous:
        return packets().view.default(input, list(sizes))
    shape = _filled(sizes, math.prod(input.shape))
    if geometry.reshape_strides(layout.shape, layout.strides, tuple(map(plain_value, shape))) is not None:
        return packets().view.default(input, shape)
    return packets()._unsafe_view.default(packets().clone.default(input, memory_format=contiguous_format), shape)


def _view(own: Any, input: Tensor, *shape: Any, **named: Any) -> Any:
    if len(shape) == 1 and isinstance(shape[0], DType):
        return packets().view.dtype(input, shape[0])
    sizes = named.get("shape", shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
    if own.__name__ == "view" or not isinstance(sizes, (tuple, list)) or not _symbolic(input, sizes):
        return NotImplemented
    return _reshaped(input, sizes)


LOWERINGS["view"] = _view  # which is also what reshape is called there


@lowering
def reshape_as(own: Any, input: Tensor, other: Tensor) -> Any:
    """In the shape of another tensor."""
    return _reshaped(input, other.shape) if _symbolic(input) or _symbolic(other) else NotImplemented


@lowering
def flatten(own: Any, input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions as one."""
    if not _symbolic(input):
        return NotImplemented
    shape = list(input.shape)
    start, end = start_dim % len(shape), end_dim % len(shape)
    if start >= end:
        return NotImplemented
    return _reshaped(input, [*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]])


@lowering
def unflatten(own: Any, input: Tensor, dim: int, sizes: Sequence[Any]) -> Any:
    """A dimension as several."""
    if not _symbolic(input, sizes):
        return NotImplemented
    shape = list(input.shape)
    dim = dim % len(shape)
    return packets().view.default(input, [*shape[:dim], *_filled(sizes, shape[dim]), *shape[dim + 1 :]])


@lowering
def ravel(own: Any, input: Tensor) -> Any:
    """In one dimension."""
    return packets().view.default(input.contiguous(), [-1]) if _symbolic(input) else NotImplemented


@lowering
def view_as(own: Any, input: Tensor, other: Tensor) -> Any:
    """A view in the shape of another tensor."""
    return packets().view.default(input, list(other.shape)) if _symbolic(input) or _symbolic(other) else NotImplemented


@lowering
def expand_as(own: Any, input: Tensor, other: Tensor) -> Any:
    """Repeated to the shape of another tensor."""
    return packets().expand.default(input, list(other.shape)) if _symbolic(input) or _symbolic(other) else NotImplemented
