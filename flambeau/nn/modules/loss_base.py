"""What loss layers share: the reduction, and a weight per class as a buffer."""

from __future__ import annotations

from flambeau.base.naming import public_module
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import _reduction
from flambeau.nn.modules.module import Module


class _Loss(Module):
    """reduction: "none", "mean" or "sum"; size_average and reduce are its deprecated form."""

    __module__ = public_module("nn.modules.loss")

    reduction: str

    def __init__(self, size_average=None, reduce=None, reduction: str = "mean") -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            self.reduction = _reduction.legacy_get_string(size_average, reduce)
        else:
            self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight per class."""

    __module__ = public_module("nn.modules.loss")

    def __init__(self, weight: Tensor | None = None, size_average=None, reduce=None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.weight: Tensor | None
