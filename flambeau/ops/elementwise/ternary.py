"""Operators that choose between operands or mix several: maximum, clamp, where, lerp, addcmul, hypot and their like.

Stands on core.operator.variants and ir.scalar. Ties and bounds have PyTorch's gradients (ir.derivative has the rules).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base.dtype import bool_, float32, get_default_dtype, int32, uint8
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import contiguous_strides
from flambeau.base.warn import warn_once
from flambeau.core.operator import return_types
from flambeau.core.operator.annotations import Number, Operand
from flambeau.core.operator.arguments import refused
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.out_rules import ALIGNED, OUT_ONLY, Out, worded
from flambeau.core.operator.pointwise import NUMBERS, in_common_order, like_first
from flambeau.core.operator.publishing import alias, publish
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.create import make_tensor
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr, conj
from flambeau.ops.elementwise.arithmetic import scaled


def _refuses_complex(name: str) -> Any:
    def check(computation: DType, *_: Any) -> None:
        if computation.is_complex:
            raise RuntimeError(f"{name} not implemented for complex tensors.")

    return check


@pointwise(inplace=False, check=_refuses_complex("maximum"))
def maximum(input: Tensor, other: Tensor):
    """The larger of two elements; NaN if either is."""
    return s.maximum(input, other)


@pointwise(inplace=False, check=_refuses_complex("minimum"))
def minimum(input: Tensor, other: Tensor):
    """The smaller of two elements; NaN if either is."""
    return s.minimum(input, other)


@pointwise(inplace=False, check=_refuses_complex("fmax"))
def fmax(input: Tensor, other: Tensor):
    """The larger of two elements; a NaN gives way to a number."""
    return s.fmax(input, other)


@pointwise(inplace=False, check=_refuses_complex("fmin"))
def fmin(input: Tensor, other: Tensor):
    """The smaller of two elements; a NaN gives way to a number."""
    return s.fmin(input, other)


# ---------------------------------------------------------------- clamp


def _has_number(operands: Sequence[Any]) -> bool:
    return any(x.__class__ in NUMBERS for x in operands)


def _check_clamp(bound: str, computation: DType, operands: Sequence[Any], *_: Any, alone: bool = False) -> None:
    if computation.is_complex:
        if alone:  # clamp_min and clamp_max
            tensors = isinstance(operands[1], Tensor)
        else:
            tensors = operands[0]._layout.dtype.is_floating_point
        if tensors:
            if not any(isinstance(x, Tensor) for x in operands[1:]):
                raise RuntimeError("value cannot be converted to type double without overflow")
            kernel = {"min": "maximum", "max": "minimum"}.get(bound, "clamp")
            raise NotImplementedError(f"\"{kernel}_cpu\" not implemented for '{computation.scalar_name}'")
        raise NotImplementedError("clamp is not supported for complex types")
    if computation is bool_:  # two tensors are compared by other kernels than a tensor and numbers
        numbers = _has_number(operands)
        kernel = "clamp" if len(operands) > 2 else f"clamp_{bound}_scalar" if numbers else None
        if kernel is not None:
            raise NotImplementedError(f"\"{kernel}{'_scalar' * (len(operands) > 2 and numbers)}_cpu\" not implemented for 'Bool'")


def _clamp_node(operands: Sequence[Any], statics: Sequence[Any]) -> str:
    return "ClampBackward1" if _has_number(operands) else "ClampBackward0"


def _bound_node(title: str) -> Any:
    return lambda operands, statics: title + ("Backward0" if _has_number(operands) else "Backward1")


_OUT = Out(as_computed=_has_number)


@pointwise(inplace="function", check=partial(_check_clamp, "min", alone=True), node=_bound_node("ClampMin"), out=_OUT)
def clamp_min(input: Tensor, min: Operand):
    """input where it is not below `min`, else `min`."""
    return s.clamp(input, low=min)


@pointwise(inplace="function", check=partial(_check_clamp, "max", alone=True), node=_bound_node("ClampMax"), out=_OUT)
def clamp_max(input: Tensor, max: Operand):
    """input where it is not above `max`, else `max`."""
    return s.clamp(input, high=max)


@pointwise(
    name="_clamp_low",
    function=False,
    method=False,
    types="bif",
    check=partial(_check_clamp, "min"),
    kernel="clamp_cpu",
    node=_clamp_node,
)
def _clamp_low(input: Tensor, min: Operand):
    """clamp with only a lower bound."""
    return s.clamp(input, low=min)


@pointwise(
    name="_clamp_high",
    function=False,
    method=False,
    types="bif",
    check=partial(_check_clamp, "max"),
    kernel="clamp_cpu",
    node=_clamp_node,
)
def _clamp_high(input: Tensor, max: Operand):
    """clamp with only an upper bound."""
    return s.clamp(input, high=max)


@pointwise(
    name="_clamp_between",
    function=False,
    method=False,
    types="bif",
    check=partial(_check_clamp, ""),
    kernel="clamp_cpu",
    node=_clamp_node,
)
def _clamp_between(input: Tensor, min: Operand, max: Operand):
    """clamp with both bounds."""
    return s.clamp(input, min, max)


for _bounded in (clamp_min, clamp_max, _clamp_low, _clamp_high, _clamp_between):
    _bounded.operator.elements = ("min", "max")
    _bounded.operator.order = in_common_order
    _bounded.operator.gradient_node = "WhereBackward0"


def _check_bounds(min: Any, max: Any) -> None:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    bounds = [bound for bound in (min, max) if bound is not None]
    with_dims = [isinstance(bound, Tensor) and bound._layout.ndim > 0 for bound in bounds]
    if any(with_dims) and not all(isinstance(bound, Tensor) for bound in bounds):
        raise TypeError(
            "clamp() received an invalid combination of arguments - got "
            f"({type(min).__name__}, {type(max).__name__}), but expected one of:\n"
            " * (Tensor input, Tensor min = None, Tensor max = None, *, Tensor out = None)\n"
            " * (Tensor input, Number min = None, Number max = None, *, Tensor out = None)\n"
        )


@composite(out=Out(overlap=ALIGNED, as_made=True))
def clamp(input: Tensor, min: Operand = None, max: Operand = None) -> Tensor:
    """min(max(input, min), max); a bound is a number, a tensor or None. Where min > max the result is max."""
    _check_bounds(min, max)
    if max is None:
        return _clamp_low(input, min)
    if min is None:
        return _clamp_high(input, max)
    return _clamp_between(input, min, max)


@composite(name="clamp_")
def clamp_(input: Tensor, min: Operand = None, max: Operand = None) -> Tensor:
    """In-place version of clamp()."""
    _check_bounds(min, max)
    if max is None:
        return _clamp_low.inplace(input, min)
    if min is None:
        return _clamp_high.inplace(input, max)
    return _clamp_between.inplace(input, min, max)


alias("clip", "clamp")


# ---------------------------------------------------------------- where


@pointwise(
    name="_where",
    types="bif8c",
    function=False,
    method=False,
    inplace=False,
    undecided=("condition",),
    node="Where",
    elements=("input", "other"),
    widened=True,
)
def _where(condition: Tensor, input: Operand, other: Operand):
    """input where condition holds, else other."""
    return s.where(condition, input, other)


_where.operator.gradient_node = "WhereBackward0"


def _nothing_but_numbers(input: Any, other: Any) -> tuple[Any, Any]:
    """Two numbers as zero-dim tensors of the dtype in which numbers meet."""
    kinds = [dtypes.number_dtype(input), dtypes.number_dtype(other)]
    common = dtypes.promote_types(*kinds)
    return make_tensor(input, common), make_tensor(other, common)


@composite(method=False, out=Out(dtype=worded("Expected out type to be {have} but got {got}"), overlap=ALIGNED))
def where(condition: Tensor, input: Operand = None, other: Operand = None) -> Any:
    """input where condition (bool) holds, else other; both may be numbers. Without them: condition.nonzero(as_tuple=True).

    Raises RuntimeError if condition is not bool.
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if not isinstance(condition, Tensor):
        raise TypeError(f"where(): argument 'condition' (position 1) must be Tensor, not {type(condition).__name__}")
    kind = condition._layout.dtype
    if kind is not bool_:
        if kind is not uint8:
            raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {kind.scalar_name}")
        warn_once(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version of PyTorch. Use a boolean condition instead."
        )
    if input is None or other is None:
        raise TypeError(
            "where() received an invalid combination of arguments - got "
            f"(Tensor, {type(input).__name__}, {type(other).__name__}), but expected one of:\n * (Tensor condition)\n"
            " * (Tensor condition, Tensor input, Tensor other, *, Tensor out = None)\n"
            " * (Tensor condition, Number self, Tensor other)\n * (Tensor condition, Tensor input, Number other)\n"
            " * (Tensor condition, Number self, Number other)\n"
        )
    if input.__class__ in NUMBERS and other.__class__ in NUMBERS:
        input, other = _nothing_but_numbers(input, other)
    return _where(condition, input, other)


def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """self where condition holds, else other."""
    return where(condition, self, other)


_where_method.__name__ = _where_method.__qualname__ = "where"
_where_method.body_is_read = True  # type: ignore[attr-defined]  # by modes and tracers: its arguments aren't in the operator's order
publish("where", _where_method, function=False)


# ---------------------------------------------------------------- mixtures


def _check_lerp(computation: DType, operands: Sequence[Any], *_: Any) -> None:
    own, end, weight = operands[0]._layout.dtype, operands[1]._layout.dtype, operands[2]
    if end is not own:
        raise RuntimeError(f"expected dtype {own.c_name} for `end` but got dtype {end.c_name}")
    if weight.__class__ not in NUMBERS and weight._layout.dtype is not own and weight._layout.ndim:
        raise RuntimeError(f"expected dtype {own.c_name} for `weight` but got dtype {weight._layout.dtype.c_name}")


@pointwise(
    types="fc",
    kernel="lerp_kernel_scalar",
    check=_check_lerp,
    undecided=("weight",),
    node=lambda operands, statics: "LerpBackward0" if operands and operands[2].__class__ in NUMBERS else "LerpBackward1",
    out=Out(as_computed=lambda operands: isinstance(operands[2], Tensor)),
    elements=("weight",),
    widened=True,
)
def lerp(input: Tensor, end: Tensor, weight: Operand):
    """input + weight * (end - input). Raises RuntimeError unless the dtypes are equal, but for that of a zero-dim weight."""
    weight = s.cast(weight, input.dtype)
    step = end - input
    near = s.abs(weight) < 0.5
    return s.where(near, input + weight * step, end - step * (1 - weight))


lerp.operator.order = in_common_order


@lerp.vjp
def _(g, input, end, weight):
    weight = s.cast(weight, input.dtype)
    return g * conj(1 - weight), g * conj(weight), g * conj(end - input)


def _check_addcmul(computation: DType, *_: Any) -> None:
    if computation is bool_:
        raise NotImplementedError("\"addcmul_cpu_out\" not implemented for 'Bool'")


@pointwise(check=_check_addcmul, factors=True, elements=("value",), widened=True)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1):
    """input + value * tensor1 * tensor2."""
    return input + scaled(value, tensor1) * tensor2


def _check_addcdiv(computation: DType, operands: Sequence[Any], *_: Any) -> None:
    if all(not (x._layout.dtype.is_floating_point or x._layout.dtype.is_complex) for x in operands[1:]):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division "
            "of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / "
            "tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The "
            "future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes."
        )


@pointwise(check=_check_addcdiv, factors=True, elements=("value",), widened=True)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1):
    """input + value * tensor1 / tensor2. Raises RuntimeError if both are integers."""
    return input + scaled(value, tensor1) / tensor2


@pointwise(types="f", kernel="hypot_cpu")
def hypot(input: Tensor, other: Tensor):
    """sqrt(input^2 + other^2) without overflow."""
    return s.hypot(input, other)


@pointwise(kind="float", types="f")
def atan2(input: Tensor, other: Tensor):
    """The angle of the point (other, input), from -pi to pi."""
    return s.atan2(input, other)


alias("arctan2", "atan2")


@pointwise(inplace=False, types="fc")
def logaddexp(input: Tensor, other: Tensor):
    """log(exp(input) + exp(other)) without overflow."""
    if not input.dtype.is_complex:
        return s.logaddexp(input, other)
    smaller = s.real(input) < s.real(other)
    high, low = s.where(smaller, other, input), s.where(smaller, input, other)
    return high + s.log1p(s.exp(low - high))


@logaddexp.vjp
def _(g, input, other):
    return g / conj(1 + s.exp(other - input)), g / conj(1 + s.exp(input - other))


@pointwise(inplace=False, types="f")
def logaddexp2(input: Tensor, other: Tensor):
    """log2(2^input + 2^other) without overflow."""
    high, low = s.maximum(input, other), s.minimum(input, other)
    return s.where(input == other, input + 1, high + s.log1p(s.exp2(low - high)) * (1 / math.log(2)))


@logaddexp2.vjp
def _(g, input, other):
    return g / (1 + s.exp2(other - input)), g / (1 + s.exp2(input - other))


def product_with_log(x: Expr, logarithm: Expr, y: Expr) -> Expr:
    """x * logarithm, but 0 where x is 0 and NaN where y is."""
    return s.where(s.isnan(y), y, s.where(x == 0, 0, x * logarithm))


def _overload(title: str) -> Any:
    def name(operands: Sequence[Any], statics: Sequence[Any]) -> str:
        numbers = [x.__class__ in NUMBERS for x in operands] or [False, False]
        return f"{title}Backward{1 if numbers[0] else 2 if numbers[1] else 0}"

    return name


@pointwise(kind="float", inplace="function", types="f", node=_overload("Xlogy"))
def xlogy(input: Operand, other: Operand):
    """input * log(other), 0 where input is 0, NaN where other is."""
    other = s.as_expr(other)
    return product_with_log(input, s.log(other), other)


@xlogy.vjp
def _(g, input, other):
    return s.where((input == 0) & (other <= 0), 0, g * s.log(other)), g * input / other


@pointwise(
    kind="float",
    inplace=False,
    types="f",
    function=False,
    method=False,
    node=_overload("SpecialXlog1Py"),
    underneath="special_xlog1py",
)
def xlog1py(input: Operand, other: Operand):
    """input * log1p(other), 0 where input is 0, NaN where other is."""
    return product_with_log(input, s.log1p(other), other)


@xlog1py.vjp
def _(g, input, other):
    return s.where((input == 0) & (other <= -1), 0, g * s.log1p(other)), g * input / (other + 1)


@pointwise(inplace="function", types="i", differentiable=False, out=Out(graph=OUT_ONLY))
def gcd(input: Tensor, other: Tensor):
    """The greatest common divisor of integers."""
    return s.gcd(input, other)


@pointwise(inplace="function", types="i", differentiable=False, out=Out(graph=OUT_ONLY))
def lcm(input: Tensor, other: Tensor):
    """The least common multiple of integers."""
    return s.lcm(input, other)


# ---------------------------------------------------------------- exponents


def _ldexp_kind(common: DType) -> tuple[DType, DType]:
    result = common if common.is_floating_point or common.is_complex else get_default_dtype()
    return result, result


@pointwise(kind=_ldexp_kind, inplace="function")
def ldexp(input: Tensor, other: Tensor):
    """input * 2 ** other."""
    return input * s.exp2(other)


@ldexp.vjp
def _(g, input, other):
    power = s.exp2(other)
    return g * conj(power), g * conj(input * power) * math.log(2)


def _exponent(x: Expr) -> tuple[Expr, Expr]:
    """The mantissa of a floating-point number, in [0.5, 1), and its exponent (int32)."""
    wide = s.bits_dtype(x.dtype)
    mantissa_bits, bias = (23, 126) if x.dtype is float32 else (52, 1022)
    tiny = s.abs(x) < (2.0**-126 if x.dtype is float32 else 2.0**-1022)
    scale = mantissa_bits + 1
    lifted = s.where(tiny, x * 2.0**scale, x)
    bits = s.bitcast(lifted, wide)
    mask = (1 << (8 * x.dtype.itemsize - 1 - mantissa_bits)) - 1
    raised = (bits >> mantissa_bits) & mask
    exponent = raised - bias - s.where(tiny, scale, 0)
    fraction = s.bitcast((bits & ~(s.constant(mask << mantissa_bits, wide))) | s.constant(bias << mantissa_bits, wide), x.dtype)
    special = (x == 0) | ~s.isfinite(x)
    return s.where(special, x, fraction), s.cast(s.where(special, 0, exponent), int32)


@pointwise(name="_mantissa", function=False, method=False, inplace=False)
def _mantissa(input: Tensor):
    """The mantissa that frexp gives."""
    return _exponent(input)[0]


@pointwise(name="_binary_exponent", function=False, method=False, inplace=False, kind=lambda common: (common, int32))
def _binary_exponent(input: Tensor):
    """The exponent that frexp gives."""
    return _exponent(input)[1]


@operator(
    node="FrexpBackward0",
    differentiable=1,
    out=Out(dtype=worded("torch.frexp() expects mantissa to have dtype {own} but got {other}"), overlap=ALIGNED),
)
def frexp(input: Tensor) -> Any:
    """(mantissa, exponent): input = mantissa * 2 ** exponent with 0.5 <= |mantissa| < 1; the exponent is int32.

    Raises RuntimeError unless input is floating point.
    """
    if not input._layout.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return return_types.frexp((_mantissa(input), _binary_exponent(input)))


@frexp.vjp
def _(g, out1):
    return ldexp(g, -out1)


# ---------------------------------------------------------------- numbers that are none


@pointwise(name="_replace_nonfinite", function=False, method=False, node="NanToNum", real_gradients="nan_to_num")
def _replace_nonfinite(input: Tensor, nan: Number = 0.0, posinf: Number = 0.0, neginf: Number = 0.0):
    """input with NaN and both infinities replaced."""

    def replaced(x: Expr) -> Expr:
        a, b, c = s.real(nan), s.real(posinf), s.real(neginf)
        return s.where(s.isnan(x), a, s.where(x == float("inf"), b, s.where(x == float("-inf"), c, x)))

    return s.complex_(replaced(s.real(input)), replaced(s.imag(input))) if input.dtype.is_complex else replaced(input)


_replace_nonfinite.operator.order = like_first
_replace_nonfinite.operator.gradient_node = "MulBackward0"


@_replace_nonfinite.vjp
def _(g, input):
    return s.where(s.isfinite(input), g, 0)


def _replacements(input: Tensor, nan: Any, posinf: Any, neginf: Any) -> tuple[float, float, float] | None:
    dtype = input._layout.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        for position, (name, value) in enumerate((("nan", nan), ("posinf", posinf), ("neginf", neginf)), 2):
            if isinstance(value, complex):
                raise refused("nan_to_num", name, "float", value, position)
        return None
    largest = dtypes.finfo(dtype.to_real() if dtype.is_complex else dtype).max
    return (
        0.0 if nan is None else float(nan),
        largest if posinf is None else float(posinf),
        -largest if neginf is None else float(neginf),
    )


@composite(
    out=Out(dtype=worded("nan_to_num: dtype of out: {got} should be same as input: {have}"), overlap=ALIGNED, as_made=True)
)
def nan_to_num(input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """input with NaN replaced by `nan` (0), and infinities by `posinf` and `neginf` (the dtype's largest numbers)."""
    values = _replacements(input, nan, posinf, neginf)
    return input.clone() if values is None else _replace_nonfinite(input, *values)


@composite()
def nan_to_num_(input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """In-place version of nan_to_num()."""
    values = _replacements(input, nan, posinf, neginf)
    return input if values is None else _replace_nonfinite.inplace(input, *values)


@pointwise(
    kind=lambda common: (
        (common, common.to_real()) if common.is_complex else (common, common if common.is_floating_point else get_default_dtype())
    ),
    inplace=False,
)
def angle(input: Tensor):
    """The argument of complex numbers; of real ones 0, or pi below 0, or NaN."""
    return s.angle(input)


angle.operator.order = lambda shape, layouts: (
    contiguous_strides(shape) if layouts[0].dtype.is_complex else in_common_order(shape, layouts)
)


@angle.vjp
def _(g, input):
    if not input.dtype.is_complex:
        return 0
    re, im = s.real(input), s.imag(input)
    size = re * re + im * im
    return s.where(size == 0, s.constant(0, input.dtype), s.complex_(g * (-im / size), g * (re / size)))
