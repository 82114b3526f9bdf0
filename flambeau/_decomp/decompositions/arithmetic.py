"""Arithmetic of elements, and products that are sums of them, in aten's core operators."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau._decomp.helpers import aten, computed_in_float32, decomposes, full, like, where

__all__: list[str] = []


@decomposes("addcmul.default")
@computed_in_float32
def addcmul(self: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    return aten.add.Tensor(self, aten.mul.Tensor(aten.mul.Tensor(tensor1, value), tensor2))


@decomposes("addcdiv.default")
@computed_in_float32
def addcdiv(self: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    return aten.add.Tensor(self, aten.div.Tensor(aten.mul.Tensor(tensor1, value), tensor2))


@decomposes("lerp.Scalar", "lerp.Tensor")
@computed_in_float32
def lerp(self: Any, end: Any, weight: Any) -> Any:
    if not isinstance(weight, torch.Tensor):
        weight = full([], weight, self.dtype)
    near = aten.ge.Scalar(aten.abs.default(weight), 0.5)
    share = where(near, aten.sub.Tensor(weight, 1), weight)
    start = where(near, end, self)
    return aten.add.Tensor(aten.mul.Tensor(share, aten.sub.Tensor(end, self)), start)


@decomposes("rsub.Scalar", "rsub.Tensor")
def rsub(self: Any, other: Any, alpha: float = 1) -> Any:
    return aten.sub.Tensor(other, self, **({} if alpha == 1 else {"alpha": alpha}))


@decomposes("clamp_min.default")
def clamp_min(self: Any, min: Any) -> Any:
    return aten.clamp.default(self, min)


@decomposes("clamp_max.default")
def clamp_max(self: Any, max: Any) -> Any:
    return aten.clamp.default(self, None, max)


@decomposes("clamp_min.Tensor")
def clamp_min_tensor(self: Any, min: Any) -> Any:
    return aten.clamp.Tensor(self, min)


@decomposes("clamp_max.Tensor")
def clamp_max_tensor(self: Any, max: Any) -> Any:
    return aten.clamp.Tensor(self, None, max)


@decomposes("floor_divide.default", "floor_divide.Scalar")
def floor_divide(self: Any, other: Any) -> Any:
    return aten.div.Tensor_mode(self, other, rounding_mode="floor")


@decomposes("frac.default")
@computed_in_float32
def frac(self: Any) -> Any:
    return aten.sub.Tensor(self, aten.trunc.default(self))


@decomposes("sgn.default")
def sgn(self: Any) -> Any:
    if self.is_complex():
        size = aten.abs.default(self)
        return where(aten.eq.Scalar(size, 0), 0, aten.div.Tensor(self, size))
    return aten.sign.default(self)


@decomposes("heaviside.default")
def heaviside(self: Any, values: Any) -> Any:
    none = aten.eq.Scalar(self, 0)
    below = aten.logical_or.default(aten.lt.Scalar(self, 0), aten.isnan.default(self))
    return where(none, values, aten._to_copy.default(where(below, 0, 1), dtype=values.dtype))


@decomposes("deg2rad.default")
@computed_in_float32
def deg2rad(self: Any) -> Any:
    return aten.mul.Tensor(self, math.pi / 180)


@decomposes("rad2deg.default")
@computed_in_float32
def rad2deg(self: Any) -> Any:
    return aten.mul.Tensor(self, 180 / math.pi)


@decomposes("isneginf.default")
def isneginf(self: Any) -> Any:
    return aten.eq.Scalar(self, -math.inf)


@decomposes("isposinf.default")
def isposinf(self: Any) -> Any:
    return aten.eq.Scalar(self, math.inf)


@decomposes("nan_to_num.default")
def nan_to_num(self: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    if not self.is_floating_point():
        return aten.clone.default(self)
    bounds = torch.finfo(self.dtype)
    made = where(aten.isnan.default(self), 0.0 if nan is None else nan, self)
    made = where(aten.eq.Scalar(self, -math.inf), bounds.min if neginf is None else neginf, made)
    return where(aten.eq.Scalar(self, math.inf), bounds.max if posinf is None else posinf, made)


@decomposes("xlogy.Tensor")
@computed_in_float32
def xlogy(self: Any, other: Any) -> Any:
    none = aten.eq.Scalar(self, 0)
    made = where(none, 0, aten.mul.Tensor(self, aten.log.default(other)))
    return where(aten.isnan.default(other), math.nan, made)


@decomposes("special_entr.default")
@computed_in_float32
def special_entr(self: Any) -> Any:
    unknown = aten.isnan.default(self)
    above = aten.gt.Scalar(self, 0)
    made = aten.mul.Tensor(aten.neg.default(self), aten.log.default(self))
    return where(unknown, self, where(above, made, where(aten.eq.Scalar(self, 0), 0, -math.inf)))


# ---------------------------------------------------------------- products


@decomposes("dot.default", "vdot.default")
def dot(self: Any, tensor: Any) -> Any:
    return aten.sum.dim_IntList(aten.mul.Tensor(self, tensor), [])


@decomposes("mv.default")
def mv(self: Any, vec: Any) -> Any:
    return aten.sum.dim_IntList(aten.mul.Tensor(self, vec), [1])


@decomposes("baddbmm.default")
def baddbmm(self: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    product = aten.bmm.default(batch1, batch2)
    if alpha != 1:
        product = aten.mul.Tensor(product, alpha)
    if beta == 0:
        return product
    return aten.add.Tensor(self if beta == 1 else aten.mul.Tensor(self, beta), product)


@decomposes("addr.default")
@computed_in_float32
def addr(self: Any, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    rows, columns = vec1.shape[0], vec2.shape[0]
    scaled = None if beta == 0 else aten.mul.Tensor(aten.expand.default(self, [rows, columns]), beta)
    outer = aten.mul.Tensor(aten.mul.Tensor(aten.view.default(vec1, [rows, 1]), vec2), alpha)
    return outer if scaled is None else aten.add.Tensor(scaled, outer)


@decomposes("_euclidean_dist.default")
def _euclidean_dist(x1: Any, x2: Any) -> Any:
    def norm(x: Any) -> tuple[Any, Any]:
        made = aten.sum.dim_IntList(aten.pow.Tensor_Scalar(x, 2), [-1], True)
        return made, aten.full_like.default(made, 1, pin_memory=False, memory_format=torch.contiguous_format)

    norm1, one1 = norm(x1)
    norm2, one2 = norm(x2)
    first = aten.cat.default([aten.mul.Tensor(x1, -2), norm1, one1], -1)
    second = aten.cat.default([x2, one2, norm2], -1)
    product = torch.matmul(first, second.mT)
    return aten.sqrt.default(aten.clamp.default(product, 0))


@decomposes("fill.Scalar")
def fill(self: Any, value: Any) -> Any:
    return aten.full_like.default(self, value, pin_memory=False)


@decomposes("fill.Tensor")
def fill_tensor(self: Any, value: Any) -> Any:
    return aten.copy.default(self, value)


@decomposes("zero.default")
def zero(self: Any) -> Any:
    return like(self, 0)
