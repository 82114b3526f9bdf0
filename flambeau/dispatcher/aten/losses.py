"""Losses with PyTorch's numbers for reductions (0 none, 1 mean, 2 sum), their forward and backward operators.

Stands on ops.nn.loss, cross_entropy, margin_loss and ctc_loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradient_of
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.nn import cross_entropy, loss, margin_loss
from flambeau.ops.nn.ctc_loss import fused_ctc_loss

REDUCTIONS = ("none", "mean", "sum")


def _two(name: str, function: Callable[..., Any], extra: str | None = None) -> None:
    """Forward and backward of a loss of input and target, with one more argument `extra` behind the reduction."""

    def named(value: Any) -> dict[str, Any]:
        return {} if extra is None else {extra: value}

    def forward(self: Tensor, target: Tensor, reduction: int = 1, value: float = 1.0) -> Any:
        return function(self, target, reduction=REDUCTIONS[reduction], **named(value))

    def backward(grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, value: float = 1.0) -> Tensor:
        return gradient_of(lambda x: function(x, target, reduction=REDUCTIONS[reduction], **named(value)), self, grad_output)

    implementation(name)(forward)
    implementation(name + "_backward")(backward)


_two("mse_loss", loss.mse_loss)
_two("smooth_l1_loss", loss.smooth_l1_loss, "beta")
_two("huber_loss", loss.huber_loss, "delta")
_two("soft_margin_loss", loss.soft_margin_loss)


@implementation()
def binary_cross_entropy(self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1) -> Any:
    """Binary cross entropy of probabilities."""
    return loss.binary_cross_entropy(self, target, weight, reduction=REDUCTIONS[reduction])


@implementation()
def binary_cross_entropy_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """The gradient of binary cross entropy with respect to its probabilities."""
    return gradient_of(lambda x: binary_cross_entropy(x, target, weight, reduction), self, grad_output)


@implementation()
def binary_cross_entropy_with_logits(
    self: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 1
) -> Any:
    """Binary cross entropy of logits."""
    return loss.binary_cross_entropy_with_logits(self, target, weight, reduction=REDUCTIONS[reduction], pos_weight=pos_weight)


@implementation()
def multi_margin_loss(
    self: Tensor, target: Tensor, p: Any = 1, margin: Any = 1, weight: Tensor | None = None, reduction: int = 1
) -> Any:
    """The multi-class margin loss."""
    return margin_loss.multi_margin_loss(self, target, p, margin, weight, reduction=REDUCTIONS[reduction])


@implementation()
def multi_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, p: Any, margin: Any, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """The gradient of the multi-class margin loss."""
    return gradient_of(lambda x: multi_margin_loss(x, target, p, margin, weight, reduction), self, grad_output)


@implementation()
def multilabel_margin_loss_forward(self: Tensor, target: Tensor, reduction: int) -> tuple[Any, Tensor]:
    """The multi-label margin loss, and which classes are targets, as numbers of the input's dtype."""
    result = margin_loss.multilabel_margin_loss(self, target, reduction=REDUCTIONS[reduction])
    valid = (target >= 0).to(self._layout.dtype).cumprod(-1)
    is_target = NAMESPACE["zeros_like"](valid).scatter_reduce(-1, target.clamp(min=0), valid, "amax")
    return result, is_target


@implementation()
def multilabel_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    """The gradient of the multi-label margin loss."""
    return gradient_of(
        lambda x: margin_loss.multilabel_margin_loss(x, target, reduction=REDUCTIONS[reduction]), self, grad_output
    )


@implementation("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Any:
    """The negative log likelihood loss, and the sum of the targets' weights by which a mean is divided."""
    result = cross_entropy.nll_loss(self, target, weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction])
    if not reduction:
        return result, NAMESPACE["zeros"]((), dtype=self._layout.dtype)
    counted = target != ignore_index
    if weight is None:
        return result, counted.sum().to(self._layout.dtype)
    return result, (weight[target * counted] * counted).sum()


@implementation("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    """The gradient of the negative log likelihood loss; a mean's divides by `total_weight`, of these rows or more."""
    kind = "sum" if reduction else "none"
    return gradient_of(
        lambda x: cross_entropy.nll_loss(x, target, weight, ignore_index=ignore_index, reduction=kind),
        self,
        grad_output / total_weight if REDUCTIONS[reduction] == "mean" else grad_output,
    )


@implementation()
def l1_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Any:
    """The distance of two tensors, element by element."""
    return loss.l1_loss(self, target, reduction=REDUCTIONS[reduction])


@implementation()
def kl_div(self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Any:
    """The divergence of Kullback and Leibler."""
    return loss.kl_div(self, target, reduction=REDUCTIONS[reduction], log_target=log_target)


@implementation()
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Any:
    """The negative log likelihood of counts."""
    return loss.poisson_nll_loss(input, target, log_input, full, None, eps, None, REDUCTIONS[reduction])


@implementation()
def hinge_embedding_loss(self: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Any:
    """The hinge loss of distances."""
    return loss.hinge_embedding_loss(self, target, margin, reduction=REDUCTIONS[reduction])


@implementation()
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Any:
    """The loss of pairs in the wrong order."""
    return loss.margin_ranking_loss(input1, input2, target, margin, reduction=REDUCTIONS[reduction])


@implementation()
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Any:
    """The loss of angles."""
    return loss.cosine_embedding_loss(input1, input2, target, margin, reduction=REDUCTIONS[reduction])


@implementation()
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    reduction: int = 1,
) -> Any:
    """The loss of a distance that is not smaller by `margin` than another."""
    return loss.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=REDUCTIONS[reduction])


@implementation("nll_loss", "nll_loss2d", "nll_loss_nd")
def nll_loss(self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    """The negative log likelihood loss."""
    return cross_entropy.nll_loss(self, target, weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction])


@implementation()
def cross_entropy_loss(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """Cross entropy of logits."""
    return cross_entropy.cross_entropy(
        self, target, weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction], label_smoothing=label_smoothing
    )


@implementation()
def multilabel_margin_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Any:
    """The loss alone."""
    return margin_loss.multilabel_margin_loss(self, target, reduction=REDUCTIONS[reduction])


@implementation("_ctc_loss", "_ctc_loss.Tensor")
def _ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, zero_infinity: bool = False
) -> Any:
    """The losses of sequences, and the logarithms that their gradient is made of."""
    lengths = [x.tolist() if isinstance(x, Tensor) else list(x) for x in (input_lengths, target_lengths)]
    return fused_ctc_loss(log_probs, targets, *lengths, blank, zero_infinity)
