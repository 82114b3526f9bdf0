"""Elementwise arithmetic and mathematical functions: each is its scalar body.

Stands on core.derive (what a declaration gives) and ir.scalar (the language of the bodies).
"""

from __future__ import annotations

from flambeau.core.derive import pointwise
from flambeau.ir import scalar as s
from flambeau.ir.scalar import where

# ruff: noqa: F821 - Tensor, Operand and Number in annotations are read by core.derive


@pointwise(operator="__add__")
def add(input: Tensor, other: Operand, *, alpha: Number = 1):
    """input + alpha * other, with broadcasting and type promotion."""
    return input + (other if alpha is None else alpha * other)


@pointwise(operator="__sub__")
def sub(input: Tensor, other: Operand, *, alpha: Number = 1):
    """input - alpha * other."""
    return input - alpha * other


@pointwise(operator="__mul__")
def mul(input: Tensor, other: Operand):
    """input * other."""
    return input * other


@pointwise()
def relu(input: Tensor):
    """The larger of input and 0."""
    return where(input > 0, input, where(s.isnan(input), input, 0))


@relu.vjp
def _(g, out):
    return where(out > 0, g, 0)


@pointwise(kind="float")
def sigmoid(input: Tensor):
    """1 / (1 + exp(-input)), the logistic function."""
    return 1 / (1 + s.exp(-input))


@sigmoid.vjp
def _(g, out):
    return g * out * (1 - out)


@pointwise(kind="float")
def exp(input: Tensor):
    """e to the power of each element."""
    return s.exp(input)


@exp.vjp
def _(g, out):
    return g * out


@pointwise(kind="bool", operator="__gt__")
def gt(input: Tensor, other: Operand):
    """input > other."""
    return input > other
