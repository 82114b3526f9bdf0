"""Activations as torch.nn.functional spells them: with `inplace=`.

Stands on ops.elementwise.activation; nn.functional re-exports everything here.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import bool_
from flambeau.core.operator.facets import described
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.elementwise import activation as ops
from flambeau.ops.elementwise import math
from flambeau.ops.elementwise.activation import gelu, glu, logsigmoid, prelu, softplus, softsign, tanhshrink

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

celu_, elu_, leaky_relu_, relu_, rrelu_ = (ops.celu_, ops.elu.inplace, ops.leaky_relu.inplace, ops.relu.inplace, ops.rrelu_)
selu_, threshold_ = ops.selu.inplace, ops.threshold.inplace


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """The larger of each element and 0."""
    return relu_(input) if inplace else ops.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Each element clamped to [0, 6]."""
    return ops.relu6.inplace(input) if inplace else ops.relu6(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Elements above 0 as they are, others times negative_slope."""
    return leaky_relu_(input, negative_slope) if inplace else ops.leaky_relu(input, negative_slope)


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    """Leaky relu with a random slope for each element while training, else the mean slope."""
    return (rrelu_ if inplace else ops.rrelu)(input, lower, upper, training)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Elements above 0 as they are, alpha * (exp(x) - 1) of the others."""
    return elu_(input, alpha) if inplace else ops.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the scale and alpha that keep mean 0 and variance 1."""
    return selu_(input) if inplace else ops.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Elements above 0 as they are, alpha * (exp(x / alpha) - 1) of the others."""
    return celu_(input, alpha) if inplace else ops.celu(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return ops.silu.inplace(input) if inplace else ops.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    return ops.mish.inplace(input) if inplace else ops.mish(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x)."""
    return ops.hardswish.inplace(input) if inplace else ops.hardswish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1 / 2, clamped to [0, 1]."""
    return ops.hardsigmoid.inplace(input) if inplace else ops.hardsigmoid(input)


def _check_range(input: Tensor, min_val: Any, max_val: Any) -> None:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if isinstance(input, Tensor) and not (input.dtype.is_signed or input.dtype is bool_) and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Each element clamped to [min_val, max_val]. Raises ValueError if min_val > max_val."""
    if not (isinstance(input, Tensor) and input.is_quantized):
        _check_range(input, min_val, max_val)
    return ops.hardtanh.inplace(input, min_val, max_val) if inplace else ops.hardtanh(input, min_val, max_val)


@described()
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place version of hardtanh()."""
    return hardtanh(input, min_val, max_val, inplace=True)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x, but 0 within [-lambd, lambd]."""
    return ops.hardshrink(input, lambd, out=out)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x moved by lambd towards 0, and 0 within [-lambd, lambd]. Raises RuntimeError if lambd is negative."""
    ops.check_softshrink(input, lambd)
    return ops.softshrink(input, lambd, out=out)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above `threshold`, else `value`."""
    return threshold_(input, threshold, value) if inplace else ops.threshold(input, threshold, value)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return math.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return math.tanh(input)
