"""Scalar expressions: what one element of a kernel computes.

An `Expr` is an immutable node; equal expressions are the same object (hash-consing), so `is` compares, common
subexpressions are shared for free, and an Expr is a dictionary key. Dtypes here are compute dtypes: float16 and
bfloat16 live in memory only and are widened to float32 by whoever loads them. An operator's body is an ordinary
Python function over the functions below; `trace` calls it with leaves.

Stands on base.dtype. Used by ir.derivative, ir.simplify, ir.functions (the bodies of exp, sin, ...), ir.loops,
codegen.scalar and every pointwise operator.
"""

from __future__ import annotations

import builtins
import struct
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from flambeau.base.dtype import (
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    uint8,
    uint16,
    uint32,
    uint64,
)
from flambeau.base.dtype import dtype as DType

Number = builtins.bool | int | float | complex
Operand: TypeAlias = "Expr | Number"

_PART = {complex64: float32, complex128: float64}
_PAIR = {float32: complex64, float64: complex128}
_BITS = {float32: int32, float64: int64, int32: float32, int64: float64, uint32: float32, uint64: float64}
_COMPUTE = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, complex64, complex128)


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which values stored as `dtype` are computed: float32 for float16 and bfloat16, else itself."""
    if dtype is float16 or dtype is bfloat16:
        return float32
    if dtype in _COMPUTE:
        return dtype
    if dtype is complex32:
        return complex64
    raise NotImplementedError(f"no scalar code for dtype {dtype}; convert the tensor to a supported dtype first")


def part_dtype(dtype: DType) -> DType:
    """The dtype of the real part of a complex dtype; a real dtype is its own part."""
    return _PART.get(dtype, dtype)


class Expr:
    """A node of a scalar expression: `op` applied to `args`, giving a value of `dtype`.

    `value` is a constant's number, a leaf's name, or a parameter of the op (None mostly). Build expressions with
    Python operators and the functions of this module, never by calling the class.
    """

    __slots__ = ("__weakref__", "args", "dtype", "op", "value")

    op: str
    args: tuple[Expr, ...]
    dtype: DType
    value: Any

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("an Expr is immutable")

    def __reduce__(self):
        return make, (self.op, self.args, self.dtype, self.value)

    def __bool__(self) -> builtins.bool:
        raise TypeError("the value of an Expr is unknown while a body is traced; use where() instead of a branch")

    __hash__ = object.__hash__

    # Arithmetic. Python numbers adapt to the expression's dtype, see `promote`.
    def __add__(self, other):
        return _arithmetic("add", self, other)

    def __radd__(self, other):
        return _arithmetic("add", other, self)

    def __sub__(self, other):
        return _arithmetic("sub", self, other)

    def __rsub__(self, other):
        return _arithmetic("sub", other, self)

    def __mul__(self, other):
        return _arithmetic("mul", self, other)

    def __rmul__(self, other):
        return _arithmetic("mul", other, self)

    def __truediv__(self, other):
        return divide(self, other)

    def __rtruediv__(self, other):
        return divide(other, self)

    def __floordiv__(self, other):
        return floor_divide(self, other)

    def __rfloordiv__(self, other):
        return floor_divide(other, self)

    def __mod__(self, other):
        return remainder(self, other)

    def __rmod__(self, other):
        return remainder(other, self)

    def __pow__(self, other):
        return pow(self, other)

    def __rpow__(self, other):
        return pow(other, self)

    def __neg__(self):
        return make("neg", (self,), self.dtype)

    def __pos__(self):
        return self

    def __abs__(self):
        return abs(self)

    # Bits and logic.
    def __and__(self, other):
        return _bitwise("and", self, other)

    def __rand__(self, other):
        return _bitwise("and", other, self)

    def __or__(self, other):
        return _bitwise("or", self, other)

    def __ror__(self, other):
        return _bitwise("or", other, self)

    def __xor__(self, other):
        return _bitwise("xor", self, other)

    def __rxor__(self, other):
        return _bitwise("xor", other, self)

    def __lshift__(self, other):
        return _bitwise("shl", self, other)

    def __rlshift__(self, other):
        return _bitwise("shl", other, self)

    def __rshift__(self, other):
        return _bitwise("shr", self, other)

    def __rrshift__(self, other):
        return _bitwise("shr", other, self)

    def __invert__(self):
        if not is_integral(self.dtype):
            raise TypeError(f"~ needs a boolean or integer expression, got {self.dtype}")
        return make("not", (self,), self.dtype)

    # Comparisons give boolean expressions. Expressions as dictionary keys still work: hashes are identities.
    def __lt__(self, other):
        return _compare("lt", self, other)

    def __le__(self, other):
        return _compare("le", self, other)

    def __gt__(self, other):
        return _compare("gt", self, other)

    def __ge__(self, other):
        return _compare("ge", self, other)

    def __eq__(self, other):  # type: ignore[override]
        return _compare("eq", self, other)

    def __ne__(self, other):  # type: ignore[override]
        return _compare("ne", self, other)

    def __repr__(self) -> str:
        return show(self)


# Keyed by identities of the arguments, which live as long as the entry does.
_INTERNED: weakref.WeakValueDictionary[tuple, Expr] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()
_set = object.__setattr__


def _value_key(value: Any) -> Any:
    """A key that tells 0.0 from -0.0, 1 from 1.0 from True, and finds NaN equal to itself."""
    if type(value) is float:
        return struct.pack("<d", value)
    if type(value) is complex:
        return struct.pack("<dd", value.real, value.imag)
    return type(value), value


def make(op: str, args: tuple[Expr, ...], dtype: DType, value: Any = None) -> Expr:
    """The one Expr with this content. `args` must already have the dtypes that the op wants."""
    key = (op, tuple(map(id, args)), dtype, None if value is None else _value_key(value))
    with _LOCK:
        found = _INTERNED.get(key)
        if found is None:
            found = Expr.__new__(Expr)
            _set(found, "op", op)
            _set(found, "args", args)
            _set(found, "dtype", dtype)
            _set(found, "value", value)
            _INTERNED[key] = found
        return found


def leaf(name: str, dtype: DType) -> Expr:
    """A value from outside: an input's element, a run-time scalar, an index. `dtype` must be a compute dtype."""
    if compute_dtype(dtype) is not dtype:
        raise TypeError(f"{dtype} is a storage dtype; a leaf takes its compute dtype {compute_dtype(dtype)}")
    return make("leaf", (), dtype, name)


def constant(value: Number, dtype: DType) -> Expr:
    """`value` as a constant of `dtype`: rounded to float32, wrapped to an integer's width, truth of a boolean."""
    return make("constant", (), dtype, constant_value(value, dtype))


def constant_value(value: Number, dtype: DType) -> Number:
    """The Python number that a constant of `dtype` made from `value` holds."""
    value = value.item() if isinstance(value, np.generic) else value
    if dtype is bool_:
        return builtins.bool(value)
    if dtype.is_complex:
        value = complex(value)
        part = part_dtype(dtype)
        return complex(constant_value(value.real, part), constant_value(value.imag, part))
    if dtype is float64:
        return float(value)
    if dtype is float32:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    bits = 8 * dtype.itemsize
    wrapped = int(value) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if dtype.is_signed and wrapped >> (bits - 1) else wrapped


def is_integral(dtype: DType) -> builtins.bool:
    """Whether `dtype` is boolean or an integer."""
    return not (dtype.is_floating_point or dtype.is_complex)


def is_constant(expr: Expr, value: Number | None = None) -> builtins.bool:
    """Whether `expr` is a constant (equal to `value` if that is given; 0 matches both zeros)."""
    return expr.op == "constant" and (value is None or expr.value == value)


def number_dtype(number: Number, like: DType | None) -> DType:
    """The dtype of `like` combined with a Python number: the number only decides when its kind is the larger."""
    kind = type(number)
    if kind is builtins.bool:
        return like or bool_
    if kind is int:
        return int64 if like is None or like is bool_ else like
    if kind is float:
        return get_compute_default() if like is None or is_integral(like) else like
    if kind is complex:
        if like is not None and like.is_complex:
            return like
        return _PAIR[like] if like in _PAIR else _PAIR[get_compute_default()]
    raise TypeError(f"expected an Expr or a Python number, got {kind.__name__}")


def get_compute_default() -> DType:
    """The compute dtype of PyTorch's default dtype."""
    return compute_dtype(get_default_dtype())


def as_expr(operand: Operand, like: DType | None = None) -> Expr:
    """`operand` as an Expr; a number takes the dtype that `number_dtype` gives it beside `like`."""
    if isinstance(operand, Expr):
        return operand
    if isinstance(operand, np.generic):
        operand = operand.item()
    return constant(operand, number_dtype(operand, like))


def common_dtype(*operands: Operand) -> DType:
    """The dtype to which these operands promote."""
    result = None
    for operand in operands:
        if isinstance(operand, Expr) and operand.dtype is not result:
            result = operand.dtype if result is None else promote_types(result, operand.dtype)
    for operand in operands:
        if not isinstance(operand, Expr):
            result = number_dtype(operand.item() if isinstance(operand, np.generic) else operand, result)
    return result


def promote(*operands: Operand) -> tuple[Expr, ...]:
    """The operands as expressions of their common dtype."""
    dtype = common_dtype(*operands)
    return tuple(cast(x, dtype) if isinstance(x, Expr) else constant(x, dtype) for x in operands)


def promote_floating(*operands: Operand) -> tuple[Expr, ...]:
    """Like `promote`, and integers become the default floating dtype."""
    dtype = common_dtype(*operands)
    if is_integral(dtype):
        dtype = get_compute_default()
    return tuple(cast(x, dtype) if isinstance(x, Expr) else constant(x, dtype) for x in operands)


def _arithmetic(op: str, a: Operand, b: Operand) -> Expr:
    a, b = promote(a, b)
    if a.dtype is bool_:  # PyTorch: + is or, * is and; - is refused by the operator itself
        return make({"add": "or", "mul": "and", "sub": "xor"}[op], (a, b), bool_)
    return make(op, (a, b), a.dtype)


def _bitwise(op: str, a: Operand, b: Operand) -> Expr:
    a, b = promote(a, b)
    if not is_integral(a.dtype):
        raise TypeError(f"bitwise {op} needs boolean or integer expressions, got {a.dtype}")
    if op in ("shl", "shr") and a.dtype is bool_:
        raise TypeError("shifts need integer expressions")
    return make(op, (a, b), a.dtype)


def _compare(op: str, a: Operand, b: Operand) -> Expr:
    a, b = promote(a, b)
    if a.dtype.is_complex and op not in ("eq", "ne"):
        raise TypeError(f"complex numbers have no order ({op})")
    return make(op, (a, b), bool_)


# ---------------------------------------------------------------------------------------- conversion and selection


def cast(x: Operand, dtype: DType) -> Expr:
    """`x` converted to `dtype`: floats truncate to integers, complex drops its imaginary part, nonzero is true."""
    dtype = compute_dtype(dtype)
    if not isinstance(x, Expr):
        return constant(x, dtype)
    return x if x.dtype is dtype else make("cast", (x,), dtype)


def bitcast(x: Expr, dtype: DType) -> Expr:
    """The bits of `x` read as `dtype`, which must have the same size."""
    if x.dtype.itemsize != dtype.itemsize:
        raise TypeError(f"bitcast needs equal sizes, got {x.dtype} and {dtype}")
    return x if x.dtype is dtype else make("bitcast", (x,), dtype)


def bits_dtype(dtype: DType) -> DType:
    """The signed integer dtype as wide as a floating `dtype`."""
    return _BITS[dtype]


def where(condition: Operand, a: Operand, b: Operand) -> Expr:
    """`a` where `condition` holds, else `b`."""
    condition = cast(as_expr(condition), bool_)
    a, b = promote(a, b)
    return make("where", (condition, a, b), a.dtype)


def guard(value: Operand, bad: Operand) -> Expr:
    """`value`; where `bad` holds, the kernel leaves an error for its caller to report."""
    value = as_expr(value)
    return make("guard", (value, cast(as_expr(bad), bool_)), value.dtype)


def rarely(common: Expr, size: Expr, limit: float, slow: Callable[..., Expr], *operands: Expr) -> Expr:
    """`common`, but slow(size, *operands) where |size| >= limit; all of one floating dtype.

    Unlike `where` it doesn't compute `slow` for every element: that stands in a function of its own, entered only by
    vectors that hold such a size. For what is right to do, seldom needed and long.
    """
    names = ["size", *(f"x{i}" for i in range(len(operands)))]
    leaves = tuple(leaf(name, x.dtype) for name, x in zip(names, (size, *operands), strict=True))
    return make("rarely", (common, size, *operands), common.dtype, (float(limit), slow(*leaves)))


def library_fmod(a: Expr, b: Expr) -> Expr:
    """The C library's fmod, exact for every float64 pair: a call, so for `rarely` only."""
    return make("frem", (a, b), float64)


# ------------------------------------------------------------------------------------------------------ arithmetic


def add(a: Operand, b: Operand) -> Expr:
    """a + b."""
    return _arithmetic("add", a, b)


def sub(a: Operand, b: Operand) -> Expr:
    """a - b."""
    return _arithmetic("sub", a, b)


def mul(a: Operand, b: Operand) -> Expr:
    """a * b."""
    return _arithmetic("mul", a, b)


def neg(x: Operand) -> Expr:
    """-x."""
    return -as_expr(x)


def exact_mul(a: Expr, b: Expr) -> Expr:
    """a * b rounded on its own: never fused with an addition, for error-free transformations."""
    return make("mul", (a, b), a.dtype, "exact")


def fma(a: Operand, b: Operand, c: Operand) -> Expr:
    """a * b + c with a single rounding (floating dtypes); a * b + c for others."""
    a, b, c = promote(a, b, c)
    if not a.dtype.is_floating_point:
        return a * b + c
    return make("fma", (a, b, c), a.dtype)


def divide(a: Operand, b: Operand) -> Expr:
    """True division; integers become the default floating dtype."""
    a, b = promote_floating(a, b)
    return make("div", (a, b), a.dtype)


def _division(op: str) -> Callable[[Operand, Operand], Expr]:
    def build(a: Operand, b: Operand) -> Expr:
        a, b = promote(a, b)
        if a.dtype.is_complex:
            raise TypeError(f"{op} is not defined for complex numbers")
        if a.dtype is bool_:
            raise TypeError(f"{op} is not defined for bool")
        return make(op, (a, b), a.dtype)

    build.__name__ = op
    build.__doc__ = _DIVISIONS[op]
    return build


_DIVISIONS = {
    "floor_divide": "floor(a / b), as PyTorch rounds it.",
    "trunc_divide": "trunc(a / b).",
    "remainder": "a - floor(a / b) * b: the sign is the divisor's.",
    "fmod": "a - trunc(a / b) * b: the sign is the dividend's.",
}
floor_divide = _division("floor_divide")
trunc_divide = _division("trunc_divide")
remainder = _division("remainder")
fmod = _division("fmod")


def abs(x: Operand) -> Expr:
    """Absolute value; of a complex number its (real) modulus."""
    x = as_expr(x)
    if x.dtype is bool_ or (is_integral(x.dtype) and not x.dtype.is_signed):
        return x
    return make("abs", (x,), part_dtype(x.dtype))


def sign(x: Operand) -> Expr:
    """-1, 0 or 1 (0 for NaN); x / |x| for complex numbers, 0 at 0."""
    x = as_expr(x)
    return x if x.dtype is bool_ else make("sign", (x,), x.dtype)


def signbit(x: Operand) -> Expr:
    """Whether the sign bit is set (true for -0.0)."""
    x = as_expr(x)
    if x.dtype.is_floating_point:
        return bitcast(x, bits_dtype(x.dtype)) < 0
    return x < 0 if x.dtype.is_signed else constant(False, bool_)


def copysign(a: Operand, b: Operand) -> Expr:
    """|a| with the sign of b (also of -0.0 and NaN)."""
    a, b = promote_floating(a, b)
    return make("copysign", (a, b), a.dtype)


def square(x: Operand) -> Expr:
    """x * x."""
    x = as_expr(x)
    return x * x


# ----------------------------------------------------------------------------------------------------- comparisons


def isnan(x: Operand) -> Expr:
    """Whether x (or a part of it) is NaN."""
    x = as_expr(x)
    return constant(False, bool_) if is_integral(x.dtype) else x != x


def isinf(x: Operand) -> Expr:
    """Whether x (or a part of it) is infinite."""
    x = as_expr(x)
    if x.dtype.is_complex:
        return isinf(real(x)) | isinf(imag(x))
    return constant(False, bool_) if is_integral(x.dtype) else abs(x) == float("inf")


def isfinite(x: Operand) -> Expr:
    """Whether x (both its parts) is neither NaN nor infinite."""
    x = as_expr(x)
    if x.dtype.is_complex:
        return isfinite(real(x)) & isfinite(imag(x))
    return constant(True, bool_) if is_integral(x.dtype) else abs(x) < float("inf")


def _extremum(op: str, doc: str) -> Callable[[Operand, Operand], Expr]:
    def build(a: Operand, b: Operand) -> Expr:
        a, b = promote(a, b)
        if a.dtype.is_complex:
            raise TypeError(f"{op} is not defined for complex numbers")
        return make(op, (a, b), a.dtype)

    build.__name__, build.__doc__ = op, doc
    return build


minimum = _extremum("minimum", "The smaller operand; NaN if either is.")
maximum = _extremum("maximum", "The larger operand; NaN if either is.")
fmin = _extremum("fmin", "The smaller operand; a NaN gives way to a number.")
fmax = _extremum("fmax", "The larger operand; a NaN gives way to a number.")


def clamp(x: Operand, low: Operand | None = None, high: Operand | None = None) -> Expr:
    """min(max(x, low), high); NaN stays NaN. Its gradient is 1 inside and on the bounds, else 0."""
    x = as_expr(x)
    if low is None and high is None:
        raise ValueError("clamp needs a bound")
    if low is None:
        x, high = promote(x, high)
        return make("clamp_max", (x, high), x.dtype)
    if high is None:
        x, low = promote(x, low)
        return make("clamp_min", (x, low), x.dtype)
    x, low, high = promote(x, low, high)
    return make("clamp", (x, low, high), x.dtype)


def logical_not(x: Operand) -> Expr:
    """Whether x is zero."""
    return ~cast(as_expr(x), bool_)


def logical_and(a: Operand, b: Operand) -> Expr:
    """Whether both are nonzero."""
    return cast(as_expr(a), bool_) & cast(as_expr(b), bool_)


def logical_or(a: Operand, b: Operand) -> Expr:
    """Whether either is nonzero."""
    return cast(as_expr(a), bool_) | cast(as_expr(b), bool_)


def logical_xor(a: Operand, b: Operand) -> Expr:
    """Whether exactly one is nonzero."""
    return cast(as_expr(a), bool_) ^ cast(as_expr(b), bool_)


# -------------------------------------------------------------------------------------------------------- rounding


def _rounding(op: str, doc: str) -> Callable[[Operand], Expr]:
    def build(x: Operand) -> Expr:
        x = as_expr(x)
        if x.dtype.is_complex:
            raise TypeError(f"{op} is not defined for complex numbers")
        return x if is_integral(x.dtype) else make(op, (x,), x.dtype)

    build.__name__, build.__doc__ = op, doc
    return build


floor = _rounding("floor", "The largest integer not above x; integers pass.")
ceil = _rounding("ceil", "The smallest integer not below x; integers pass.")
trunc = _rounding("trunc", "x without its fraction; integers pass.")
round = _rounding("round", "The nearest integer, halves to even; integers pass.")


# ------------------------------------------------------------------------------------------ functions with a name
# These stay named ops so that derivatives recognise them; ir.functions holds their bodies.


def _function(op: str, doc: str, complex_too: builtins.bool = False) -> Callable[[Operand], Expr]:
    def build(x: Operand) -> Expr:
        (x,) = promote_floating(x)
        if x.dtype.is_complex and not complex_too:
            raise NotImplementedError(f"{op} has no body for complex numbers; use its real and imaginary parts")
        return make(op, (x,), x.dtype)

    build.__name__, build.__doc__ = op, doc + " Integers become the default floating dtype."
    return build


def _function2(op: str, doc: str) -> Callable[[Operand, Operand], Expr]:
    def build(a: Operand, b: Operand) -> Expr:
        a, b = promote_floating(a, b)
        if a.dtype.is_complex:
            raise NotImplementedError(f"{op} has no body for complex numbers")
        return make(op, (a, b), a.dtype)

    build.__name__, build.__doc__ = op, doc
    return build


sqrt = _function("sqrt", "Square root.", True)
rsqrt = _function("rsqrt", "1 / sqrt(x).", True)
reciprocal = _function("reciprocal", "1 / x.", True)
exp = _function("exp", "e to the power x.", True)
exp2 = _function("exp2", "2 to the power x.", True)
expm1 = _function("expm1", "exp(x) - 1, accurate near 0.", True)
log = _function("log", "Natural logarithm.", True)
log2 = _function("log2", "Logarithm to base 2.", True)
log10 = _function("log10", "Logarithm to base 10.", True)
log1p = _function("log1p", "log(1 + x), accurate near 0.", True)
sin = _function("sin", "Sine.", True)
cos = _function("cos", "Cosine.", True)
tan = _function("tan", "Tangent.", True)
asin = _function("asin", "Arc sine.", True)
acos = _function("acos", "Arc cosine.", True)
atan = _function("atan", "Arc tangent.", True)
sinh = _function("sinh", "Hyperbolic sine.", True)
cosh = _function("cosh", "Hyperbolic cosine.", True)
tanh = _function("tanh", "Hyperbolic tangent.", True)
asinh = _function("asinh", "Inverse hyperbolic sine.", True)
acosh = _function("acosh", "Inverse hyperbolic cosine.", True)
atanh = _function("atanh", "Inverse hyperbolic tangent.", True)
sigmoid = _function("sigmoid", "1 / (1 + exp(-x)).", True)
erf = _function("erf", "Error function.")
erfc = _function("erfc", "1 - erf(x), accurate in the tail.")
erfinv = _function("erfinv", "The inverse of erf.")
erfcx = _function("erfcx", "exp(x * x) * erfc(x).")
lgamma = _function("lgamma", "log |Gamma(x)|.")
digamma = _function("digamma", "The derivative of lgamma.")
trigamma = _function("trigamma", "The derivative of digamma.")
i0 = _function("i0", "Modified Bessel function of the first kind, order 0.")
i0e = _function("i0e", "exp(-|x|) * i0(x).")
i1 = _function("i1", "Modified Bessel function of the first kind, order 1.")
i1e = _function("i1e", "exp(-|x|) * i1(x).")
sinc = _function("sinc", "sin(pi x) / (pi x), 1 at 0.")
atan2 = _function2("atan2", "The angle of the point (b, a).")
hypot = _function2("hypot", "sqrt(a * a + b * b) without overflow.")
nextafter = _function2("nextafter", "The next number after a towards b.")
logaddexp = _function2("logaddexp", "log(exp(a) + exp(b)).")


def pow(base: Operand, exponent: Operand) -> Expr:
    """base ** exponent with PyTorch's special cases; integers stay integers and wrap (a negative exponent gives 0,
    except for bases 1 and -1)."""
    base, exponent = promote(base, exponent)
    if base.dtype is bool_:
        return base | ~exponent
    return make("pow", (base, exponent), base.dtype)


def gcd(a: Operand, b: Operand) -> Expr:
    """Greatest common divisor of two integers, not negative."""
    a, b = promote(a, b)
    if not is_integral(a.dtype) or a.dtype is bool_:
        raise TypeError(f"gcd needs integers, got {a.dtype}")
    return make("gcd", (a, b), a.dtype)


def lcm(a: Operand, b: Operand) -> Expr:
    """Least common multiple of two integers, 0 if either is."""
    a, b = promote(a, b)
    divisor = gcd(a, b)
    return where(divisor == 0, 0, abs(trunc_divide(a, where(divisor == 0, 1, divisor)) * b))


# --------------------------------------------------------------------------------------------------------- complex


def complex_(re: Operand, im: Operand) -> Expr:
    """re + im j."""
    re, im = promote_floating(re, im)
    return make("complex", (re, im), _PAIR[re.dtype])


def real(x: Operand) -> Expr:
    """The real part; real numbers pass."""
    x = as_expr(x)
    if not x.dtype.is_complex:
        return x
    return x.args[0] if x.op == "complex" else make("real", (x,), part_dtype(x.dtype))


def imag(x: Operand) -> Expr:
    """The imaginary part; 0 for real numbers."""
    x = as_expr(x)
    if not x.dtype.is_complex:
        return constant(0, x.dtype)
    return x.args[1] if x.op == "complex" else make("imag", (x,), part_dtype(x.dtype))


def conj(x: Operand) -> Expr:
    """The complex conjugate; real numbers pass."""
    x = as_expr(x)
    return make("conj", (x,), x.dtype) if x.dtype.is_complex else x


def angle(x: Operand) -> Expr:
    """The argument of x; for real numbers 0 or pi, and NaN for NaN."""
    x = as_expr(x)
    if x.dtype.is_complex:
        return atan2(imag(x), real(x))
    (x,) = promote_floating(x)
    return where(x < 0, 3.141592653589793, where(isnan(x), x, 0.0))


# ------------------------------------------------------------------------------------------------ whole expressions


def trace(function: Callable[..., Any], *leaves: Expr) -> Any:
    """Call a body with leaves: an Expr, or a tuple of them if the body returns several."""
    result = function(*leaves)
    if isinstance(result, tuple):
        return tuple(as_expr(x) for x in result)
    return as_expr(result)


def topological(*roots: Expr) -> Iterator[Expr]:
    """Every node under `roots` once, arguments before their users (without recursion)."""
    seen: set[int] = set()
    stack: list[tuple[Expr, builtins.bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args) if id(arg) not in seen)


def leaves_of(*roots: Expr) -> tuple[Expr, ...]:
    """The leaves under `roots`, in order of first use."""
    return tuple(node for node in topological(*roots) if node.op == "leaf")


def rewrite(roots: Iterable[Expr], rule: Callable[[Expr], Expr]) -> tuple[Expr, ...]:
    """Rebuild expressions bottom-up: `rule` sees each node with rewritten arguments and returns its replacement."""
    roots = tuple(roots)
    done: dict[Expr, Expr] = {}
    for node in topological(*roots):
        args = tuple(done[arg] for arg in node.args)
        same = all(a is b for a, b in zip(args, node.args, strict=True))
        done[node] = rule(node if same else make(node.op, args, node.dtype, node.value))
    return tuple(done[root] for root in roots)


def substitute(expr: Expr, replacements: dict[Expr, Expr]) -> Expr:
    """`expr` with each key (a leaf or any subexpression) replaced by its value."""
    done: dict[Expr, Expr] = {}
    for node in topological(expr):
        if node in replacements:
            done[node] = replacements[node]
        else:
            done[node] = make(node.op, tuple(done[arg] for arg in node.args), node.dtype, node.value)
    return done[expr]


_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
          "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}  # fmt: skip


def show(expr: Expr) -> str:
    """The expression as Python text (shared parts are repeated; long ones are cut)."""

    def text(node: Expr, depth: int) -> str:
        if node.op == "leaf":
            return str(node.value)
        if node.op == "constant":
            return repr(node.value)
        if depth > 12:
            return "..."
        args = [text(arg, depth + 1) for arg in node.args]
        if node.op in _INFIX:
            return f"({args[0]} {_INFIX[node.op]} {args[1]})"
        if node.op == "neg":
            return f"-{args[0]}"
        if node.op in ("cast", "bitcast"):
            args.append(node.dtype.name)
        return f"{node.op}({', '.join(args)})"

    return text(expr, 0)
