"""Losses as exported graphs have them; reductions are PyTorch's numbers: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

import math
from typing import Any

from flambeau.dispatcher.aten.composites.registry import aten, composite

__all__: list[str] = []


@composite("nll_loss.default")
def nll_loss(self: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    if self.dim() > 2:  # the public function has one name for all ranks
        return nll_loss_nd(self, target, weight, reduction, ignore_index)
    return aten.nll_loss_forward.default(self, target, weight, reduction, ignore_index)[0]


@composite("nll_loss2d.default")
def nll_loss2d(self: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    return aten.nll_loss2d_forward.default(self, target, weight, reduction, ignore_index)[0]


@composite("nll_loss_nd.default")
def nll_loss_nd(self: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    rank = self.dim()
    if rank in (1, 2):
        return nll_loss(self, target, weight, reduction, ignore_index)
    if rank == 4:
        return nll_loss2d(self, target, weight, reduction, ignore_index)
    count, channels, *rest = self.shape
    flat = self.contiguous().view(count, channels, 1, -1)
    places = target.contiguous().view(count, 1, -1)
    made = nll_loss2d(flat, places, weight, reduction, ignore_index)
    return made.view(count, *rest) if reduction == 0 else made


@composite("cross_entropy_loss.default")
def cross_entropy_loss(
    self: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100, label_smoothing: float = 0.0
) -> Any:
    axis = 0 if self.dim() == 1 else 1
    logs = aten._log_softmax.default(self, axis, False)
    if self.shape == target.shape:
        return _of_probabilities(logs, target, weight, reduction, label_smoothing, axis)
    if not label_smoothing:
        return nll_loss_nd(logs, target, weight, reduction, ignore_index)
    return _smoothed(logs, target, weight, reduction, ignore_index, label_smoothing, axis)


def _spread(weight: Any, logs: Any, axis: int) -> Any:
    return weight.view([-1 if d == axis else 1 for d in range(logs.dim())])


def _of_probabilities(logs: Any, target: Any, weight: Any, reduction: int, smoothing: float, axis: int) -> Any:
    if smoothing:
        target = aten.add.Tensor(aten.mul.Tensor(target, 1 - smoothing), smoothing / logs.shape[axis])
    product = aten.mul.Tensor(logs, target)
    if weight is not None:
        product = aten.mul.Tensor(product, _spread(weight, logs, axis))
    if reduction == 0:
        return aten.neg.default(aten.sum.dim_IntList(product, [axis]))
    total = aten.neg.default(aten.sum.default(product))
    if reduction == 2:
        return total
    return aten.div.Scalar(total, math.prod(logs.shape) // logs.shape[axis])


def _smoothed(logs: Any, target: Any, weight: Any, reduction: int, ignore_index: int, smoothing: float, axis: int) -> Any:
    likely = nll_loss_nd(logs, target, weight, reduction, ignore_index)
    shares = logs if weight is None else aten.mul.Tensor(logs, _spread(weight, logs, axis))
    even = aten.neg.default(aten.sum.dim_IntList(shares, [axis]))
    hidden = aten.eq.Scalar(target, ignore_index)
    even = aten.masked_fill.Scalar(even, hidden, 0.0)
    if reduction == 2:
        even = aten.sum.default(even)
    elif reduction == 1:
        shown = aten.bitwise_not.default(hidden)
        if weight is None:
            even = aten.div.Tensor(*_in_reverse(even, shown))
        else:
            own = aten.gather.default(weight, 0, aten.masked_select.default(target, shown).flatten())
            even = aten.div.Tensor(*_in_reverse(even, own))
    even = aten.mul.Scalar(even, smoothing / logs.shape[axis])
    return aten.add.Tensor(aten.mul.Scalar(likely, 1 - smoothing), even)


def _in_reverse(above: Any, below: Any) -> tuple[Any, Any]:
    """The sums of both, the second one first."""
    total = aten.sum.default(below)
    return aten.sum.default(above), total


@composite("kl_div.default")
def kl_div(self: Any, target: Any, reduction: int = 1, *, log_target: bool = False) -> Any:
    if log_target:
        apart = aten.sub.Tensor(target, self)
        made = aten.mul.Tensor(aten.exp.default(target), apart)
    else:
        product = aten.mul.Tensor(target, self)
        made = aten.sub.Tensor(aten.xlogy.Tensor(target, target), product)
    return aten.mean.default(made) if reduction == 1 else aten.sum.default(made) if reduction == 2 else made
