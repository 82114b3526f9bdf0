"""Translations of comparisons, truths, choices between tensors, and conversions."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import common_dtype


def _comparison(op_type: str, *names: str) -> None:
    def write(b: Builder, x: Any, y: Any) -> Value:
        dtype = common_dtype(x, y)
        if dtype == torch.bool and op_type != "Equal":
            dtype = torch.int32
        return b.op(op_type, b.value(x, dtype), b.value(y, dtype))

    translation(*names)(write)


_comparison("Equal", "eq")
_comparison("Less", "lt", "less")
_comparison("LessOrEqual", "le", "less_equal")
_comparison("Greater", "gt", "greater")
_comparison("GreaterOrEqual", "ge", "greater_equal")


@translation("ne", "not_equal")
def ne(b: Builder, x: Any, y: Any) -> Value:
    """Not equal."""
    dtype = common_dtype(x, y)
    return b.op("Not", b.op("Equal", b.value(x, dtype), b.value(y, dtype)))


def truth(b: Builder, x: Value) -> Value:
    """Whether elements differ from 0."""
    return x if x.dtype == torch.bool else b.op("Not", b.op("Equal", x, 0))


def _logical(name: str, op_type: str) -> None:
    def write(b: Builder, x: Value, y: Value) -> Value:
        return b.op(op_type, truth(b, x), truth(b, y))

    translation(name)(write)


_logical("logical_and", "And")
_logical("logical_or", "Or")
_logical("logical_xor", "Xor")


@translation("logical_not")
def logical_not(b: Builder, x: Value) -> Value:
    """Whether elements are 0."""
    return b.op("Not", truth(b, x))


@translation("isnan")
def isnan(b: Builder, x: Value) -> Value:
    """What is no number."""
    return b.op("IsNaN", x) if x.dtype.is_floating_point else _never(b, x)


@translation("isinf")
def isinf(b: Builder, x: Value) -> Value:
    """What is infinite."""
    return b.op("Equal", b.op("Abs", x), math.inf) if x.dtype.is_floating_point else _never(b, x)


@translation("isposinf")
def isposinf(b: Builder, x: Value) -> Value:
    """What is above all numbers."""
    return b.op("Equal", x, math.inf) if x.dtype.is_floating_point else _never(b, x)


@translation("isneginf")
def isneginf(b: Builder, x: Value) -> Value:
    """What is below all numbers."""
    return b.op("Equal", x, -math.inf) if x.dtype.is_floating_point else _never(b, x)


@translation("isfinite")
def isfinite(b: Builder, x: Value) -> Value:
    """What is a number."""
    return b.op("Less", b.op("Abs", x), math.inf) if x.dtype.is_floating_point else b.op("Not", _never(b, x))


def _never(b: Builder, x: Value) -> Value:
    return b.full(b.sizes(x), False, torch.bool)


@translation("isclose")
def isclose(b: Builder, x: Value, y: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Value:
    """Whether numbers differ by no more than atol + rtol * |y|."""
    x, y = b.cast(x, common_dtype(x, y)), b.cast(y, common_dtype(x, y))
    if not x.dtype.is_floating_point:
        x, y = b.cast(x, torch.float32), b.cast(y, torch.float32)
    limit = b.op("Add", b.op("Mul", b.op("Abs", y), rtol), atol)
    near = b.op("LessOrEqual", b.op("Abs", b.op("Sub", x, y)), limit)
    same = b.op("Or", b.op("Equal", x, y), b.op("And", near, b.op("Less", b.op("Abs", y), math.inf)))
    return b.op("Or", same, b.op("And", b.op("IsNaN", x), b.op("IsNaN", y))) if equal_nan else same


@translation("where.self", "where.Scalar", "where.ScalarSelf", "where.ScalarOther")
def where(b: Builder, condition: Value, x: Any, y: Any) -> Value:
    """x where the condition holds, else y."""
    return b.op("Where", truth(b, condition), b.value(x, b.out.dtype), b.value(y, b.out.dtype))


@translation("masked_fill")
def masked_fill(b: Builder, x: Value, mask: Value, value: Any) -> Value:
    """A number where a mask holds."""
    return b.op("Where", mask, b.value(value, b.out.dtype), x)


@translation("heaviside")
def heaviside(b: Builder, x: Value, values: Value) -> Value:
    """A step: 0, values at 0, 1."""
    x, values = b.cast(x, b.out.dtype), b.cast(values, b.out.dtype)
    step = b.cast(b.op("Greater", x, 0), b.out.dtype)
    return b.op("Where", b.op("Equal", x, 0), values, step)


@translation("signbit")
def signbit(b: Builder, x: Value) -> Value:
    """Whether a number is negative."""
    return b.op("Less", x, 0)


# ---------------------------------------------------------------- conversions


@translation("to", "_to_copy", "type_as", "_cast_Float", "to.dtype")
def to(b: Builder, x: Value, *args: Any, **kwargs: Any) -> Value:
    """A conversion to the dtype of the result."""
    return truth(b, x) if b.out.dtype == torch.bool else b.cast(x, b.out.dtype)
