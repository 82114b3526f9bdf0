"""Losses in aten's core operators; reductions are PyTorch's numbers: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from typing import Any

from flambeau._decomp.helpers import aten, computed_in_float32, decomposes, full, where

__all__: list[str] = []


def _reduced(loss: Any, reduction: int) -> Any:
    return aten.mean.default(loss) if reduction == 1 else aten.sum.default(loss) if reduction == 2 else loss


@decomposes("mse_loss.default")
@computed_in_float32
def mse_loss(self: Any, target: Any, reduction: int = 1) -> Any:
    return _reduced(aten.pow.Tensor_Scalar(aten.sub.Tensor(self, target), 2), reduction)


@decomposes("smooth_l1_loss.default")
@computed_in_float32
def smooth_l1_loss(self: Any, target: Any, reduction: int = 1, beta: float = 1.0) -> Any:
    apart = aten.abs.default(aten.sub.Tensor(self, target))
    near = aten.lt.Scalar(apart, beta)
    square = aten.div.Tensor(aten.mul.Tensor(aten.pow.Tensor_Scalar(apart, 2), 0.5), beta)
    return _reduced(where(near, square, aten.sub.Tensor(apart, 0.5 * beta)), reduction)


@decomposes("huber_loss.default")
@computed_in_float32
def huber_loss(self: Any, target: Any, reduction: int = 1, delta: float = 1.0) -> Any:
    apart = aten.abs.default(aten.sub.Tensor(self, target))
    near = aten.lt.Scalar(apart, delta)
    square = aten.mul.Tensor(aten.mul.Tensor(apart, 0.5), apart)
    line = aten.mul.Tensor(aten.sub.Tensor(apart, 0.5 * delta), delta)
    return _reduced(where(near, square, line), reduction)


@decomposes("binary_cross_entropy.default")
@computed_in_float32
def binary_cross_entropy(self: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    def bounded(logs: Any) -> Any:
        return aten.maximum.default(logs, full([], -100, self.dtype))

    off = aten.sub.Tensor(target, 1)
    first = aten.mul.Tensor(off, bounded(aten.log1p.default(aten.neg.default(self))))
    second = aten.mul.Tensor(target, bounded(aten.log.default(self)))
    loss = aten.sub.Tensor(first, second)
    return _reduced(loss if weight is None else aten.mul.Tensor(loss, weight), reduction)


@decomposes("binary_cross_entropy_with_logits.default")
@computed_in_float32
def binary_cross_entropy_with_logits(
    self: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    if pos_weight is None:
        off = aten.mul.Tensor(aten.sub.Tensor(1, target), self)
        loss = aten.sub.Tensor(off, aten.log_sigmoid_forward.default(self)[0])
    else:
        share = aten.add.Tensor(aten.mul.Tensor(aten.sub.Tensor(pos_weight, 1), target), 1)
        off = aten.mul.Tensor(aten.sub.Tensor(1, target), self)
        loss = aten.sub.Tensor(off, aten.mul.Tensor(share, aten.log_sigmoid_forward.default(self)[0]))
    return _reduced(loss if weight is None else aten.mul.Tensor(loss, weight), reduction)


@decomposes("soft_margin_loss.default")
@computed_in_float32
def soft_margin_loss(self: Any, target: Any, reduction: int = 1) -> Any:
    product = aten.mul.Tensor(aten.neg.default(self), target)
    return _reduced(aten.log1p.default(aten.exp.default(product)), reduction)


@decomposes("nll_loss_forward.default", "nll_loss2d_forward.default")
@computed_in_float32
def nll_loss_forward(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    axis = 0 if self.dim() == 1 else 1
    spread = None
    if weight is not None:
        shape = [-1 if d == axis else 1 for d in range(self.dim())] if self.dim() > 1 else [-1]
        shape[axis] = weight.shape[0]
        spread = weight if self.dim() == 1 else aten.view.default(weight, shape)
        self = aten.mul.Tensor(self, spread)
    known = where(aten.ne.Scalar(target, ignore_index), target, 0)
    places = aten.unsqueeze.default(known, axis)
    chosen = aten.neg.default(aten.squeeze.dim(aten.gather.default(self, axis, places), axis))
    loss = where(aten.ne.Scalar(target, ignore_index), chosen, 0)
    if reduction == 0 and self.dim() > 1:
        return loss, full([], 0.0, self.dtype)
    if spread is not None:
        shares = aten.expand.default(spread, list(self.shape))
        shares = aten.squeeze.dim(aten.gather.default(shares, axis, places), axis)
        total = aten.sum.default(where(aten.ne.Scalar(target, ignore_index), shares, 0))
    else:
        counted = aten.sum.default(aten.ne.Scalar(target, ignore_index))
        total = aten._to_copy.default(counted, dtype=self.dtype, device=self.device)
    loss = aten.sum.default(loss)
    return (loss if reduction == 2 else aten.div.Tensor(loss, total)), total
