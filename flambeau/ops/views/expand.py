"""Repetition without a copy: expand, broadcast_to, broadcast_tensors, meshgrid and atleast_1d, 2d, 3d.

Stands on core.operator.view and ops.views.view; the engine undoes the repetition in gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.base.layout import Size
from flambeau.base.warn import warn_once
from flambeau.core.autograd.engine import sum_to_shape
from flambeau.core.autograd.node import type_name
from flambeau.core.operator import view
from flambeau.core.operator.arguments import refused
from flambeau.core.operator.publishing import NAMESPACE, explained, public
from flambeau.core.operator.view import declare
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.views.view import given_sizes, view_to

# The engine sums the gradient over the repeated dimensions.
_expand = declare("expand", "ExpandBackward0", geometry.expand_geometry, lambda gradient, layout, sizes: gradient, ("size",))


@public(namespace=False)
def expand(self: Any, *sizes: Any, **keywords: Any) -> Any:
    """Dimensions of size 1 (and new leading ones) repeated without a copy; -1 keeps a size."""
    given = given_sizes("expand", "size", (keywords["size"],) if "size" in keywords else sizes)
    try:
        return _expand(self, given)
    except RuntimeError as error:
        if "torch.FloatTensor{" not in str(error):
            raise
        raise RuntimeError(str(error).replace("torch.FloatTensor{", type_name(self._layout) + "{")) from None


@public(namespace=False)
def expand_as(self: Any, other: Any) -> Any:
    """`expand` to the shape of another tensor."""
    if not isinstance(other, Tensor):
        raise refused("expand_as", "other", "Tensor", other, 1)
    return expand(self, other._layout.shape)


@public
def broadcast_to(input: Any, size: Sequence[int], *surplus: Any) -> Any:
    """`expand` to a shape."""
    return expand(input, (size, *surplus) if surplus else size)


@public(namespace=False)
def sum_to_size(self: Any, *size: Any) -> Any:
    """The inverse of `expand`: the sum over all that was repeated to get from `size` to this shape."""
    wanted = given_sizes("sum_to_size", "size", size)
    own = self._layout.shape
    lead = len(own) - len(wanted)
    if lead < 0 or any(size not in (1, own[lead + dim]) for dim, size in enumerate(wanted)):
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(own)}}}.")
    return sum_to_shape(self, wanted) if wanted else self.sum()


@public(method=False)
@explained
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Every tensor expanded to their common shape."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    shape = geometry.broadcast(*[tensor._layout.shape for tensor in given])
    return tuple(tensor if tensor._layout.shape == shape else _expand(tensor, shape) for tensor in given)


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape to which these shapes broadcast. Raises RuntimeError if they don't."""
    return Size(geometry.broadcast_shapes(*shapes))


NAMESPACE["broadcast_shapes"] = broadcast_shapes


@public(method=False, written_in_python=True)
@explained
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """Coordinates of a grid: each vector expanded along its own dimension. indexing: "ij", or "xy" (the first two swap)."""
    given = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors)
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for tensor in given:
        if tensor._layout.dtype is not given[0]._layout.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if tensor._layout.device is not given[0]._layout.device:
            raise RuntimeError("meshgrid expects all tensors to have the same device")
    for tensor in given:
        if tensor._layout.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {tensor}")
    if indexing is None:
        warn_once("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    order = list(range(len(given)))
    if indexing == "xy" and len(given) > 1:
        order[:2] = 1, 0
    shape = tuple(given[place]._layout.numel for place in order)
    return tuple(
        _expand(view_to(tensor, (1,) * place + (shape[place],) + (1,) * (len(given) - place - 1)), shape)
        for tensor, place in zip(given, order, strict=True)
    )


def _each(function: Callable[[Any], Any], tensors: tuple[Any, ...]) -> Any:
    """Apply to one tensor, or to several (given one by one or as a sequence) for a tuple."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    given = tensors[0] if len(tensors) == 1 else tensors
    return tuple(function(tensor) for tensor in given)


@public(method=False, written_in_python=True)
def atleast_1d(*tensors: Any) -> Any:
    """Zero-dim tensors get a dimension; others stay as they are."""
    return _each(lambda x: x if x._layout.ndim else view_to(x, (1,)), tensors)


@public(method=False, written_in_python=True)
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions; a vector becomes a row."""
    return _each(lambda x: x if x._layout.ndim > 1 else view.unsqueeze(x, 0) if x._layout.ndim else view_to(x, (1, 1)), tensors)


@public(method=False, written_in_python=True)
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions; a vector becomes (1, n, 1), a matrix gets a last dimension."""

    def raised(x: Any) -> Any:
        if x._layout.ndim == 2:
            return view.unsqueeze(x, -1)
        if x._layout.ndim == 1:
            return view.unsqueeze(view.unsqueeze(x, 0), -1)
        return x if x._layout.ndim else view_to(x, (1, 1, 1))

    return _each(raised, tensors)
