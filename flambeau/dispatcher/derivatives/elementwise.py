"""Derivatives of elementwise operators, fills and copies.

Stands on graphs; part of the room derivatives.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.dispatcher.derivatives.products import conjugate
from flambeau.dispatcher.graphs import derivative
from flambeau.dispatcher.namespaces import ops

__all__: list[str] = []

aten: Any = ops.aten


@derivative("relu")
def _(g: Any, out: Any) -> Any:
    return aten.threshold_backward.default(g, out, 0)


@derivative("threshold")
def _(g: Any, self: Any, threshold: Any) -> Any:
    return aten.threshold_backward.default(g, self, threshold)


@derivative("elu")
def _(g: Any, self: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    return aten.elu_backward.default(g, alpha, scale, input_scale, False, self)


@derivative("clone", node="CloneBackward0")
def _(g: Any) -> Any:
    return g


@derivative("_to_copy", node="ToCopyBackward0")
def _(g: Any, self: Any) -> Any:
    return aten._to_copy.default(g, dtype=self._layout.dtype)


@derivative("pow.Tensor_Scalar", node="PowBackward0")
def _(g: Any, self: Any, exponent: Any) -> Any:
    if exponent == 0:
        return aten.zeros_like.default(self)
    return g * conjugate(aten.mul.Scalar(aten.pow.Tensor_Scalar(self, exponent - 1), exponent))


def _where(condition: Any, a: Any, b: Any) -> Any:
    return NAMESPACE["where"](condition, a, b)


@derivative("where.self", node="WhereBackward0")
def _(g: Any, condition: Any, need: Any) -> Any:
    return (None, _where(condition, g, 0.0) if need["self"] else None, _where(condition, 0.0, g) if need["other"] else None)


@derivative("masked_fill.Scalar", node="MaskedFillBackward0")
def _(g: Any, mask: Any) -> Any:
    return aten.masked_fill.Scalar(g, mask, 0)


@derivative("fill.Scalar", "zero", node="FillBackward0")
def _(g: Any) -> Any:
    return aten.zeros_like.default(g)


@derivative("copy", node="CopyBackwards")
def _(g: Any, self: Any, src: Any, need: Any) -> Any:
    return aten.zeros_like.default(g) if need["self"] else None, g if need["src"] else None


@derivative("maximum")
def _(g: Any, self: Any, other: Any, need: Any) -> Any:
    return _larger(g, self, other, need, aten.lt.Tensor, aten.gt.Tensor)


@derivative("minimum")
def _(g: Any, self: Any, other: Any, need: Any) -> Any:
    return _larger(g, self, other, need, aten.gt.Tensor, aten.lt.Tensor)


def _larger(g: Any, self: Any, other: Any, need: Any, loses: Any, wins: Any) -> Any:
    """The gradient of the larger, or smaller, of two: halves where they are equal."""

    def share(lost: Any) -> Any:
        halves = aten.where.self(aten.eq.Tensor(self, other), aten.div.Scalar(g, 2), g)
        return aten.masked_fill_.Scalar(halves, lost(self, other), 0)

    return share(loses) if need["self"] else None, share(wins) if need["other"] else None


@derivative("celu")
def _(g: Any, self: Any, alpha: Any) -> Any:
    return aten.elu_backward.default(g, alpha, 1, 1.0 / alpha, False, self)


@derivative("clamp.default")
def _(g: Any, self: Any, min: Any, max: Any) -> Any:
    inside = None if min is None else aten.ge.Scalar(self, min)
    if max is not None:
        below = aten.le.Scalar(self, max)
        inside = below if inside is None else aten.logical_and_.default(inside, below)
    return _where(inside, g, 0.0)


@derivative("binary_cross_entropy_with_logits", node="BinaryCrossEntropyWithLogitsBackward0")
def _(g: Any, self: Any, target: Any, weight: Any, pos_weight: Any, reduction: Any, need: Any) -> Any:
    probability = aten.sigmoid.default(self)
    if pos_weight is None:
        slope = aten.sub.Tensor(probability, target)
    else:
        positive = aten.mul.Tensor(pos_weight, target)
        slope = aten.sub.Tensor(aten.mul.Tensor(aten.sub.Tensor(aten.add.Scalar(positive, 1), target), probability), positive)
    share = g if reduction != 1 else aten.div.Scalar(g, self.numel())
    if weight is not None:
        share = aten.mul.Tensor(share, weight)
    for_self = aten.mul.Tensor(slope, share) if need["self"] else None
    if not need["target"]:
        return for_self, None
    loss = aten.log_sigmoid_forward.default(aten.neg.default(self))[0]
    own = aten.log_sigmoid_forward.default(self)[0]
    if pos_weight is not None:
        own = aten.mul.Tensor(own, pos_weight)
    return for_self, aten.mul.Tensor(aten.sub.Tensor(loss, own), share)
