"""Distances between all pairs of rows of two matrices, or of one: cdist, pdist.

One kernel makes the distances, one the gradient of each operand. The Euclidean distances of many rows are worked out by a matrix
product, and those under transforms or to be differentiated twice in operators. Stands on codegen.embedding.distances and
ops.reduction.vector_norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.base import geometry
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.embedding.distances import distance_gradient_plan, distances_plan
from flambeau.core.autograd import engine
from flambeau.core.modes import modes
from flambeau.core.modes.autocast import single
from flambeau.core.operator.annotations import Number
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor, empty_layout
from flambeau.ir import scalar as s
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.linalg.matmul import matmul
from flambeau.ops.reduction.vector_norm import share, vector_norm

PRODUCT_ROWS = 25  # above which Euclidean distances are worked out by a product
_gradient_plans: dict[Any, Callable] = register_cache({})


# ---------------------------------------------------------------- gradients


@pointwise(method=False, function=False, inplace=False, differentiable=False, name="_distance_weight")
def _weight(g: Tensor, distance: Tensor, power: Number = 1):
    """A gradient divided by a power of the distance; none at 0."""
    return s.where(distance == 0, 0, g / s.pow(distance, power))


def _slopes(own: Tensor, other: Tensor, weights: Tensor, distances: Tensor, p: float, turned: bool) -> Tensor:
    """The gradient of one operand, from contiguous tensors."""
    key = own._layout, other._layout, weights._layout, p, turned
    launch = _gradient_plans.get(key)
    if launch is None:
        launch = _gradient_plans[key] = distance_gradient_plan(*key[:3], p, turned)
    return launch(None, own, other, weights, distances)


def _gradients(g: Tensor, distances: Tensor, first: Tensor, second: Tensor, p: float, need: tuple[bool, bool]) -> tuple:
    """The gradients of both operands, without a graph."""
    if p == 0:
        return tuple(NAMESPACE["zeros_like"](x) if wanted else None for x, wanted in zip((first, second), need))
    weights = g if p in (1, math.inf) else share(g, distances) if p == 2 else _weight(g, distances, p - 1)
    weights, distances, first, second = (contiguous(x) for x in (weights, distances, first, second))
    return (
        _slopes(first, second, weights, distances, p, False) if need[0] else None,
        _slopes(second, first, weights, distances, p, True) if need[1] else None,
    )


def _again(distances: Tensor, inputs: list[Tensor], g: Tensor) -> tuple:
    """Gradients of distances in operators, which can be differentiated again; zeros for p = 0, which doesn't move."""
    found = engine.grad(distances, inputs, [g], create_graph=True, allow_unused=True)
    return tuple([NAMESPACE["zeros_like"](x) if each is None else each for x, each in zip(inputs, found)])


# ---------------------------------------------------------------- all pairs of two


def _by_operators(x1: Tensor, x2: Tensor, p: float) -> Tensor:
    return vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


@operator(method=False, function=False, name="_cdist_forward", node="CdistBackward0", planned=True)
def _between(x1: Tensor, x2: Tensor, p: float):
    """Distances of all pairs of rows; the operands are matrices, or as many of them each."""
    a, b = x1._layout, x2._layout
    out = Layout.contiguous((*a.shape[:-1], b.shape[-2]), a.dtype, a.device)
    return distances_plan(a, b, out, p)


@_between.vjp
def _(g, out, x1, x2, p, need):
    if modes.local.grad or g._layout.flavor is not None:
        with modes.enable_grad():
            chosen = [x for name, x in (("x1", x1), ("x2", x2)) if need[name]]
            found = iter(_again(_by_operators(x1, x2, p), chosen, g))
        return tuple(next(found) if need[name] else None for name in ("x1", "x2"))
    return _gradients(g, out, x1, x2, p, (need["x1"], need["x2"]))


def _check_cdist(a: Layout, b: Layout, p: float, compute_mode: str | None) -> None:
    for n, x in ((1, a), (2, b)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{n} got: {x.ndim}D")
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {a.shape[-1]} X2: {b.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if compute_mode not in _BY_PRODUCT:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for n, x in ((1, a), (2, b)):
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, X{n} got: {x.dtype.scalar_name}")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected scalar type {a.dtype.scalar_name} but found {b.dtype.scalar_name}")


_BY_PRODUCT = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": True,
    "donot_use_mm_for_euclid_dist": False,
    None: None,
}


def _by_product(a: Layout, b: Layout, p: float, compute_mode: str | None) -> bool:
    chosen = _BY_PRODUCT[compute_mode]
    if chosen is None:
        chosen = a.shape[-2] > PRODUCT_ROWS or b.shape[-2] > PRODUCT_ROWS
    return chosen and p == 2 and a.shape[-1] > 0


def _cdist_plan(x1: Tensor, x2: Tensor, p: float, compute_mode: str | None) -> Callable | None:
    return _between.operator.kept.get((x1._layout, x2._layout, float(p)))


@composite(method=False, node="CdistBackward0", planned=_cdist_plan, autocast=single, written_in_python=True)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Distances in the p-norm between the rows of two (batches of) matrices: (*, p, m) and (*, r, m) give (*, p, r).

    Above 25 rows the Euclidean distance is worked out by a matrix product unless `compute_mode` forbids it. Raises RuntimeError
    for dtypes that are not floating point or differ, NotImplementedError for half ones without that product.
    """
    a, b = x1._layout, x2._layout
    _check_cdist(a, b, p, compute_mode)
    if _by_product(a, b, p, compute_mode):
        return _euclidean(x1, x2)
    if a.dtype.itemsize == 2:
        raise NotImplementedError(f"\"cdist\" not implemented for '{a.dtype.scalar_name}'")
    if a.flavor is not None or b.flavor is not None:
        return _by_operators(x1, x2, float(p))
    if a.ndim == b.ndim == 2:
        return _between(x1, x2, float(p))
    batch = tuple(geometry.broadcast(a.shape[:-2], b.shape[:-2]))
    count = math.prod(batch)
    if not count:
        return empty_layout(Layout.contiguous((*batch, a.shape[-2], b.shape[-2]), a.dtype, a.device))
    x1, x2 = (x.expand(*batch, *x._layout.shape[-2:]).reshape(count, *x._layout.shape[-2:]) for x in (x1, x2))
    return _between(x1, x2, float(p)).view(*batch, a.shape[-2], b.shape[-2])


@operator(method=False, function=False, name="_euclidean_dist", node="CdistBackward0")
def _euclidean(x1: Tensor, x2: Tensor):
    """|a - b| from |a|^2 + |b|^2 - 2 a.b."""
    squares = [x.square().sum(-1, keepdim=True) for x in (x1, x2)]
    return _root(matmul(x1, x2.mT), squares[0], squares[1].mT)


@_euclidean.vjp
def _(g, out, x1, x2, need):
    """The root's slope at zero is taken as zero."""
    ratio = share(g, out)
    return (
        x1 * ratio.sum(-1, keepdim=True) - matmul(ratio, x2) if need["x1"] else None,
        x2 * ratio.sum(-2).unsqueeze(-1) - matmul(ratio.mT, x1) if need["x2"] else None,
    )


@pointwise(method=False, function=False, inplace=False, differentiable=False, name="_distance_root")
def _root(product: Tensor, square1: Tensor, square2: Tensor):
    """The distance of two vectors by their product and squares; none if that comes out below zero."""
    return s.sqrt(s.clamp(square1 + square2 - 2 * product, low=0))


# ---------------------------------------------------------------- all pairs of one


def _pairs_by_operators(input: Tensor, p: float) -> Tensor:
    count = input._layout.shape[0]
    pairs = NAMESPACE["triu_indices"](count, count, 1, device=input._layout.device)
    return vector_norm(input.index_select(0, pairs[0]) - input.index_select(0, pairs[1]), p, 1)


@operator(method=False, function=False, name="_pdist_forward", node="PdistBackward0", planned=True)
def _among(input: Tensor, p: float):
    """Distances of all pairs of rows of a matrix."""
    layout = input._layout
    count = layout.shape[0]
    return distances_plan(layout, None, Layout.contiguous((count * (count - 1) // 2,), layout.dtype, layout.device), p)


@_among.vjp
def _(g, out, input, p):
    if modes.local.grad or g._layout.flavor is not None:
        with modes.enable_grad():
            return _again(_pairs_by_operators(input, p), [input], g)
    return _gradients(g, out, input, input, p, (True, False))[:1]


def _pdist_plan(input: Tensor, p: float) -> Callable | None:
    return _among.operator.kept.get((input._layout, float(p)))


@composite(method=False, node="PdistBackward0", planned=_pdist_plan)
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows i < j of an (N, M) matrix: (N (N - 1) / 2,).

    Raises RuntimeError for other shapes and dtypes that are not floating point, NotImplementedError for half ones.
    """
    layout = input._layout
    if layout.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {layout.ndim}D")
    if not layout.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    if layout.dtype.itemsize == 2:
        raise NotImplementedError(f"\"pdist\" not implemented for '{layout.dtype.scalar_name}'")
    return _pairs_by_operators(input, float(p)) if layout.flavor is not None else _among(input, float(p))
