"""Translations of losses. Reductions are numbers: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

import math
from typing import Any

from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import together, unsupported
from flambeau.onnx.translations.linear import pairwise_distance
from flambeau.onnx.translations.reduction import reduced

_NAMES = ("none", "mean", "sum")


def _total(b: Builder, x: Value, reduction: int, rank: int) -> Value:
    if not reduction or not rank:
        return x
    return b.op("ReduceMean" if reduction == 1 else "ReduceSum", x, keepdims=0, shape=())


def _rank(x: Value, y: Value) -> int:
    return max(x.rank, y.rank)


@translation("mse_loss")
def mse_loss(b: Builder, x: Value, target: Value, reduction: int = 1) -> Value:
    """(x - target)²."""
    rank = _rank(x, target)
    x, target = together(b, x, target)
    away = b.op("Sub", x, target)
    return _total(b, b.op("Mul", away, away), reduction, rank)


@translation("l1_loss")
def l1_loss(b: Builder, x: Value, target: Value, reduction: int = 1) -> Value:
    """|x - target|."""
    return _total(b, b.op("Abs", b.op("Sub", *together(b, x, target))), reduction, _rank(x, target))


def _near_and_far(b: Builder, x: Value, target: Value, reduction: int, limit: float, scale: float) -> Value:
    away = b.op("Abs", b.op("Sub", *together(b, x, target)))
    near = b.op("Mul", b.op("Mul", away, away), 0.5 * scale)
    far = b.op("Mul", b.op("Sub", away, 0.5 * limit), scale * limit)
    return _total(b, b.op("Where", b.op("Less", away, float(limit)), near, far), reduction, _rank(x, target))


@translation("smooth_l1_loss")
def smooth_l1_loss(b: Builder, x: Value, target: Value, reduction: int = 1, beta: float = 1.0) -> Value:
    """A square near 0, divided by beta; a line further off."""
    return _near_and_far(b, x, target, reduction, beta, 1 / beta) if beta else l1_loss(b, x, target, reduction)


@translation("huber_loss")
def huber_loss(b: Builder, x: Value, target: Value, reduction: int = 1, delta: float = 1.0) -> Value:
    """A square near 0, a line of slope delta further off."""
    return _near_and_far(b, x, target, reduction, delta, 1.0)


@translation("soft_margin_loss")
def soft_margin_loss(b: Builder, x: Value, target: Value, reduction: int = 1) -> Value:
    """log(1 + exp(-target * x))."""
    return _total(b, b.op("Softplus", b.op("Neg", b.op("Mul", *together(b, x, target)))), reduction, _rank(x, target))


@translation("binary_cross_entropy")
def binary_cross_entropy(b: Builder, x: Value, target: Value, weight: Value | None = None, reduction: int = 1) -> Value:
    """-(target log x + (1 - target) log(1 - x)), logarithms not below -100."""
    other = b.op("Neg", b.op("Sub", x, 1))
    logs = [b.op("Max", b.op("Log", y), -100.0) for y in (x, other)]
    parts = b.op("Mul", target, logs[0]), b.op("Mul", b.op("Sub", target, 1), logs[1])
    made = b.op("Sub", parts[1], parts[0])
    return _total(b, made if weight is None else b.op("Mul", made, weight), reduction, x.rank)


@translation("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    b: Builder, x: Value, target: Value, weight: Value | None = None, pos_weight: Value | None = None, reduction: int = 1
) -> Value:
    """The same of sigmoid(x)."""
    soft = b.op("Softplus", b.op("Neg", x))
    left = b.op("Mul", b.op("Neg", b.op("Sub", target, 1)), x)
    if pos_weight is not None:
        soft = b.op("Mul", soft, b.op("Add", b.op("Mul", b.op("Sub", pos_weight, 1), target), 1))
    made = b.op("Add", left, soft)
    return _total(b, made if weight is None else b.op("Mul", made, weight), reduction, x.rank)


@translation("kl_div")
def kl_div(b: Builder, x: Value, target: Value, reduction: int = 1, *, log_target: bool = False) -> Value:
    """target * (log target - x), 0 where the target is."""
    if log_target:
        made = b.op("Mul", b.op("Exp", target), b.op("Sub", target, x))
    else:
        zero = b.number(0, target.dtype)
        logs = b.op("Where", b.op("Greater", target, zero), b.op("Mul", target, b.op("Log", target)), zero)
        made = b.op("Sub", logs, b.op("Mul", target, x))
    return _total(b, made, reduction, _rank(x, target))


@translation("poisson_nll_loss")
def poisson_nll_loss(b: Builder, x: Value, target: Value, log_input: bool, full: bool, eps: float, reduction: int) -> Value:
    """exp(x) - target * x, or x - target * log(x + eps); with Stirling's formula where it is full."""
    if log_input:
        made = b.op("Sub", b.op("Exp", x), b.op("Mul", target, x))
    else:
        made = b.op("Sub", x, b.op("Mul", target, b.op("Log", b.op("Add", x, eps))))
    if full:
        rest = b.op("Sub", b.op("Mul", target, b.op("Log", target)), target)
        rest = b.op("Add", rest, b.op("Mul", b.op("Log", b.op("Mul", target, 2 * math.pi)), 0.5))
        made = b.op("Add", made, b.op("Where", b.op("Greater", target, 1), rest, b.number(0, target.dtype)))
    return _total(b, made, reduction, _rank(x, target))


# ---------------------------------------------------------------- pairs and triples


@translation("margin_ranking_loss")
def margin_ranking_loss(b: Builder, x: Value, y: Value, target: Value, margin: float = 0.0, reduction: int = 1) -> Value:
    """max(0, margin - target * (x - y))."""
    away = b.op("Mul", b.op("Neg", target), b.op("Sub", x, y))
    return _total(b, b.op("Max", b.op("Add", away, margin), 0), reduction, max(_rank(x, y), target.rank))


@translation("hinge_embedding_loss")
def hinge_embedding_loss(b: Builder, x: Value, target: Value, margin: float = 1.0, reduction: int = 1) -> Value:
    """x where the target is 1, max(0, margin - x) where it is -1."""
    zero = b.number(0, x.dtype)
    near = b.op("Where", b.op("Equal", target, 1), x, zero)
    far = b.op("Where", b.op("Equal", target, -1), b.op("Max", b.op("Sub", margin, x), zero), zero)
    return _total(b, b.op("Add", near, far), reduction, _rank(x, target))


@translation("cosine_embedding_loss")
def cosine_embedding_loss(b: Builder, x: Value, y: Value, target: Value, margin: float = 0.0, reduction: int = 1) -> Value:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    product, *squares = (b.op("ReduceSum", b.op("Mul", *pair), [-1], keepdims=0) for pair in ((x, y), (x, x), (y, y)))
    sizes = b.op("Mul", *[b.op("Add", s, 1e-12) for s in squares])
    cosine = b.op("Div", product, b.op("Sqrt", sizes))
    zero = b.number(0, x.dtype)
    near = b.op("Where", b.op("Equal", target, 1), b.op("Sub", 1, cosine), zero)
    far = b.op("Where", b.op("Equal", target, -1), b.op("Max", b.op("Sub", cosine, margin), zero), zero)
    return _total(b, b.op("Add", near, far), reduction, max(x.rank - 1, target.rank))


@translation("triplet_margin_loss")
def triplet_margin_loss(
    b: Builder,
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Value:
    """max(0, margin + the distance of what belongs together - that of what doesn't)."""
    near, far = (pairwise_distance(b, anchor, other, p, eps) for other in (positive, negative))
    if swap:
        far = b.op("Min", far, pairwise_distance(b, positive, negative, p, eps))
    return _total(b, b.op("Max", b.op("Add", b.op("Sub", near, far), margin), 0), reduction, anchor.rank - 1)


# ---------------------------------------------------------------- classes


def _classified(
    b: Builder, op_type: str, x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> Value:
    single = x.rank == 1
    if single:
        x, target = b.unsqueeze(x, 0), b.unsqueeze(target, 0)
    made = b.op(op_type, x, target, weight, reduction=_NAMES[reduction], ignore_index=ignore_index)
    if single and not reduction:
        made = b.op("Squeeze", made, [0], shape=())
    return made


@translation("nll_loss_nd", "nll_loss", "nll_loss2d")
def nll_loss(
    b: Builder, x: Value, target: Value, weight: Value | None = None, reduction: int = 1, ignore_index: int = -100
) -> Value:
    """Minus the logarithms of the classes' probabilities."""
    return _classified(b, "NegativeLogLikelihoodLoss", x, target, weight, reduction, ignore_index)


@translation("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(b: Builder, *args: Any) -> tuple[Any, ...]:
    """The loss; nobody reads the weight of the whole."""
    return nll_loss(b, *args), None


@translation("cross_entropy_loss")
def cross_entropy_loss(
    b: Builder,
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Value:
    """The same of softmax(x); the target is a class, or probabilities of all."""
    dim = 0 if x.rank == 1 else 1
    if not target.dtype.is_floating_point and not label_smoothing:
        return _classified(b, "SoftmaxCrossEntropyLoss", x, target, weight, reduction, ignore_index)
    if weight is not None and not target.dtype.is_floating_point:
        raise unsupported(b, "with weight and label_smoothing; leave one out")
    logs = b.op("LogSoftmax", x, axis=dim)
    classes = b.size(x, dim)
    if target.dtype.is_floating_point:
        if label_smoothing:
            target = b.op("Add", b.op("Mul", target, 1 - label_smoothing), label_smoothing / classes)
        parts = b.op("Mul", logs, target)
        if weight is not None:
            parts = b.op("Mul", parts, b.reshape(weight, [-1, *[1] * (x.rank - dim - 1)]))
        each = b.op("Neg", reduced(b, "ReduceSum", parts, dim), shape=[1] * (x.rank - 1))
        return _total(b, each, reduction, x.rank - 1)
    hard = _classified(b, "NegativeLogLikelihoodLoss", logs, target, None, reduction, ignore_index)
    counted = b.cast(b.op("Not", b.op("Equal", target, ignore_index)), x.dtype)
    even = b.op("Mul", b.op("Neg", reduced(b, "ReduceMean", logs, dim)), counted)
    if reduction:
        even = b.op("ReduceSum", even, keepdims=0)
        if reduction == 1:
            even = b.op("Div", even, b.op("ReduceSum", counted, keepdims=0))
    return b.op("Add", b.op("Mul", hard, 1 - label_smoothing), b.op("Mul", even, label_smoothing))
