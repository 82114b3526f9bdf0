"""The vocabulary of scalar expressions: what one element of a kernel computes, as functions that build `Expr` nodes.

An operator's body is an ordinary Python function over the functions below and Python's operators; `trace` calls it with
leaves. The node itself and the tools for whole expressions come from ir.expression and are offered here too.

Stands on ir.expression. Used by ir.derivative, ir.simplify, ir.functions (the bodies of exp, sin, ...), ir.loops,
codegen.scalar and every pointwise operator.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

from flambeau.base.dtype import bool_
from flambeau.ir.expression import (  # noqa: F401
    COMPLEX_OF,
    Expr,
    Number,
    Operand,
    abs,
    apart,
    arithmetic,
    as_expr,
    bitcast,
    bits_dtype,
    cast,
    common_dtype,
    compute_dtype,
    constant,
    constant_value,
    divide,
    floor_divide,
    fmod,
    get_compute_default,
    guard,
    is_constant,
    is_integral,
    leaf,
    leaves_of,
    library,
    make,
    number_dtype,
    outlined,
    part_dtype,
    pow,
    promote,
    promote_floating,
    rarely,
    remainder,
    repeat,
    rewrite,
    show,
    sometimes,
    substitute,
    through_memory,
    topological,
    trace,
    trunc_divide,
    where,
)

# ------------------------------------------------------------------------------------------------------ arithmetic


def add(a: Operand, b: Operand) -> Expr:
    """a + b."""
    return arithmetic("add", a, b)


def sub(a: Operand, b: Operand) -> Expr:
    """a - b."""
    return arithmetic("sub", a, b)


def mul(a: Operand, b: Operand) -> Expr:
    """a * b."""
    return arithmetic("mul", a, b)


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
    if low is None:
        if high is None:
            raise ValueError("clamp needs a bound")
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
exp_normal = _function("exp_normal", "exp(x) for x up to 88; 0 where that is no normal number, which softmax does not notice.")
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
normal_cdf = _function("normal_cdf", "The standard normal distribution function, right to an ulp of 1, not of itself.")
gelu = _function("gelu", "x * normal_cdf(x).")
erfinv = _function("erfinv", "The inverse of erf.")
normal_quantile = _function("normal_quantile", "The inverse of the standard normal distribution function.")
erfcx = _function("erfcx", "exp(x * x) * erfc(x).")
lgamma = _function("lgamma", "log |Gamma(x)|.")
digamma = _function("digamma", "The derivative of lgamma.")
trigamma = _function("trigamma", "The derivative of digamma.")


def zeta(x: Operand, q: Operand) -> Expr:
    """The Hurwitz zeta function: the sum over k >= 0 of (k + q) ** -x."""
    x, q = promote_floating(x, q)
    return make("zeta", (x, q), x.dtype)


i0 = _function("i0", "Modified Bessel function of the first kind, order 0.")
i0e = _function("i0e", "exp(-|x|) * i0(x).")
i1 = _function("i1", "Modified Bessel function of the first kind, order 1.")
i1e = _function("i1e", "exp(-|x|) * i1(x).")
sinc = _function("sinc", "sin(pi x) / (pi x), 1 at 0.")
atan2 = _function2("atan2", "The angle of the point (b, a).")
hypot = _function2("hypot", "sqrt(a * a + b * b) without overflow.")
nextafter = _function2("nextafter", "The next number after a towards b.")
logaddexp = _function2("logaddexp", "log(exp(a) + exp(b)).")


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
    return make("complex", (re, im), COMPLEX_OF[re.dtype])


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
