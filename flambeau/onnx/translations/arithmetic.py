"""Translations of arithmetic: functions of one tensor, operators of two, rounding, bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import common_dtype, together, unsupported

_SAME = {
    "abs": "Abs", "absolute": "Abs", "acos": "Acos", "acosh": "Acosh", "arccos": "Acos", "arccosh": "Acosh", "arcsin": "Asin",
    "arcsinh": "Asinh", "arctan": "Atan", "arctanh": "Atanh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh",
    "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "log": "Log", "neg": "Neg", "negative": "Neg",
    "reciprocal": "Reciprocal", "sgn": "Sign", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh",
    "special_erf": "Erf", "special_expit": "Sigmoid", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip


def _one(name: str, op_type: str) -> None:
    def write(b: Builder, x: Value) -> Value:
        return b.op(op_type, b.cast(x, b.out.dtype))

    translation(name)(write)


for _name, _op_type in _SAME.items():
    _one(_name, _op_type)


def _rounding(name: str, op_type: str) -> None:
    def write(b: Builder, x: Value) -> Value:
        return b.op(op_type, x) if x.dtype.is_floating_point else x

    translation(name)(write)


_rounding("ceil", "Ceil")
_rounding("floor", "Floor")


@translation("round")
def round_(b: Builder, x: Value, *, decimals: int = 0) -> Value:
    """Round, to even; decimals by a power of ten."""
    if not x.dtype.is_floating_point:
        return x
    scale = 10.0**decimals
    return b.op("Div", b.op("Round", b.op("Mul", x, scale)), scale) if decimals else b.op("Round", x)


@translation("trunc", "fix")
def trunc(b: Builder, x: Value) -> Value:
    """The sign times the floor of the magnitude."""
    return b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x))) if x.dtype.is_floating_point else x


@translation("frac")
def frac(b: Builder, x: Value) -> Value:
    """What is behind the point."""
    return b.op("Sub", x, trunc(b, x))


@translation("rsqrt")
def rsqrt(b: Builder, x: Value) -> Value:
    """1 / sqrt(x)."""
    return b.op("Reciprocal", b.op("Sqrt", b.cast(x, b.out.dtype)))


@translation("square")
def square(b: Builder, x: Value) -> Value:
    """x * x."""
    return b.op("Mul", x, x)


@translation("log1p")
def log1p(b: Builder, x: Value) -> Value:
    """log(1 + x)."""
    return b.op("Log", b.op("Add", b.cast(x, b.out.dtype), 1))


@translation("expm1", "special_expm1")
def expm1(b: Builder, x: Value) -> Value:
    """exp(x) - 1."""
    return b.op("Sub", b.op("Exp", b.cast(x, b.out.dtype)), 1)


@translation("exp2", "special_exp2")
def exp2(b: Builder, x: Value) -> Value:
    """2 to a power."""
    return b.op("Exp", b.op("Mul", b.cast(x, b.out.dtype), math.log(2)))


@translation("log2")
def log2(b: Builder, x: Value) -> Value:
    """The logarithm to base 2."""
    return b.op("Div", b.op("Log", b.cast(x, b.out.dtype)), math.log(2))


@translation("log10")
def log10(b: Builder, x: Value) -> Value:
    """The logarithm to base 10."""
    return b.op("Div", b.op("Log", b.cast(x, b.out.dtype)), math.log(10))


@translation("erfc", "special_erfc")
def erfc(b: Builder, x: Value) -> Value:
    """1 - erf(x)."""
    return b.op("Neg", b.op("Sub", b.op("Erf", b.cast(x, b.out.dtype)), 1))


@translation("logit", "special_logit")
def logit(b: Builder, x: Value, eps: float | None = None) -> Value:
    """log(x / (1 - x))."""
    x = b.cast(x, b.out.dtype)
    if eps is not None:
        x = b.op("Clip", x, eps, 1.0 - eps)
    return b.op("Log", b.op("Div", x, b.op("Neg", b.op("Sub", x, 1))))


@translation("deg2rad")
def deg2rad(b: Builder, x: Value) -> Value:
    """Degrees as an angle."""
    return b.op("Mul", b.cast(x, b.out.dtype), math.pi / 180)


@translation("rad2deg")
def rad2deg(b: Builder, x: Value) -> Value:
    """An angle in degrees."""
    return b.op("Mul", b.cast(x, b.out.dtype), 180 / math.pi)


# ---------------------------------------------------------------- two operands


@translation("add")
def add(b: Builder, x: Any, y: Any, *, alpha: Any = 1) -> Value:
    """x + alpha * y; of truths: or."""
    x, y = together(b, x, y)
    if b.out.dtype == torch.bool:
        return b.op("Or", x, y)
    return b.op("Add", x, y if alpha == 1 else b.op("Mul", y, alpha))


@translation("sub", "subtract")
def sub(b: Builder, x: Any, y: Any, *, alpha: Any = 1) -> Value:
    """x - alpha * y."""
    x, y = together(b, x, y)
    return b.op("Sub", x, y if alpha == 1 else b.op("Mul", y, alpha))


@translation("rsub")
def rsub(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Value:
    """y - alpha * x."""
    return sub(b, y, x, alpha=alpha)


@translation("mul", "multiply")
def mul(b: Builder, x: Any, y: Any) -> Value:
    """x * y; of truths: and."""
    return b.op("And" if b.out.dtype == torch.bool else "Mul", *together(b, x, y))


@translation("div", "divide", "true_divide")
def div(b: Builder, x: Any, y: Any, *, rounding_mode: str | None = None) -> Value:
    """x / y, rounded to where it is asked."""
    x, y = together(b, x, y)
    if rounding_mode is None:
        return b.op("Div", x, y)
    whole = not b.out.dtype.is_floating_point
    if rounding_mode == "trunc":
        made = b.op("Div", x, y)
        return made if whole else trunc(b, made)
    if whole:
        return b.op("Div", b.op("Sub", x, b.op("Mod", x, y)), y)
    return b.op("Floor", b.op("Div", x, y))


@translation("floor_divide")
def floor_divide(b: Builder, x: Any, y: Any) -> Value:
    """floor(x / y)."""
    return div(b, x, y, rounding_mode="floor")


@translation("remainder")
def remainder(b: Builder, x: Any, y: Any) -> Value:
    """What is left, with the sign of y."""
    x, y = together(b, x, y)
    if not b.out.dtype.is_floating_point:
        return b.op("Mod", x, y)
    return b.op("Sub", x, b.op("Mul", b.op("Floor", b.op("Div", x, y)), y))


@translation("fmod")
def fmod(b: Builder, x: Any, y: Any) -> Value:
    """What is left, with the sign of x."""
    x, y = together(b, x, y)
    return b.op("Mod", x, y, fmod=1)


@translation("pow")
def pow_(b: Builder, x: Any, y: Any) -> Value:
    """x ** y; squares and roots as such."""
    if isinstance(y, (int, float)):
        base = b.value(x, b.out.dtype)
        if y == 2:
            return b.op("Mul", base, base)
        if y == 0.5:
            return b.op("Sqrt", base)
        if y == -0.5:
            return b.op("Reciprocal", b.op("Sqrt", base))
        if y == 1:
            return base
    return b.op("Pow", *together(b, x, y))


@translation("float_power")
def float_power(b: Builder, x: Any, y: Any) -> Value:
    """x ** y, in double precision."""
    return b.op("Pow", *together(b, x, y))


@translation("atan2", "arctan2")
def atan2(b: Builder, y: Any, x: Any) -> Value:
    """The angle of the point (x, y)."""
    y, x = together(b, y, x)
    zero = b.number(0, b.out.dtype)
    slope = b.op("Atan", b.op("Div", y, x))
    turned = b.op("Add", slope, b.op("Where", b.op("Less", y, zero), b.number(-math.pi, y.dtype), b.number(math.pi, y.dtype)))
    angle = b.op("Where", b.op("Less", x, zero), turned, slope)
    origin = b.op("And", b.op("Equal", x, zero), b.op("Equal", y, zero))
    return b.op("Where", origin, zero, angle)


@translation("hypot")
def hypot(b: Builder, x: Any, y: Any) -> Value:
    """sqrt(x² + y²)."""
    x, y = together(b, x, y)
    return b.op("Sqrt", b.op("Add", b.op("Mul", x, x), b.op("Mul", y, y)))


@translation("copysign")
def copysign(b: Builder, x: Any, y: Any) -> Value:
    """The magnitude of x with the sign of y."""
    x, y = together(b, x, y)
    size = b.op("Abs", x)
    return b.op("Where", b.op("Less", y, 0), b.op("Neg", size), size)


@translation("xlogy", "special_xlogy")
def xlogy(b: Builder, x: Any, y: Any) -> Value:
    """x * log(y), 0 where x is."""
    x, y = together(b, x, y)
    zero = b.number(0, b.out.dtype)
    return b.op("Where", b.op("Equal", x, zero), zero, b.op("Mul", x, b.op("Log", y)))


@translation("logaddexp")
def logaddexp(b: Builder, x: Any, y: Any) -> Value:
    """log(exp(x) + exp(y))."""
    x, y = together(b, x, y)
    near = b.op("Neg", b.op("Abs", b.op("Sub", x, y)))
    return b.op("Add", b.op("Max", x, y), b.op("Log", b.op("Add", b.op("Exp", near), 1)))


@translation("maximum", "max.other", "fmax")
def maximum(b: Builder, x: Any, y: Any) -> Value:
    """The larger one."""
    return b.op("Max", *together(b, x, y))


@translation("minimum", "min.other", "fmin")
def minimum(b: Builder, x: Any, y: Any) -> Value:
    """The smaller one."""
    return b.op("Min", *together(b, x, y))


@translation("lerp")
def lerp(b: Builder, x: Any, y: Any, weight: Any) -> Value:
    """Between x and y."""
    x, y, weight = together(b, x, y, weight)
    return b.op("Add", x, b.op("Mul", weight, b.op("Sub", y, x)))


@translation("addcmul")
def addcmul(b: Builder, x: Any, y: Any, z: Any, *, value: Any = 1) -> Value:
    """x + value * y * z."""
    x, y, z = together(b, x, y, z)
    made = b.op("Mul", y, z)
    return b.op("Add", x, made if value == 1 else b.op("Mul", made, value))


@translation("addcdiv")
def addcdiv(b: Builder, x: Any, y: Any, z: Any, *, value: Any = 1) -> Value:
    """x + value * y / z."""
    x, y, z = together(b, x, y, z)
    made = b.op("Div", y, z)
    return b.op("Add", x, made if value == 1 else b.op("Mul", made, value))


# ---------------------------------------------------------------- bits


def _bits(name: str, of_truths: str, of_numbers: str) -> None:
    def write(b: Builder, x: Any, y: Any) -> Value:
        dtype = common_dtype(x, y)
        return b.op(of_truths if dtype == torch.bool else of_numbers, b.value(x, dtype), b.value(y, dtype))

    translation(name, f"__{name.removeprefix('bitwise_')}__")(write)


_bits("bitwise_and", "And", "BitwiseAnd")
_bits("bitwise_or", "Or", "BitwiseOr")
_bits("bitwise_xor", "Xor", "BitwiseXor")


@translation("bitwise_not")
def bitwise_not(b: Builder, x: Value) -> Value:
    """The bits turned over."""
    return b.op("Not" if x.dtype == torch.bool else "BitwiseNot", x)


def _shift(b: Builder, x: Any, y: Any) -> tuple[Value, Value]:
    x, y = together(b, x, y)
    if b.out.dtype.is_floating_point:
        raise unsupported(b, "of floating-point numbers; shift integers")
    return x, b.cast(b.op("Pow", b.number(2.0, torch.float64), b.cast(y, torch.float64)), b.out.dtype)


@translation("bitwise_left_shift", "__lshift__")
def left_shift(b: Builder, x: Any, y: Any) -> Value:
    """x * 2 ** y."""
    x, y = _shift(b, x, y)
    return b.op("Mul", x, y)


@translation("bitwise_right_shift", "__rshift__")
def right_shift(b: Builder, x: Any, y: Any) -> Value:
    """floor(x / 2 ** y)."""
    x, y = _shift(b, x, y)
    return b.op("Div", b.op("Sub", x, b.op("Mod", x, y)), y)


# ---------------------------------------------------------------- limits


@translation("clamp", "clip")
def clamp(b: Builder, x: Value, min: Any = None, max: Any = None) -> Value:
    """Not below min, not above max: numbers or tensors."""
    x = b.cast(x, b.out.dtype)
    if any(isinstance(n, Value) for n in (min, max)):
        x = x if min is None else b.op("Max", x, b.value(min, b.out.dtype))
        return x if max is None else b.op("Min", x, b.value(max, b.out.dtype))
    return b.op("Clip", x, min, max)


@translation("clamp_min")
def clamp_min(b: Builder, x: Value, min: Any) -> Value:
    """Not below min."""
    return clamp(b, x, min)


@translation("clamp_max")
def clamp_max(b: Builder, x: Value, max: Any) -> Value:
    """Not above max."""
    return clamp(b, x, None, max)


@translation("nan_to_num")
def nan_to_num(b: Builder, x: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Value:
    """What is no number as one."""
    if not x.dtype.is_floating_point:
        return x
    info = torch.finfo(x.dtype)
    x = b.op("Where", b.op("IsNaN", x), b.number(nan or 0.0, x.dtype), x)
    high, low = info.max if posinf is None else posinf, info.min if neginf is None else neginf
    x = b.op("Where", b.op("Equal", x, math.inf), b.number(high, x.dtype), x)
    return b.op("Where", b.op("Equal", x, -math.inf), b.number(low, x.dtype), x)


@translation("sinc", "special_sinc")
def sinc(b: Builder, x: Value) -> Value:
    """sin(pi x) / (pi x), 1 at 0."""
    angle = b.op("Mul", b.cast(x, b.out.dtype), np.pi)
    return b.op("Where", b.op("Equal", angle, 0), b.number(1, b.out.dtype), b.op("Div", b.op("Sin", angle), angle))
