"""Translations of activations: rectifiers, gates, softmax."""

from __future__ import annotations

import math

import flambeau as torch
from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations.arithmetic import clamp
from flambeau.onnx.translations.views import halves


@translation("relu")
def relu(b: Builder, x: Value) -> Value:
    """max(x, 0)."""
    return b.op("Relu", x) if x.dtype.is_floating_point else b.op("Max", x, 0)


@translation("relu6")
def relu6(b: Builder, x: Value) -> Value:
    """Between 0 and 6."""
    return b.op("Clip", x, 0, 6)


@translation("hardtanh")
def hardtanh(b: Builder, x: Value, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    """Between two numbers."""
    return clamp(b, x, min_val, max_val)


@translation("leaky_relu")
def leaky_relu(b: Builder, x: Value, negative_slope: float = 0.01) -> Value:
    """x, or a part of it below 0."""
    return b.op("LeakyRelu", x, alpha=float(negative_slope))


@translation("rrelu")
def rrelu(b: Builder, x: Value, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, *rest: object) -> Value:
    """leaky_relu with the mean slope; with random slopes while training."""
    if not training:
        return b.op("LeakyRelu", x, alpha=(lower + upper) / 2)
    slope = b.op("RandomUniformLike", x, low=lower, high=upper)
    return b.op("Where", b.op("Less", x, 0), b.op("Mul", x, slope), x)


@translation("prelu", "_prelu_kernel")
def prelu(b: Builder, x: Value, weight: Value) -> Value:
    """leaky_relu with a slope for each channel."""
    if weight.rank == 1 and x.rank > 2:
        weight = b.unsqueeze(weight, *range(1, x.rank - 1))
    return b.op("PRelu", x, weight)


@translation("elu")
def elu(b: Builder, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    """alpha * (exp(x) - 1) below 0."""
    below = b.op("Elu", x if input_scale == 1 else b.op("Mul", x, input_scale), alpha=float(alpha))
    made = below if input_scale == 1 else b.op("Where", b.op("Greater", x, 0), x, below)
    return made if scale == 1 else b.op("Mul", made, scale)


@translation("selu")
def selu(b: Builder, x: Value) -> Value:
    """elu whose outputs keep their spread."""
    return b.op("Selu", x)


@translation("celu")
def celu(b: Builder, x: Value, alpha: float = 1.0) -> Value:
    """elu that is smooth for every alpha."""
    return b.op("Celu", x, alpha=float(alpha))


@translation("gelu")
def gelu(b: Builder, x: Value, *, approximate: str = "none") -> Value:
    """x times the normal distribution's share below it; whole from version 20 on."""
    if b.wanted >= 20:
        return b.op("Gelu", x, approximate=approximate)
    if approximate == "tanh":
        cube = b.op("Mul", b.op("Mul", x, b.op("Mul", x, x)), 0.044715)
        share = b.op("Tanh", b.op("Mul", b.op("Add", x, cube), math.sqrt(2 / math.pi)))
    else:
        share = b.op("Erf", b.op("Div", x, math.sqrt(2)))
    return b.op("Mul", b.op("Mul", x, b.op("Add", share, 1)), 0.5)


@translation("silu")
def silu(b: Builder, x: Value) -> Value:
    """x * sigmoid(x)."""
    return b.op("Mul", x, b.op("Sigmoid", x))


@translation("mish")
def mish(b: Builder, x: Value) -> Value:
    """x * tanh(softplus(x))."""
    return b.op("Mish", x) if b.wanted >= 18 else b.op("Mul", x, b.op("Tanh", b.op("Softplus", x)))


@translation("hardsigmoid")
def hardsigmoid(b: Builder, x: Value) -> Value:
    """x / 6 + 1 / 2, between 0 and 1."""
    return b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@translation("hardswish")
def hardswish(b: Builder, x: Value) -> Value:
    """x * hardsigmoid(x)."""
    return b.op("HardSwish", x) if b.wanted >= 14 else b.op("Mul", x, hardsigmoid(b, x))


@translation("hardshrink")
def hardshrink(b: Builder, x: Value, lambd: float = 0.5) -> Value:
    """0 near 0."""
    return b.op("Shrink", x, lambd=float(lambd), bias=0.0)


@translation("softshrink")
def softshrink(b: Builder, x: Value, lambd: float = 0.5) -> Value:
    """Moved towards 0."""
    return b.op("Shrink", x, lambd=float(lambd), bias=float(lambd))


@translation("softplus")
def softplus(b: Builder, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """log(1 + exp(beta x)) / beta; x itself beyond the threshold."""
    if beta == 1:
        made = b.op("Softplus", x)
        return made if threshold == 20 else b.op("Where", b.op("Greater", x, threshold), x, made)
    scaled = b.op("Mul", x, beta)
    return b.op("Where", b.op("Greater", scaled, threshold), x, b.op("Div", b.op("Softplus", scaled), beta))


@translation("log_sigmoid")
def log_sigmoid(b: Builder, x: Value) -> Value:
    """log(sigmoid(x))."""
    return b.op("Neg", b.op("Softplus", b.op("Neg", x)))


@translation("softsign")
def softsign(b: Builder, x: Value) -> Value:
    """x / (1 + |x|)."""
    return b.op("Softsign", x)


@translation("threshold")
def threshold(b: Builder, x: Value, threshold: float, value: float) -> Value:
    """A number where x isn't above another."""
    return b.op("Where", b.op("Greater", x, threshold), x, b.number(value, x.dtype))


@translation("glu")
def glu(b: Builder, x: Value, dim: int = -1) -> Value:
    """One half times the sigmoid of the other."""
    left, right = halves(b, x, dim)
    return b.op("Mul", left, b.op("Sigmoid", right))


def _probabilities(op_type: str, *names: str) -> None:
    def write(b: Builder, x: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
        x = b.cast(x, b.out.dtype)
        if not x.rank:  # the operator wants a dimension
            return b.squeeze(b.op(op_type, b.unsqueeze(x, 0), axis=0, shape=(1,)), 0)
        return b.op(op_type, x, axis=dim)

    translation(*names)(write)


_probabilities("Softmax", "softmax", "_softmax", "special_softmax")
_probabilities("LogSoftmax", "log_softmax", "_log_softmax", "special_log_softmax")


def dropped(b: Builder, x: Value, p: float, train: bool) -> Value:
    """dropout: x itself unless the model is in training."""
    if not train or not p:
        return x
    return b.op("Dropout", x, b.number(p, torch.float32), b.number(True, torch.bool), outputs=2)[0]


@translation("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(b: Builder, x: Value, p: float, train: bool) -> Value:
    """x itself, as models are exported to be run; with elements dropped in training."""
    if train and p and b.target != "aten.dropout.default":
        from flambeau.onnx.translations._common import unsupported

        raise unsupported(b, "in training; call model.eval()")
    return dropped(b, x, p, train)
