"""Similarity and distance of vectors: cosine_similarity, pairwise_distance.

What compares two tensors row by row is one kernel, both gradients are another; where gradients of gradients are wanted, and
under transforms, it is written in operators. Stands on core.operator.row_program and ops.reduction.vector_norm; used by
ops.nn.loss and nn.functional. Those of all pairs are in ops.linalg.cdist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base import geometry
from flambeau.core.autograd import engine
from flambeau.core.modes import modes
from flambeau.core.operator.annotations import Number
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.row_program import FULL, Rows
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Row, folded
from flambeau.ir.scalar import cast
from flambeau.ops.reduction.sum import adding, form, one_dim, wide
from flambeau.ops.reduction.vector_norm import vector_norm
from flambeau.ops.tensor_methods.predicates import result_type


def compared(name: str, node: str, stages: Callable, gradient_stages: Callable, by_operators: Callable) -> Callable:
    """An operator of two tensors of one shape and dtype along a dimension: (x1, x2, dim, eps, keepdim).

    stages(x1, x2, eps) -> (loop, result); gradient_stages(x1, x2, g, eps) -> (loop, gradient of x1, gradient of x2);
    by_operators: the same, differentiable as often as one likes.
    """

    def forward(elements: tuple, numbers: tuple, keepdim: bool) -> tuple:
        loop, result = stages(*elements, numbers[0])
        return loop, Row(((0, cast(result, elements[0].dtype)),))

    def backward(elements: tuple, numbers: tuple) -> tuple:
        x1, x2 = elements[:2]
        loop, first, second = gradient_stages(x1, x2, cast(elements[2], x1.dtype), numbers[0])
        return loop, Loop((), ((0, first), (1, second)))

    values = Rows(name, forward, lambda dtypes, keepdim: [(dtypes[0], form(keepdim))])
    gradients = Rows(name + "_backward", backward, lambda dtypes: [(dtypes[0], FULL)] * 2)

    @operator(method=False, function=False, name=name + "_rows", node=node)
    def compare(x1: Tensor, x2: Tensor, dim: int, eps: float, keepdim: bool) -> Tensor:
        """Rows of two tensors of one shape compared."""
        return values((x1, x2), (dim,), (eps,), (keepdim,))

    @compare.vjp
    def _(g, x1, x2, dim, eps, keepdim, need):
        if modes.local.grad or g._layout.flavor is not None:
            with modes.enable_grad():
                chosen = [x for side, x in (("x1", x1), ("x2", x2)) if need[side]]
                found = iter(engine.grad(by_operators(x1, x2, dim, eps, keepdim), chosen, [g], create_graph=True))
            return tuple([next(found) if need[side] else None for side in ("x1", "x2")])
        first, second = gradients((x1, x2, g if keepdim else g.unsqueeze(dim)), (dim,), (eps,))
        return first if need["x1"] else None, second if need["x2"] else None

    def call(x1: Tensor, x2: Tensor, dim: Any, eps: float, keepdim: bool) -> Tensor:
        layout = x1._layout
        if layout.flavor is not None or x2._layout.flavor is not None or not layout.ndim or not layout.numel:
            return by_operators(x1, x2, dim, eps, keepdim)
        if x1 is x2:  # each gets its own gradient
            x2 = x1.view_as(x1) if x1._node is not None else tensor_from(x1._storage, x1._offset, layout)
        return compare(x1, x2, one_dim(name, dim, layout.ndim), float(eps), keepdim)

    return call


# ---------------------------------------------------------------- cosine similarity


def _cosine_stages(x1: Any, x2: Any, eps: Any) -> tuple:
    total = wide(x1.dtype)
    a, b = cast(x1, total), cast(x2, total)
    loop = Loop((adding("product", a * b), adding("square1", a * a), adding("square2", b * b)))
    return loop, folded("product", total) / (_size("square1", total, eps) * _size("square2", total, eps))


def _size(square: str, total: Any, eps: Any) -> Any:
    size, least = s.sqrt(folded(square, total)), cast(eps, total)
    return s.where(size < least, least, size)


def _cosine_gradient_stages(x1: Any, x2: Any, g: Any, eps: Any) -> tuple:
    """The gradient passes to a vector's size also where that is below eps."""
    total = wide(x1.dtype)
    loop, cosine = _cosine_stages(x1, x2, eps)
    made = []
    for own, other, square, facing in ((x1, x2, "square1", "square2"), (x2, x1, "square2", "square1")):
        size = s.sqrt(folded(square, total))
        across = 1 / (_size(square, total, eps) * _size(facing, total, eps))
        along = s.where(size == 0, 0, cosine / (_size(square, total, eps) * size))
        made.append(g * (other * cast(across, own.dtype) - own * cast(along, own.dtype)))
    return loop, *made


def _cosine_by_operators(x1: Tensor, x2: Tensor, dim: Any, eps: float, keepdim: bool) -> Tensor:
    parts = []
    for x in (x1, x2):
        size = vector_norm(x, 2, dim, True)
        parts.append(x / size.clamp(min=eps) if not size.requires_grad else x / raised(size, float(eps)))
    return (parts[0] * parts[1]).sum(dim, keepdim)


@pointwise(method=False, function=False, inplace=False, name="_raised")
def raised(size: Tensor, least: Number = 0.0):
    """The larger of size and least, whose gradient passes to size everywhere, as PyTorch's does."""
    return s.where(size < least, least, size)


@raised.vjp
def _(g):
    return g


_cosine = compared("cosine_similarity", "SumBackward1", _cosine_stages, _cosine_gradient_stages, _cosine_by_operators)


@composite(method=False)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps=1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`; the shapes broadcast. Returns them without `dim`.

    Raises RuntimeError for integers.
    """
    if eps < 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    common = result_type(x1, x2) if x1.dtype is not x2.dtype else x1.dtype
    if not common.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {common.scalar_name}")
    if x1._layout.shape != x2._layout.shape:
        shape = geometry.broadcast(x1._layout.shape, x2._layout.shape)
        x1, x2 = x1.expand(shape), x2.expand(shape)
    return _cosine(x1.to(common), x2.to(common), dim, eps, False)


# ---------------------------------------------------------------- distances


def _distance_stages(x1: Any, x2: Any, eps: Any) -> tuple:
    total = wide(x1.dtype)
    delta = cast(x1 - x2 + cast(eps, x1.dtype), total)
    return Loop((adding("square", delta * delta),)), s.sqrt(folded("square", total))


def _distance_gradient_stages(x1: Any, x2: Any, g: Any, eps: Any) -> tuple:
    loop, distance = _distance_stages(x1, x2, eps)
    share = s.where(distance == 0, 0, cast(g, distance.dtype) / distance)
    slope = (x1 - x2 + cast(eps, x1.dtype)) * cast(share, x1.dtype)
    return loop, slope, -slope


def _distance_by_operators(x1: Tensor, x2: Tensor, dim: Any, eps: float, keepdim: bool) -> Tensor:
    return vector_norm(x1 - x2 + eps, 2.0, dim, keepdim)


_distance = compared("pairwise_distance", "NormBackward1", _distance_stages, _distance_gradient_stages, _distance_by_operators)


@composite(method=False, node="NormBackward1")
def pairwise_distance(x1: Tensor, x2: Tensor, p=2.0, eps=1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension; the shapes broadcast."""
    own, other = x1._layout, x2._layout
    shape = own.shape if own.shape == other.shape else geometry.broadcast(own.shape, other.shape)
    dim = max(len(shape) - 1, 0)
    if p == 2 and own.dtype is other.dtype and own.dtype.is_floating_point:
        if own.shape != other.shape:
            x1, x2 = x1.expand(shape), x2.expand(shape)
        return _distance(x1, x2, dim, eps, keepdim)
    return vector_norm(x1 - x2 + eps, float(p), dim, keepdim)
