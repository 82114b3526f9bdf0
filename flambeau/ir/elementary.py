"""Bodies of division, rounding, clamping, exp, log, pow and their relatives, for real dtypes.

Every body takes its node and the node's expanded arguments. The polynomials are minimax fits made for this file; the
first terms of a series are kept exact, so the fits only carry the tail. Ops written with fma() and exact_mul() depend
on how they round: leave them so. Stands on ir.scalar. Used through ir.functions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from flambeau.base.dtype import float32, float64, int32
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr, bitcast, bits_dtype, cast, constant, exact_mul, fma, where

INFINITY = float("inf")
NAN = float("nan")

BODIES: dict[str, Callable[..., Expr]] = {}
#: Ops that are primitive on integers and have a body on floats, and the reverse.
FLOATING_ONLY = frozenset(("fmod", "remainder", "floor_divide", "trunc_divide"))
INTEGER_ONLY: frozenset[str] = frozenset()

LOG2_E = 1.4426950408889634
#: ln 2 as a sum of two numbers of the dtype.
LN2 = {float32: (0.6931471824645996, -1.9046542121259336e-09), float64: (0.6931471805599453, 2.3190468138462996e-17)}
LOG2_E_PARTS = {float32: (1.4426950216293335, 1.925963033500011e-08), float64: (1.4426950408889634, 2.0355273740931033e-17)}
LOG10_E_PARTS = {float32: (0.4342944920063019, -1.0103049952192578e-08), float64: (0.4342944819032518, 1.098319650216765e-17)}
LOG10_2_PARTS = {float32: (0.3010300099849701, -1.432098883924482e-08), float64: (0.3010299956639812, -2.8037281277851704e-18)}
MANTISSA = {float32: 23, float64: 52}
BIAS = {float32: 127, float64: 1023}
#: 1.5 * 2**mantissa: adding it rounds to an integer, which then stands in the low bits.
MAGIC = {float32: 12582912.0, float64: 6755399441055744.0}
SMALLEST_NORMAL = {float32: 1.1754943508222875e-38, float64: 2.2250738585072014e-308}

# exp(f) = 1 + f + f**2 P(f) for |f| <= ln(2) / 2.
EXP = {
    float32: (0.5, 0.166665182, 0.0416662022, 0.00836895034, 0.00139506918),
    float64: (0.5, 0.16666666666666685, 0.04166666666666672, 0.008333333333316624, 0.0013888888888859048,
              0.00019841269897348936, 2.4801587372843667e-05, 2.755723394142969e-06, 2.7557233968861527e-07,
              2.5112344535285645e-08, 2.0926787938280017e-09),
}  # fmt: skip
# 2**f = 1 + f P(f) for |f| <= 1 / 2.
EXP2 = {
    float32: (0.693147182, 0.240226462, 0.0555032864, 0.00961848907, 0.00133999321, 0.000153458124),
    float64: (0.6931471805599453, 0.24022650695910072, 0.0555041086648217, 0.009618129107628494, 0.0013333558146390182,
              0.000154035303933411, 1.5252733856504575e-05, 1.3215486833166278e-06, 1.0178051089239283e-07,
              7.05488818408282e-09, 4.456693004549388e-10, 2.5741924475204398e-11),
}  # fmt: skip
# float32: log(1 + f) = f - f**2 / 2 + f**3 P(f); float64: 2 atanh(t) = 2 t + t**3 P(t**2), t = f / (2 + f).
LOG = {
    float32: (0.333333105, -0.249999866, 0.200022414, -0.166692659, 0.142183304, -0.123838648, 0.11875131,
              -0.117937714, 0.0691509321),
    float64: (0.6666666666666735, 0.3999999999940723, 0.28571428744172545, 0.2222219837675845, 0.1818357520705788,
              0.15313755514669314, 0.14799062745954755),
}  # fmt: skip
# The double-double logarithm's tail: 2 atanh(t) = 2 t + t**3 (2/3 + t**2 P(t**2)).
LOG_TAIL = (
    0.4000000000000229,
    0.28571428570083884,
    0.22222222522860352,
    0.18181784098818335,
    0.15386770174781852,
    0.13256508204561504,
    0.13199291889321266,
)


def body(*ops: str):
    """Register a function as the body of `ops`."""

    def register(function: Callable[..., Expr]) -> Callable[..., Expr]:
        for op in ops:
            BODIES[op] = function
        return function

    return register


def polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    """c0 + c1 x + c2 x**2 + ... by Horner's rule."""
    result = constant(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result


def bits(x: Expr) -> Expr:
    """The bits of a floating x as a signed integer."""
    return bitcast(x, bits_dtype(x.dtype))


def power_of_two(exponent: Expr, dtype) -> Expr:
    """2**exponent for an integer expression within the normal range."""
    return bitcast((exponent + BIAS[dtype]) << MANTISSA[dtype], dtype)


def magic_round(x: Expr, scale: float) -> tuple[Expr, Expr]:
    """round(x * scale) as a float and as an integer, for results below 2**22 (2**51 in float64)."""
    magic = MAGIC[x.dtype]
    shifted = fma(x, scale, magic)
    return shifted - magic, bits(shifted) - bits_of(magic, x.dtype)


def bits_of(value: float, dtype) -> int:
    """The bits of a constant as an integer."""
    return struct.unpack("<i" if dtype is float32 else "<q", struct.pack("<f" if dtype is float32 else "<d", value))[0]


def scale_by_power(x: Expr, exponent: Expr) -> Expr:
    """x * 2**exponent in two steps, right where the result overflows or is subnormal."""
    half = exponent >> 1
    return (x * power_of_two(half, x.dtype)) * power_of_two(exponent - half, x.dtype)


def bounded(x: Expr, low: float, high: float) -> Expr:
    """x limited to [low, high], NaN kept."""
    x = where(x > high, high, x)
    return where(x < low, low, x)


# ------------------------------------------------------------------------------------------- arithmetic and rounding


@body("sign")
def sign(node: Expr, x: Expr) -> Expr:
    if x.dtype.is_floating_point:
        return where(x > 0, 1.0, where(x < 0, -1.0, 0.0 * constant(1, x.dtype)))
    return cast(x > 0, x.dtype) - cast(x < 0, x.dtype) if x.dtype.is_signed else cast(x > 0, x.dtype)


@body("reciprocal")
def reciprocal(node: Expr, x: Expr) -> Expr:
    return 1 / x


@body("rsqrt")
def rsqrt(node: Expr, x: Expr) -> Expr:
    return 1 / s.sqrt(x)


@body("clamp")
def clamp(node: Expr, x: Expr, low: Expr, high: Expr) -> Expr:
    return s.minimum(high, s.maximum(low, x))  # in this order -0.0 is kept by a bound of 0.0, as in PyTorch


@body("clamp_min")
def clamp_min(node: Expr, x: Expr, low: Expr) -> Expr:
    return s.maximum(low, x)


@body("clamp_max")
def clamp_max(node: Expr, x: Expr, high: Expr) -> Expr:
    return s.minimum(high, x)


def _fmod_double(a: Expr, b: Expr) -> Expr:
    """The exact remainder of a by b, truncated: one step where the quotient has at most 52 bits."""
    magnitude, divisor = abs(a), abs(b)
    quotient = magnitude / divisor
    rest = fma(-s.trunc(quotient), divisor, magnitude)  # exact; a quotient that was rounded up leaves a negative rest
    rest = where(rest < 0, rest + divisor, rest)
    rest = where(magnitude < divisor, magnitude, rest)  # also an infinite divisor
    return s.rarely(s.copysign(rest, a), quotient, 2.0**52, lambda quotient, a, b: s.library("fmod", a, b), a, b)


@body("fmod")
def fmod(node: Expr, a: Expr, b: Expr) -> Expr:
    return cast(_fmod_double(cast(a, float64), cast(b, float64)), node.dtype)


@body("remainder")
def remainder(node: Expr, a: Expr, b: Expr) -> Expr:
    rest = s.fmod(a, b)
    return where((rest != 0) & ((b < 0) ^ (rest < 0)), rest + b, rest)


@body("floor_divide")
def floor_divide(node: Expr, a: Expr, b: Expr) -> Expr:
    rest = s.fmod(a, b)
    quotient = (a - rest) / b
    quotient = where((rest != 0) & ((b < 0) ^ (rest < 0)), quotient - 1, quotient)
    lower = s.floor(quotient)
    lower = where(quotient - lower > 0.5, lower + 1, lower)
    return where(b == 0, a / b, where(quotient != 0, lower, s.copysign(constant(0, a.dtype), a / b)))


@body("trunc_divide")
def trunc_divide(node: Expr, a: Expr, b: Expr) -> Expr:
    return s.trunc(a / b)


@body("hypot")
def hypot(node: Expr, a: Expr, b: Expr) -> Expr:
    a, b = abs(a), abs(b)
    high = where(a > b, a, b)
    low = where(a > b, b, a)
    if node.dtype is float32:
        wide_a, wide_b = cast(a, float64), cast(b, float64)
        result = cast(s.sqrt(wide_a * wide_a + wide_b * wide_b), float32)
    else:
        scale = where(high > 1e150, 2.0**-600, where(high < 1e-140, 2.0**600, 1.0 * constant(1, high.dtype)))
        back = where(high > 1e150, 2.0**600, where(high < 1e-140, 2.0**-600, 1.0 * constant(1, high.dtype)))
        high, low = high * scale, low * scale
        result = s.sqrt(fma(high, high, low * low)) * back
    return where((a == INFINITY) | (b == INFINITY), INFINITY, result)


@body("nextafter")
def nextafter(node: Expr, a: Expr, b: Expr) -> Expr:
    pattern = bits(a)
    away = (b > a) == (a > 0)
    stepped = bitcast(where(away, pattern + 1, pattern - 1), a.dtype)
    from_zero = s.copysign(bitcast(constant(1, bits_dtype(a.dtype)), a.dtype), b)
    moved = where(a == 0, from_zero, stepped)
    return where(s.isnan(a) | s.isnan(b), a + b, where(a == b, b, moved))


# -------------------------------------------------------------------------------------------------------------- exp


def exp_reduced(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(f, exp(f) - 1, k) with exp(x) = 2**k exp(f)."""
    dtype = x.dtype
    rounded, k = magic_round(x, LOG2_E)
    high, low = LN2[dtype]
    f = fma(-rounded, low, fma(-rounded, high, x))
    return f, fma(polynomial(f, EXP[dtype]), f * f, f), k


EXP_RANGE = {float32: (-104.0, 89.0), float64: (-746.0, 710.0)}


@body("exp")
def exp(node: Expr, x: Expr) -> Expr:
    _, fraction, k = exp_reduced(bounded(x, *EXP_RANGE[x.dtype]))
    return scale_by_power(fraction + 1, k)


EXP_NORMAL = {float32: -87.33654, float64: -708.396}  # what has a smaller exponential has none that is a normal number


def rounded_power(x: Expr, scale: float) -> tuple[Expr, Expr]:
    """round(x * scale) and 2 to that power, which must be a normal number."""
    dtype = x.dtype
    magic = MAGIC[dtype] + BIAS[dtype]  # the low bits then hold the exponent as it lies in a number
    shifted = fma(x, scale, magic)
    return shifted - magic, bitcast(bits(shifted) << MANTISSA[dtype], dtype)


@body("exp_normal")
def exp_normal(node: Expr, x: Expr) -> Expr:
    dtype = x.dtype
    rounded, power = rounded_power(x, LOG2_E)
    high, low = LN2[dtype]
    f = fma(-rounded, low, fma(-rounded, high, x))
    result = (fma(polynomial(f, EXP[dtype]), f * f, f) + 1) * power
    return where(x < EXP_NORMAL[dtype], 0.0 * constant(1, dtype), result)


def half_exp(x: Expr) -> Expr:
    """exp(x) / 2 without early overflow, for x >= 0."""
    low, high = EXP_RANGE[x.dtype]
    _, fraction, k = exp_reduced(bounded(x, low, high + 1))
    return scale_by_power(fraction + 1, k - 1)


@body("exp2")
def exp2(node: Expr, x: Expr) -> Expr:
    low, high = {float32: (-151.0, 129.0), float64: (-1076.0, 1025.0)}[x.dtype]
    x = bounded(x, low, high)
    rounded, k = magic_round(x, 1.0)
    f = x - rounded
    return scale_by_power(fma(polynomial(f, EXP2[x.dtype]), f, 1.0), k)


@body("expm1")
def expm1(node: Expr, x: Expr) -> Expr:
    high = EXP_RANGE[x.dtype][1]
    low = {float32: -18.0, float64: -40.0}[x.dtype]
    _, fraction, k = exp_reduced(bounded(x, low, high))
    half = power_of_two(k - 1, x.dtype)  # 2**k itself may overflow
    result = fma(half, fraction, half - 0.5) * 2
    return where(x == 0, x, result)


@body("sigmoid")
def sigmoid(node: Expr, x: Expr) -> Expr:
    return 1 / (1 + s.exp(-x))


# -------------------------------------------------------------------------------------------------------------- log

SQRT_HALF_BITS = {float32: 0x3F3504F3, float64: 0x3FE6A09E667F3BCD}


def split_exponent(x: Expr, exponent: Expr | None = None) -> tuple[Expr, Expr]:
    """(k, m) with x = 2**k m, k an integer expression and m in [sqrt(1/2), sqrt(2)), for normal positive x."""
    dtype = x.dtype
    shift = MANTISSA[dtype]
    offset = bits(x) - SQRT_HALF_BITS[dtype]
    k = offset >> shift
    mantissa = bitcast((offset & ((1 << shift) - 1)) + SQRT_HALF_BITS[dtype], dtype)
    return k, mantissa


def split_any(x: Expr) -> tuple[Expr, Expr]:
    """`split_exponent` for positive x that may be subnormal; k is a float."""
    dtype = x.dtype
    shift = MANTISSA[dtype]
    subnormal = x < SMALLEST_NORMAL[dtype]
    k, mantissa = split_exponent(where(subnormal, x * 2.0**shift, x))
    return to_float(k, dtype) - where(subnormal, float(shift), 0.0 * constant(1, dtype)), mantissa


def to_float(k: Expr, dtype) -> Expr:
    """A small integer as a float; through 32 bits, for which every processor has a vector conversion."""
    return cast(cast(k, int32), dtype)


def log_fraction(f: Expr, k: Expr | None, parts: tuple[float, float] | None) -> Expr:
    """log(1 + f) + k * (parts[0] + parts[1]) for f in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    square = f * f
    if f.dtype is float32:
        tail = f * square * polynomial(f, LOG[float32])
        if k is None or parts is None:
            return f + fma(square, -0.5, tail)
        tail = fma(k, parts[1], tail)
        return fma(k, parts[0], f + fma(square, -0.5, tail))
    t = f / (f + 2)
    z = t * t
    half = square * 0.5
    tail = t * fma(z, polynomial(z, LOG[float64]), half)
    if k is None or parts is None:
        return f - (half - tail)
    return fma(k, parts[0], f - (half - fma(k, parts[1], tail)))


def log_specials(x: Expr, result: Expr) -> Expr:
    """`result` for positive finite x; -inf at 0, NaN below, x for infinity and NaN."""
    return where(x > 0, where(x < INFINITY, result, x), where(x == 0, -INFINITY, NAN * constant(1, x.dtype)))


@body("log")
def log(node: Expr, x: Expr) -> Expr:
    k, m = split_any(x)
    return log_specials(x, log_fraction(m - 1, k, LN2[x.dtype]))


@body("log2")
def log2(node: Expr, x: Expr) -> Expr:
    k, m = split_any(x)
    fraction = log_fraction(m - 1, None, None)
    high, low = LOG2_E_PARTS[x.dtype]
    return log_specials(x, k + fma(fraction, high, fraction * low))


@body("log10")
def log10(node: Expr, x: Expr) -> Expr:
    k, m = split_any(x)
    fraction = log_fraction(m - 1, None, None)
    high, low = LOG10_E_PARTS[x.dtype]
    two_high, two_low = LOG10_2_PARTS[x.dtype]
    small = fma(k, two_low, fraction * low)
    return log_specials(x, fma(k, two_high, fma(fraction, high, small)))


def log1p_finite(x: Expr) -> Expr:
    """log(1 + x) for finite x > -1: the fraction is scaled before 1 is added, so no bit of x is lost."""
    dtype = x.dtype
    k, _ = split_exponent(x + 1)
    scale = power_of_two(2 - k, dtype) * 0.25  # 2**-k, which may be subnormal
    f = fma(x, scale, scale - 1)
    return log_fraction(f, to_float(k, dtype), LN2[dtype])


@body("log1p")
def log1p(node: Expr, x: Expr) -> Expr:
    result = where(x == 0, x, log1p_finite(x))
    return where(x > -1, where(x < INFINITY, result, x), where(x == -1, -INFINITY, NAN * constant(1, x.dtype)))


@body("logaddexp")
def logaddexp(node: Expr, a: Expr, b: Expr) -> Expr:
    high = s.maximum(a, b)
    same_infinity = (a == b) & s.isinf(a)
    return where(same_infinity, a, high + s.log1p(s.exp(-abs(a - b))))


# -------------------------------------------------------------------------------------------------------------- pow


def _log_double(x: Expr) -> tuple[Expr, Expr]:
    """log(x) as high + low with about 64 correct bits, for positive finite float64 x."""
    k, m = split_any(x)
    f = m - 1
    d = m + 1
    d_low = m - (d - 1)
    t = f / d
    t_low = fma(-t, d_low, fma(-t, d, f)) / d
    z = exact_mul(t, t)
    z_low = fma(t, t, -z) + 2 * t * t_low
    third, third_low = 0.6666666666666666, 3.700743415417188e-17
    tail = exact_mul(z, polynomial(z, LOG_TAIL))
    w = tail + third
    w_low = (third - w) + tail + third_low
    v = exact_mul(z, w)
    v_low = fma(z, w, -v) + z * w_low + z_low * w
    u = exact_mul(t, v)
    u_low = fma(t, v, -u) + t * v_low + t_low * v
    twice = exact_mul(t, constant(2, float64))
    high = twice + u
    low = (twice - high) + u + (u_low + 2 * t_low)
    # ln 2 with 42 bits, so that k times it is exact, and the rest
    shift = exact_mul(k, constant(0.6931471805598903, float64))
    total = shift + high
    rest = (shift - total) + high
    return total, rest + fma(k, 5.497923018708371e-14, low)


def _pow_magnitude(x: Expr, y: Expr) -> Expr:
    """x**y for x >= 0 (not NaN), y any but NaN and 0."""
    if x.dtype is float32:
        wide, exponent = cast(x, float64), cast(y, float64)
        k, m = split_exponent(wide)
        f = m - 1
        t = f / (f + 2)
        z = t * t
        log2_m = t * fma(z, polynomial(z, POW32_LOG), 2.8853900817779268)
        log2_x = where(wide == 0, -INFINITY, where(wide == INFINITY, INFINITY, to_float(k, float64) + log2_m))
        product = bounded(exponent * log2_x, -200.0, 200.0)
        rounded, n = magic_round(product, 1.0)
        fraction = product - rounded
        return cast(fma(polynomial(fraction, POW32_EXP2), fraction, 1.0) * power_of_two(n, float64), float32)
    high, low = _log_double(x)
    high = where(x == 0, -INFINITY, where(x == INFINITY, INFINITY, high))
    product = exact_mul(y, high)
    inside = abs(product) < 800
    product_low = where(inside, fma(y, high, -product) + y * low, 0.0)
    product = bounded(product, -800.0, 800.0)
    rounded, k = magic_round(product, LOG2_E)
    part, rest = LN2[float64]
    f = fma(-rounded, rest, fma(-rounded, part, product)) + product_low
    return scale_by_power(fma(polynomial(f, EXP[float64]), f * f, f) + 1, k)


# float32's pow works in float64, where the Taylor terms of 2 atanh(t) / ln 2 suffice.
POW32_LOG = (0.9617966939259756, 0.5770780163555853, 0.4121985831111324, 0.3205988979753252, 0.2623081892525388,
             0.22195308321368667)  # fmt: skip
POW32_EXP2 = EXP2[float64][:9]


@body("pow")
def pow(node: Expr, x: Expr, y: Expr) -> Expr:
    if not node.dtype.is_floating_point:
        return _integer_pow(x, y)
    magnitude = abs(x)
    integer = s.trunc(y) == y
    odd = integer & (s.trunc(y * 0.5) * 2 != y)
    result = _pow_magnitude(magnitude, y)
    result = where(s.signbit(x) & odd, -result, result)
    result = where((x < 0) & (x > -INFINITY) & ~integer, NAN, result)
    result = where((magnitude == 1) & s.isinf(y), 1.0, result)
    result = where(s.isnan(x) | s.isnan(y), x + y, result)
    return where((y == 0) | (x == 1), 1.0, result)


def _integer_pow(x: Expr, y: Expr) -> Expr:
    """Repeated squaring while y has bits; below zero 1 and -1 keep their parity and other bases give 0."""

    def step(result: Expr, square: Expr, rest: Expr) -> tuple[Expr, ...]:
        return where((rest & 1) != 0, result * square, result), square * square, rest >> 1

    rest = where(y < 0, 0, y) if x.dtype.is_signed else y
    result = s.repeat(step, lambda result, square, rest: rest != 0, (0 * x + 1, x, rest), limit=8 * x.dtype.itemsize)
    if not x.dtype.is_signed:
        return result
    negative = where(x == 1, 1, where(x == -1, where((y & 1) != 0, -1, constant(1, x.dtype)), 0))
    return where(y < 0, negative, result)
