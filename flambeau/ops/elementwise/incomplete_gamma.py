"""igamma and igammac: the regularised incomplete gamma functions, lower and upper.

Their bodies are in ir.incomplete_gamma. Offered by the namespace and torch.special (gammainc, gammaincc).
"""

from __future__ import annotations

from flambeau.core.operator.define import operator
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir.incomplete_gamma import regularised


@pointwise(kind="promote", types="f", kernel="igamma_cpu", function=False, method=False, inplace=False, differentiable=False)
def _lower(input: Tensor, other: Tensor):
    """P(input, other)."""
    return regularised(input, other, False)


@pointwise(kind="promote", types="f", kernel="igammac_cpu", function=False, method=False, inplace=False, differentiable=False)
def _upper(input: Tensor, other: Tensor):
    """Q(input, other)."""
    return regularised(input, other, True)


def _density(input: Tensor, other: Tensor) -> Tensor:
    """The derivative of P(a, x) by x."""
    return ((input - 1) * other.log() - other - input.lgamma()).exp()


def _refuse(name: str, need: dict) -> None:
    if need["input"]:
        raise NotImplementedError(f"the derivative for '{name}: input' is not implemented.")


@operator(inplace=True, out=True)
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The regularised lower incomplete gamma function P(input, other), for arguments >= 0; NaN for others."""
    return _lower(input, other)


@igamma.vjp
def _(g, input, other, need):
    _refuse("igamma", need)
    return None, g * _density(input, other)


@operator(inplace=True, out=True)
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """The regularised upper incomplete gamma function 1 - P(input, other), for arguments >= 0; NaN for others."""
    return _upper(input, other)


@igammac.vjp
def _(g, input, other, need):
    _refuse("igammac", need)
    return None, -g * _density(input, other)
