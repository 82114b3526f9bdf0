"""Arithmetic, element by element: each operator is its scalar body.

Stands on core.operator.variants (what a declaration gives) and ir.scalar (the language of the bodies). Where PyTorch fixes
the gradient by convention, or saving the result costs less, a rule stands beside the body. ops.elementwise.ternary has what
chooses between operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau.base.dtype import FLOAT8, bool_, complex128, float32, float64, get_default_dtype, int32, int64, promote_types
from flambeau.base.dtype import dtype as DType
from flambeau.base.naming import named
from flambeau.core.modes import modes
from flambeau.core.modes.overrides import PLAIN
from flambeau.core.operator.annotations import Number, Operand
from flambeau.core.operator.define import composite
from flambeau.core.operator.out_rules import OUT_ONLY, Out, worded
from flambeau.core.operator.pointwise import NUMBERS, in_common_order, overload
from flambeau.core.operator.publishing import alias, publish
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr, conj, where

SUBTRACTS_BOOLS = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
)
USE_INVERT = "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
NEGATES_BOOL = "Negation, the `-` operator, on a bool tensor is not supported. " + USE_INVERT
SUBTRACTS_BOOL = "Subtraction, the `-` operator, with a bool tensor is not supported. " + USE_INVERT


def dtype_of(x: Any) -> DType | None:
    """The dtype of a tensor operand; None for a number, except that a bool counts as one."""
    if x.__class__ in NUMBERS:
        return bool_ if x.__class__ is bool else None
    return x._layout.dtype


def check_alpha(computation: DType, operands: Sequence[Any], numbers: Sequence[Any], statics: Sequence[Any]) -> None:
    """Refuse an `alpha` whose kind is above that of the tensors."""
    kind = numbers[0].__class__
    if kind is bool and computation is not bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if kind is float and not (computation.is_floating_point or computation.is_complex):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if kind is complex and not computation.is_complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")


def _check_sub(computation: DType, operands: Sequence[Any], numbers: Sequence[Any], statics: Sequence[Any]) -> None:
    kinds = [dtype_of(x) for x in operands]
    if kinds[0] is bool_ and kinds[1] is bool_:
        raise RuntimeError(SUBTRACTS_BOOLS)
    if bool_ in kinds:
        raise RuntimeError(SUBTRACTS_BOOL)
    check_alpha(computation, operands, numbers, statics)


def scaled(factor: Any, x: Expr) -> Expr:
    """factor * x, where a factor that was left at its default 1 takes no multiplication."""
    return x if factor.__class__ is int else factor * x


# ---------------------------------------------------------------- the four operations


@pointwise(
    operator="__add__",
    reflected="__radd__",
    check=check_alpha,
    kernel="add_stub",
    factors=True,
    hidden="Scalar",
    of_numbers=True,
    elements=("alpha",),
)
def add(input: Operand, other: Operand, *, alpha: Number = 1):
    """input + alpha * other, with broadcasting and type promotion."""
    return input + scaled(alpha, other)


@pointwise(
    operator="__sub__", check=_check_sub, kernel="add_stub", factors=True, hidden="Scalar", of_numbers=True, elements=("alpha",)
)
def sub(input: Operand, other: Operand, *, alpha: Number = 1):
    """input - alpha * other. Raises RuntimeError for bool."""
    return input - scaled(alpha, other)


@pointwise(
    operator="__rsub__",
    method=False,
    inplace=False,
    check=_check_sub,
    node=overload("Rsub", "Backward0", "Backward1"),
    elements=("alpha",),
)
def rsub(input: Tensor, other: Operand, *, alpha: Number = 1):
    """other - alpha * input. Raises RuntimeError for bool."""
    return other - scaled(alpha, input)


rsub.operator.gradient_node = "NegBackward0"


def _check_mul(computation: DType, operands: Any, *rest: Any) -> None:
    """float8 is multiplied by tensors only, not by a number, in PyTorch."""
    if computation in FLOAT8 and (any(x.__class__ in NUMBERS for x in operands) or not operands[1]._layout.ndim):
        raise NotImplementedError(f"\"mul_cpu_reduced_float\" not implemented for '{computation.scalar_name}'")


@pointwise(operator="__mul__", reflected="__rmul__", types="bif8c", check=_check_mul, hidden="Scalar", of_numbers=True)
def mul(input: Operand, other: Operand):
    """input * other."""
    return input * other


def _rounding_kind(common: DType, rounding_mode: str | None = None) -> tuple[DType, DType]:
    if rounding_mode is not None or common.is_floating_point or common.is_complex:
        return common, common
    default = get_default_dtype()
    return default, default


def _check_division(computation: DType, operands: Sequence[Any], numbers: Sequence[Any], statics: Sequence[Any]) -> None:
    mode = statics[0]
    if mode not in (None, "trunc", "floor"):
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'")
    if mode is not None and (computation.is_complex or computation is bool_):
        raise NotImplementedError(f"\"div_{mode}_cpu\" not implemented for '{computation.scalar_name}'")


def nonzero_divisor(value: Expr, dividend: Expr, divisor: Expr) -> Expr:
    """`value`, an integer division's result, which is an error where the divisor is zero: in place, the dividend stays there."""
    if not s.is_integral(value.dtype):
        return value
    return s.guard(where(divisor == 0, s.cast(dividend, value.dtype), value), divisor == 0)


@pointwise(
    kind=_rounding_kind,
    operator="__truediv__",
    check=_check_division,
    guarded=True,
    node=lambda operands, statics: "Div" if statics[0] is None else "DivBackward2",
    hidden="Scalar",
    of_numbers=True,
)
def div(input: Operand, other: Operand, *, rounding_mode=None):
    """input / other; rounding_mode "trunc" rounds the quotient towards zero, "floor" down, and both keep integers.

    Raises RuntimeError (ZeroDivisionError) when an integer is divided by zero with a rounding mode.
    """
    if rounding_mode is None:
        return input / other
    quotient = s.trunc_divide(input, other) if rounding_mode == "trunc" else s.floor_divide(input, other)
    return nonzero_divisor(quotient, s.as_expr(input), s.as_expr(other))


@pointwise(kind="float", inplace=False, function=False, method=False, operator="__rtruediv__", name="_rdiv", node="Mul")
def _rdiv(input: Tensor, other: Operand):
    """other / input."""
    return s.reciprocal(input) * other


@pointwise(
    operator="__floordiv__",
    types="if",
    kernel="div_floor_cpu",
    guarded=True,
    undefined="aten::floor_divide",
    out=Out(graph=OUT_ONLY),
    of_numbers=True,
)
def floor_divide(input: Operand, other: Operand):
    """floor(input / other). Raises RuntimeError (ZeroDivisionError) when an integer is divided by zero."""
    return nonzero_divisor(s.floor_divide(input, other), s.as_expr(input), s.as_expr(other))


@pointwise(
    inplace=False,
    function=False,
    method=False,
    operator="__rfloordiv__",
    name="_rfloordiv",
    types="if",
    kernel="div_floor_cpu",
    guarded=True,
    undefined="aten::floor_divide",
)
def _rfloordiv(input: Tensor, other: Operand):
    """floor(other / input)."""
    return nonzero_divisor(s.floor_divide(other, input), s.as_expr(other), input)


@pointwise(operator="__mod__", types="if", guarded=True, node=overload("Remainder", "Backward1", "Backward0"))
def remainder(input: Operand, other: Operand):
    """input - floor(input / other) * other: the sign is the divisor's, as in Python."""
    return nonzero_divisor(s.remainder(input, other), s.as_expr(input), s.as_expr(other))


@pointwise(
    inplace=False,
    function=False,
    method=False,
    name="_rmod",
    types="if",
    kernel="remainder_cpu",
    guarded=True,
    undefined="aten::remainder",
)
def _rmod(input: Tensor, other: Operand):
    """other - floor(other / input) * input."""
    return nonzero_divisor(s.remainder(other, input), s.as_expr(other), input)


@named("__rmod__")
def _rmod_operator(self: Tensor, other: Any) -> Any:
    """other % self."""
    return remainder(other, self) if isinstance(other, Tensor) else _rmod(self, other)


Tensor.__rmod__ = _rmod_operator


@pointwise(types="if", guarded=True, node=overload("Fmod", "Backward1", "Backward0"))
def fmod(input: Tensor, other: Operand):
    """input - trunc(input / other) * other: the sign is the dividend's, as in C."""
    return nonzero_divisor(s.fmod(input, other), s.as_expr(input), s.as_expr(other))


# ---------------------------------------------------------------- signs and rounding


def _check_neg(computation: DType, *_: Any) -> None:
    if computation is bool_:
        raise RuntimeError(NEGATES_BOOL)


@pointwise(operator="__neg__", inplace="function", check=_check_neg, out=Out(as_computed=True))
def neg(input: Tensor):
    """-input."""
    return -input


neg.operator.gradient_node = "NegBackward0"


@pointwise(kind="real", operator="__abs__", inplace="function", types="if8c", out=Out(as_computed=True))
def abs(input: Tensor):
    """The absolute value; of a complex number its modulus. Its gradient at 0 is 0."""
    return s.abs(input)


def _check_complex_sign(computation: DType, *_: Any) -> None:
    if computation.is_complex:
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )


@pointwise(check=_check_complex_sign, out=Out(as_computed=True))
def sign(input: Tensor):
    """-1, 0 or 1."""
    return s.sign(input)


@pointwise(out=Out(as_computed=True))
def sgn(input: Tensor):
    """-1, 0 or 1; for complex numbers input / abs(input), 0 at 0."""
    return s.sign(input)


def _refuses_complex(message: str, error: type[Exception] = NotImplementedError) -> Any:
    def check(computation: DType, *_: Any) -> None:
        if computation.is_complex:
            raise error(message)

    return check


@pointwise(
    kind="bool",
    inplace=False,
    check=_refuses_complex("signbit is not implemented for complex tensors."),
    out=Out(dtype=worded("signbit does not support non-boolean outputs.")),
)
def signbit(input: Tensor):
    """Whether the sign bit is set, which is so for -0.0 too."""
    return s.signbit(input)


@pointwise(
    inplace="function",
    types="if",
    kernel="floor_vml_cpu",
    check=_refuses_complex("floor is not supported for complex inputs"),
    out=Out(as_computed=True),
)
def floor(input: Tensor):
    """The largest integer that is not above input."""
    return s.floor(input)


@pointwise(
    inplace="function",
    types="if",
    kernel="ceil_vml_cpu",
    check=_refuses_complex("ceil is not supported for complex inputs"),
    out=Out(as_computed=True),
)
def ceil(input: Tensor):
    """The smallest integer that is not below input."""
    return s.ceil(input)


@pointwise(
    inplace="function",
    types="if",
    kernel="trunc_vml_cpu",
    check=_refuses_complex("trunc is not supported for complex inputs"),
    out=Out(as_computed=True),
)
def trunc(input: Tensor):
    """input without its fraction."""
    return s.trunc(input)


@pointwise(inplace="function", types="f", out=Out(as_computed=True))
def frac(input: Tensor):
    """The fraction of input, with its sign."""
    return input - s.trunc(input)


@frac.vjp
def _(g):
    return g


def _check_round(computation: DType, operands: Sequence[Any], numbers: Sequence[Any], statics: Sequence[Any]) -> None:
    name = "round_vml_cpu" if statics[0] == 0 else "round_cpu"
    if computation is bool_ or computation.is_complex or (statics[0] != 0 and not computation.is_floating_point):
        raise NotImplementedError(f"\"{name}\" not implemented for '{computation.scalar_name}'")


@pointwise(
    inplace="function",
    check=_check_round,
    as_written=True,
    node=lambda operands, statics: "Round" if not statics[0] else "RoundBackward1",
    out=Out(as_computed=True),
)
def round(input: Tensor, *, decimals=0):
    """The nearest integer, halves to even; or the nearest number with so many decimals."""
    if decimals == 0:
        return s.round(input)
    power = 10.0 ** (decimals if decimals > 0 else -decimals)
    return s.round(input * power) / power if decimals > 0 else s.round(input / power) * power


def _check_positive(computation: DType, *_: Any) -> None:
    if computation is bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")


@composite(dunder="__pos__")
def positive(input: Tensor) -> Tensor:
    """input itself. Raises RuntimeError for bool."""
    _check_positive(input._layout.dtype)
    return input


@pointwise(kind="float", types="f", node=overload("Copysign", "Backward0", "Backward1"))
def copysign(input: Tensor, other: Operand):
    """The magnitude of input with the sign of other."""
    return s.copysign(input, other)


_FRACTIONS = {"bfloat16": 7, "float16": 10}  # bits of it, beside the 23 of the float32 in which such numbers are computed


@pointwise(types="f", function=False, method=False, inplace=False, name="nextafter")
def _nextafter(input: Tensor, other: Tensor, small=None):
    """The next number after input towards other, of their own dtype or of the smaller one with that name."""
    if small is None:
        return s.nextafter(input, other)
    size, step = input.__abs__(), 1 << (23 - _FRACTIONS[small])
    pattern = s.bitcast(input, int32)
    outwards = (other > input) == (input > 0)
    moved = s.bitcast(where(outwards, pattern + step, pattern - step), float32)
    if small == "float16":  # its subnormal numbers are normal ones of float32, its infinity is not next to its largest
        apart = s.copysign(input + where(other > input, 2.0**-24, -(2.0**-24)), input)
        moved = where((size < 2.0**-14) | ((size == 2.0**-14) & ~outwards), apart, moved)
        moved = where(size == float("inf"), s.copysign(s.constant(65504.0, float32), input), moved)
    moved = where(input == 0, s.copysign(s.constant(2.0**-24 if small == "float16" else 2.0**-133, float32), other), moved)
    return where(s.isnan(input) | s.isnan(other), input + other, where(input == other, other, moved))


@_nextafter.vjp
def _(g, input, other):
    return where(input == other, 0, g), s.constant(0, g.dtype)


@composite(out=True, inplace=True)
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next floating-point number after input towards other."""
    dtype = promote_types(input._layout.dtype, other._layout.dtype)
    return _nextafter(input, other, small=dtype.name if dtype.name in _FRACTIONS else None)


def _check_heaviside(computation: DType, operands: Sequence[Any], *_: Any) -> None:
    if computation.is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if operands[0]._layout.dtype is not operands[1]._layout.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


@pointwise(
    undefined="aten::heaviside",
    check=_check_heaviside,
    out=Out(dtype=worded("heaviside is not yet implemented for tensors with different dtypes."), graph=OUT_ONLY),
)
def heaviside(input: Tensor, values: Tensor):
    """0 below 0, 1 above, and `values` at 0."""
    return where(input == 0, values, s.cast(input > 0, values.dtype))


# ---------------------------------------------------------------- powers and roots


def _square_kind(common: DType) -> tuple[DType, DType]:
    return (int64, int64) if common is bool_ else (common, common)


@pointwise(inplace="function", kind=_square_kind, node="Pow", kernel="pow", out=Out(step="pow"))
def square(input: Tensor):
    """input * input."""
    return input * input


@square.vjp
def _(g, input):
    return g * (2 * conj(input))


@pointwise(kind="float", inplace="function", kernel="sqrt_vml_cpu")
def sqrt(input: Tensor):
    """The square root."""
    return s.sqrt(input)


@sqrt.vjp
def _(g, out):
    return g / (2 * conj(out))


@pointwise(kind="float", inplace="function")
def rsqrt(input: Tensor):
    """1 / sqrt(input)."""
    return s.rsqrt(input)


@rsqrt.vjp
def _(g, out):
    return -0.5 * g * conj(out * out * out)


@pointwise(kind="float", inplace="function")
def reciprocal(input: Tensor):
    """1 / input."""
    return s.reciprocal(input)


@reciprocal.vjp
def _(g, out):
    return -g * conj(out * out)


def _check_pow(computation: DType, operands: Sequence[Any], *_: Any) -> None:
    if computation is bool_ and isinstance(operands[1], Tensor):
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")


def _pow_node(operands: Sequence[Any], statics: Sequence[Any]) -> str:
    if operands and operands[0].__class__ in NUMBERS:
        return "PowBackward2"
    return "PowBackward0" if operands and operands[1].__class__ in NUMBERS else "PowBackward1"


@pointwise(node=_pow_node, name="pow", check=_check_pow, elements=("exponent",))
def _general_pow(input: Operand, exponent: Operand):
    """input ** exponent. Raises RuntimeError for integers to a negative integer number."""
    return s.pow(input, exponent)


def _fixed_power(name: str, exponent: float, body: Any) -> Any:
    """The operator input ** exponent for one exponent, by a body that is faster than the general one."""

    def power(input: Tensor):
        return body(input)

    power.__doc__ = f"input ** {exponent:g}."
    made = pointwise(kind=_square_kind, name=name, inplace=False, function=False, method=False, node="Pow")(power)

    def rule(g, input):
        if exponent == 0:
            return s.constant(0, g.dtype)
        if exponent == 3:
            return g * (3 * conj(input * input))
        if exponent == 1.5:  # minus infinity has no root, and minus 0 has itself, unlike their power 0.5
            return g * (1.5 * conj(s.sqrt(input)))
        return g * (exponent * conj(s.pow(input, exponent - 1)))

    made.vjp(rule)
    return made


_cube = _fixed_power("_cube", 3, lambda x: x * x * x)
_one = _fixed_power("_one", 0, lambda x: s.constant(1, x.dtype))
_same = _fixed_power("_same", 1, lambda x: x)
_root = _fixed_power("_root", 0.5, s.sqrt)
_root_of_cube = _fixed_power("_root_of_cube", 1.5, lambda x: s.pow(x, 1.5))
_inverse_root = _fixed_power("_inverse_root", -0.5, s.rsqrt)
_inverse = _fixed_power("_inverse", -1, lambda x: 1 / x)
_inverse_square = _fixed_power("_inverse_square", -2, lambda x: 1 / (x * x))
_POWERS = {2: square, 3: _cube}


def _steps_of_power(exponent: int) -> Any:
    """The gradient of a power by its own: as in PyTorch, the derivative of 2 * x, which is 2 * x ** 0, depends on x yet."""
    return lambda g, input: g * (pow(input, exponent - 1).conj() * exponent)


for _exponent, _power in ((1, _same), (2, square), (3, _cube)):
    _power.operator.steps = _steps_of_power(_exponent)
_FLOAT_POWERS = {
    **_POWERS,
    0: _one,
    1: _same,
    0.5: _root,
    1.5: _root_of_cube,
    -0.5: _inverse_root,
    -1: _inverse,
    -2: _inverse_square,
}


def pow(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent, with broadcasting and type promotion; either may be a number.

    Raises RuntimeError for integers to a negative integer number.
    """
    if exponent.__class__ is complex and exponent.imag == 0 and isinstance(input, Tensor) and input._layout.dtype.is_complex:
        exponent = exponent.real
    if (exponent.__class__ is int or exponent.__class__ is float) and isinstance(input, Tensor):
        inexact = input._layout.dtype.is_floating_point or input._layout.dtype.is_complex
        if out is None and input.__class__ in PLAIN:
            chosen = _FLOAT_POWERS.get(exponent) if inexact else _POWERS.get(exponent) if exponent.__class__ is int else None
            if chosen is not None and not modes.active.count:
                return chosen(input)
        if exponent < 0 and exponent.__class__ is int and not inexact:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
    return _general_pow(input, exponent, out=out)


@named("__pow__")
def _pow_operator(self: Tensor, exponent: Any) -> Any:
    if exponent.__class__ not in NUMBERS and not isinstance(exponent, (Tensor, int, float, complex, np.generic)):
        return NotImplemented
    return pow(self, exponent)


@named("__rpow__")
def _rpow_operator(self: Tensor, base: Any) -> Any:
    """base ** self."""
    if base.__class__ not in NUMBERS and not isinstance(base, (Tensor, int, float, complex, np.generic)):
        return NotImplemented
    return _general_pow(base, self)


@named("pow_")
def _pow_in_place(self: Tensor, exponent: Any) -> Tensor:
    """In-place version of pow()."""
    if exponent.__class__ is int and exponent < 0 and not (self._layout.dtype.is_floating_point or self._layout.dtype.is_complex):
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return _general_pow.inplace(self, exponent)


_general_pow.operator.public, _general_pow.operator.order = pow, in_common_order
publish("pow", pow)
publish("pow_", _pow_in_place, function=False)
Tensor.__pow__, Tensor.__rpow__, Tensor.__ipow__ = _pow_operator, _rpow_operator, _pow_in_place


def _double_kind(common: DType) -> tuple[DType, DType]:
    return (complex128, complex128) if common.is_complex else (float64, float64)


@pointwise(kind=_double_kind, node=_pow_node, inplace=False, name="float_power", out=Out(step="pow"))
def _general_float_power(input: Operand, exponent: Operand):
    """input ** exponent, computed and returned as float64 (complex128 for complex numbers)."""
    return s.pow(input, exponent)


def float_power(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent, computed and returned as float64 (complex128 for complex numbers); either may be a number."""
    if (
        (exponent.__class__ is int or exponent.__class__ is float)
        and isinstance(input, Tensor)
        and input.__class__ in PLAIN
        and out is None
        and not modes.active.count
    ):
        chosen = _FLOAT_POWERS.get(exponent)
        if chosen is not None:
            return chosen(input.to(complex128 if input._layout.dtype.is_complex else float64))
    if isinstance(out, Tensor):
        wanted = _general_float_power.operator.dtypes([input, exponent])[1]
        if out._layout.dtype is not wanted:
            raise RuntimeError(
                f"the output given to float_power has dtype {out._layout.dtype.scalar_name} but the operation's "
                f"result requires dtype {wanted.scalar_name}"
            )
    return _general_float_power(input, exponent, out=out)


_general_float_power.operator.public = float_power
publish("float_power", float_power)


def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """In-place version of float_power()."""
    wanted = _general_float_power.operator.dtypes([self, exponent])[1]
    if self._layout.dtype is not wanted:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self._layout.dtype.scalar_name} but the operation's "
            f"result requires dtype {wanted.scalar_name}"
        )
    return _general_pow.inplace(self, exponent)


publish("float_power_", float_power_, function=False)

Tensor.__div__, Tensor.__rdiv__, Tensor.__idiv__ = Tensor.__truediv__, Tensor.__rtruediv__, Tensor.__itruediv__

for _name, _of in (
    ("subtract", "sub"),
    ("multiply", "mul"),
    ("divide", "div"),
    ("true_divide", "div"),
    ("negative", "neg"),
    ("absolute", "abs"),
    ("fix", "trunc"),
):
    alias(_name, _of)
