"""Derivatives of reductions.

Stands on graphs; part of the room derivatives.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.dispatcher.graphs import derivative
from flambeau.dispatcher.namespaces import ops

__all__: list[str] = []

aten: Any = ops.aten


def _expanded(g: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    """A gradient of a reduction, with the dimensions that it reduced."""
    shape = self.shape
    dims = dim or range(len(shape))
    if not keepdim and len(g.shape) != len(shape):
        for d in sorted(x % len(shape) for x in dims):
            g = aten.unsqueeze.default(g, d)
    return aten.expand.default(g, list(shape))


@derivative("sum.default", node="SumBackward0", geometry=("self",))
def _(g: Any, self: Any) -> Any:
    return aten.expand.default(g, list(self.shape))


@derivative("sum.dim_IntList", node="SumBackward1", geometry=("self",))
def _(g: Any, self: Any, dim: Any, keepdim: Any) -> Any:
    return _expanded(g, self, dim, keepdim)


@derivative("mean.default", node="MeanBackward0", geometry=("self",))
def _(g: Any, self: Any) -> Any:
    return aten.div.Scalar(aten.expand.default(g, list(self.shape)), self.numel())


@derivative("mean.dim", node="MeanBackward1", geometry=("self",))
def _(g: Any, self: Any, dim: Any, keepdim: Any) -> Any:
    made = _expanded(g, self, dim, keepdim)
    return aten.div.Scalar(made, self.numel() // max(1, g.numel()))


def _whole(g: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    """A gradient, or result, of a reduction with the dimensions that it reduced."""
    ndim = self._layout.ndim
    if keepdim or dim is None or not len(dim):
        return g
    for d in sorted(x % max(1, ndim) for x in dim):
        g = aten.unsqueeze.default(g, d)
    return g


def _of_variance(g: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    shape = self.shape
    count = math.prod(shape[d] for d in (dim or range(len(shape))))
    mean = aten.mean.dim(self, dim, True) if dim else aten.mean.default(self)
    free = count - (1 if correction is None else correction)
    apart = aten.sub.Tensor(self, mean)
    g = _whole(g, self, dim, keepdim)
    return aten.mul.Tensor(aten.mul.Scalar(g, 2 / free if free > 0 else math.nan), apart)


@derivative("var.correction")
def _(g: Any, self: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
    return _of_variance(g, self, dim, correction, keepdim)


def _without_zeros(g: Any, by: Any, zero: Any) -> Any:
    """g / by, 0 where `zero` is 0."""
    return aten.masked_fill_.Scalar(aten.div.Tensor(g, by), aten.eq.Scalar(zero, 0), 0)


@derivative("std.correction")
def _(g: Any, self: Any, dim: Any, correction: Any, keepdim: Any, out: Any) -> Any:
    return _of_variance(_without_zeros(g, aten.mul.Scalar(out, 2), out), self, dim, correction, keepdim)


@derivative("logsumexp")
def _(g: Any, self: Any, dim: Any, keepdim: Any, out: Any) -> Any:
    share = aten.exp.default(aten.sub.Tensor(self, _whole(out, self, dim, keepdim)))
    return aten.mul.Tensor(_whole(g, self, dim, keepdim), share)


@derivative("linalg_vector_norm", node="LinalgVectorNormBackward0")
def _(g: Any, self: Any, ord: Any, dim: Any, keepdim: Any, out: Any) -> Any:
    """Where the norm is 0 the gradient is the smallest, 0."""
    g, norm = _whole(g, self, dim, keepdim), _whole(out, self, dim, keepdim)
    if ord == 0:
        return None
    if ord == 2:
        factor = aten.masked_fill_.Scalar(aten.div.Tensor(g, norm), aten.eq.Scalar(norm, 0), 0)
        return aten.mul.Tensor(self, factor)
    if ord == 1:
        return aten.mul.Tensor(aten.sgn.default(self), g)
    size = aten.abs.default(self)
    if math.isinf(ord):
        largest = aten.eq.Tensor(size, norm)
        count = aten.sum.dim_IntList(largest, list(dim) if dim else None, True)
        return aten.mul.Tensor(aten.mul.Tensor(aten.sgn.default(self), largest), aten.div.Tensor(g, count))
    factor = aten.div.Tensor(g, aten.pow.Tensor_Scalar(norm, ord - 1))
    factor = aten.masked_fill_.Scalar(factor, aten.eq.Scalar(norm, 0), 0)
    if ord < 2:
        power = aten.mul.Tensor(aten.sgn.default(self), aten.pow.Tensor_Scalar(size, ord - 1))
        power = aten.masked_fill_.Scalar(power, aten.eq.Scalar(self, 0), 0)
    else:
        power = aten.mul.Tensor(self, aten.pow.Tensor_Scalar(size, ord - 2))
    return aten.mul.Tensor(power, factor)
