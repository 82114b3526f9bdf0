"""Activations in aten's core operators."""

from __future__ import annotations

import math
from typing import Any

from flambeau._decomp.helpers import aten, computed_in_float32, decomposes, full, where

__all__: list[str] = []


@decomposes("silu.default")
@computed_in_float32
def silu(self: Any) -> Any:
    return aten.mul.Tensor(self, aten.sigmoid.default(self))


def _between_0_and_6(self: Any) -> Any:
    return aten.clamp.default(aten.clamp.default(aten.add.Tensor(self, 3), 0), None, 6)


@decomposes("hardswish.default")
@computed_in_float32
def hardswish(self: Any) -> Any:
    return aten.div.Tensor(aten.mul.Tensor(self, _between_0_and_6(self)), 6)


@decomposes("hardsigmoid.default")
@computed_in_float32
def hardsigmoid(self: Any) -> Any:
    return aten.div.Tensor(_between_0_and_6(self), 6)


@decomposes("softplus.default")
@computed_in_float32
def softplus(self: Any, beta: float | None = None, threshold: float = 20) -> Any:
    scaled = self if beta is None else aten.mul.Tensor(self, beta)
    soft = aten.log1p.default(aten.exp.default(scaled))
    soft = soft if beta is None else aten.div.Tensor(soft, beta)
    return where(aten.gt.Scalar(scaled, threshold), self, soft)


@decomposes("mish.default")
@computed_in_float32
def mish(self: Any) -> Any:
    return aten.mul.Tensor(self, aten.tanh.default(softplus(self)))


@decomposes("celu.default")
@computed_in_float32
def celu(self: Any, alpha: float = 1.0) -> Any:
    if alpha == 1:
        below = aten.expm1.default(self)
    else:
        below = aten.mul.Tensor(aten.expm1.default(aten.div.Tensor(self, alpha)), alpha)
    return where(aten.gt.Scalar(self, 0), self, below)


@decomposes("hardshrink.default")
@computed_in_float32
def hardshrink(self: Any, lambd: float = 0.5) -> Any:
    return where(aten.le.Scalar(aten.abs.default(self), lambd), 0, self)


@decomposes("softshrink.default")
@computed_in_float32
def softshrink(self: Any, lambd: float = 0.5) -> Any:
    outside = aten.gt.Scalar(aten.abs.default(self), lambd)
    moved = aten.sub.Tensor(self, aten.mul.Tensor(aten.sign.default(self), lambd))
    return where(outside, moved, aten.mul.Tensor(self, 0))


@decomposes("threshold.default")
@computed_in_float32
def threshold(self: Any, threshold: float, value: float) -> Any:
    return where(aten.le.Scalar(self, threshold), value, self)


@decomposes("log_sigmoid_forward.default")
@computed_in_float32
def log_sigmoid_forward(self: Any) -> Any:
    least = aten.minimum.default(full([], 0, self.dtype), self)
    small = aten.exp.default(aten.neg.default(aten.abs.default(self)))
    return aten.sub.Tensor(least, aten.log1p.default(small)), small


@decomposes("glu.default")
@computed_in_float32
def glu(self: Any, dim: int = -1) -> Any:
    dim = dim % self.dim()
    half = self.shape[dim] // 2
    first, second = (aten.slice.Tensor(self, dim, at, at + half) for at in (0, half))
    return aten.mul.Tensor(first, aten.sigmoid.default(second))


@decomposes("_prelu_kernel.default")
def _prelu_kernel(self: Any, weight: Any) -> Any:
    return where(aten.gt.Scalar(self, 0), self, aten.mul.Tensor(weight, self))


@decomposes("logit.default")
@computed_in_float32
def logit(self: Any, eps: float | None = None) -> Any:
    low, high = (-1.0, 2.0) if eps is None else (eps, 1 - eps)
    below = aten.lt.Scalar(self, low)
    kept = where(below, low, where(aten.gt.Scalar(self, high), high, self))
    return aten.log.default(aten.div.Tensor(kept, aten.sub.Tensor(1, kept)))


@decomposes("sinc.default")
@computed_in_float32
def sinc(self: Any) -> Any:
    angle = aten.mul.Tensor(self, math.pi)
    none = aten.eq.Scalar(angle, 0)
    return where(none, 1, aten.div.Tensor(aten.sin.default(angle), angle))
