"""Bodies of the trigonometric and hyperbolic functions and their inverses, for real dtypes.

Arguments are reduced with fused multiply-adds, float32 ones in double precision, and huge ones with integers in a
path of their own; polynomials are minimax fits made
for this file. Stands on ir.scalar and ir.elementary. Used through ir.functions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from flambeau.base.dtype import float32, float64, int32, int64, uint64
from flambeau.ir import scalar as s
from flambeau.ir.elementary import (
    INFINITY,
    LN2,
    NAN,
    bits,
    bounded,
    exp_reduced,
    half_exp,
    log_fraction,
    magic_round,
    polynomial,
    power_of_two,
    split_exponent,
    to_float,
)
from flambeau.ir.scalar import Expr, bitcast, bits_dtype, cast, constant, exact_mul, fma, where

BODIES: dict[str, Callable[..., Expr]] = {}

TWO_OVER_PI = 0.6366197723675814
PI = 3.141592653589793
PI_PARTS = {float32: (3.1415927410125732, -8.742277657347586e-08), float64: (PI, 1.2246467991473532e-16)}
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
HALF_PI_PARTS = {float32: (1.5707963705062866, -4.371138828673793e-08), float64: HALF_PI[:2]}
QUARTER_PI_PARTS = {float32: (0.7853981852531433, -2.1855694143368964e-08), float64: (0.7853981633974483, 3.061616997868383e-17)}

# sin(f) = f + f**3 P(f**2), cos(f) = 1 - f**2 / 2 + f**4 P(f**2), tan(f) = f + f**3 P(f**2) for |f| <= pi / 4.
SIN = {
    float32: (-0.166666552, 0.00833217334, -0.000195166402),
    float64: (-0.16666666666666632, 0.00833333333332232, -0.00019841269829727395, 2.755731366250779e-06,
              -2.505075329910766e-08, 1.5896505422018423e-10),
}  # fmt: skip
COS = {
    float32: (0.0416666456, -0.00138873619, 2.44377443e-05),
    float64: (0.0416666666666666, -0.0013888888888874, 2.4801587289399328e-05, -2.7557314327252575e-07,
              2.087571971809161e-09, -1.1359456598366325e-11),
}  # fmt: skip
TAN = {
    float32: (0.333333522, 0.133325994, 0.054066781, 0.0212484207, 0.0109196734, -1.28258716e-05, 0.00442509539),
    float64: (0.333333333333327, 0.1333333333342519, 0.053968253921852255, 0.021869489719443674, 0.008863217671574357,
              0.003592302031944223, 0.0014546820954225489, 0.0005953732622492441, 0.0002214985653383194,
              0.00013828796279639923, -2.8802590662972647e-05, 9.161609557551679e-05, -4.6016268310534694e-05,
              2.1131044703307006e-05),
}  # fmt: skip
# atan(f) = f + f**3 P(f**2) for |f| <= 1 / 2.
ATAN = {
    float32: (-0.333333284, 0.199994981, -0.142722145, 0.109420471, -0.0798782781, 0.0387727059),
    float64: (-0.3333333333333299, 0.19999999999904958, -0.1428571427652927, 0.11111110665193547,
              -0.09090896369906497, 0.07692075684622525, -0.06663827038266852, 0.05858399999925961,
              -0.05122415371654852, 0.04187553620649756, -0.02745035022432746, 0.01012671083811355),
}  # fmt: skip
# asin(f) = f + f**3 P(f**2) for |f| <= 1 / 2.
ASIN = {
    float32: (0.166667536, 0.0749523416, 0.045478113, 0.0241422448, 0.0422282889),
    float64: (0.16666666666666763, 0.07499999999970108, 0.04464285717527707, 0.030381942675728107,
              0.02237221589305409, 0.017351595727518918, 0.013981015925459608, 0.011397312987068335,
              0.010789219160127782, 0.003672529088341149, 0.02178991633020015, -0.0211158386210437,
              0.032701707143422194),
}  # fmt: skip
# sinh(f) = f + f**3 P(f**2) for |f| <= 1.
SINH = {
    float32: (0.166666672, 0.00833335053, 0.000198360445, 2.81756638e-06),
    float64: (0.16666666666666666, 0.008333333333333333, 0.00019841269841269586, 2.7557319224121558e-06,
              2.5052108345329105e-08, 1.6059050746414792e-10, 7.646473648473506e-13, 2.8484714482448476e-15),
}  # fmt: skip
# tanh(f) = f + f**3 P(f**2) for |f| <= 0.55.
TANH = {
    float32: (-0.333333164, 0.13332592, -0.0538527146, 0.0210727025, -0.00627486361),
    float64: (-0.33333333333332316, 0.13333333333168745, -0.053968253875913384, 0.02186948596686173,
              -0.008863194349524412, 0.0035917181021899148, -0.0014532072999842145, 0.0005791046874821873,
              -0.00021024313842440127, 5.0976367650867935e-05),
}  # fmt: skip


def body(op: str):
    """Register a function as the body of `op`."""

    def register(function: Callable[..., Expr]) -> Callable[..., Expr]:
        BODIES[op] = function
        return function

    return register


def reduce_half_pi(x: Expr) -> tuple[Expr, Expr]:
    """(f, q) with x = q pi / 2 + f, |f| <= pi / 4: q an integer expression, right modulo 4. For |x| < FAR."""
    wide = cast(x, float64)
    rounded, quadrant = magic_round(wide, TWO_OVER_PI)
    f = fma(-rounded, HALF_PI[1], fma(-rounded, HALF_PI[0], wide))
    if x.dtype is float32:
        return cast(f, float32), cast(quadrant, int32)
    return fma(-rounded, HALF_PI[2], f), quadrant


#: Four zeros and 1212 bits of 2 / pi, in words of 64.
TWO_OVER_PI_WORDS = (
    0x0A2F9836E4E44152, 0x9FC2757D1F534DDC, 0x0DB6295993C43904, 0x1FE5163ABDEBBC56, 0x1B7246E3A424DD2E,
    0x006492EEA09D1921, 0xCFE1DEB1CB129A73, 0xEE88235F52EBB448, 0x4E99C7026B45F7E4, 0x13991D639835339F,
    0x49C845F8BBDF9283, 0xB1FF897FFDE05980, 0xFEF2F118B5A0A6D1, 0xF6D367ECF27CB09B, 0x74F463F669E5FEA2,
    0xD7527BAC7EBE5F17, 0xB3D0739F78A5292E, 0xA6BFB5FB11F8D5D0, 0x856033046FC7B6BA,
)  # fmt: skip


def _high_product(a: Expr, b: Expr) -> Expr:
    """The upper 64 bits of the 128 of a * b, both uint64."""
    a_high, a_low, b_high, b_low = a >> 32, a & 0xFFFFFFFF, b >> 32, b & 0xFFFFFFFF
    first = a_low * b_low
    second = a_high * b_low + (first >> 32)
    third = a_low * b_high + (second & 0xFFFFFFFF)
    return a_high * b_high + (second >> 32) + (third >> 32)


def reduce_far(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(f, f_low, q) with x = q pi / 2 + f + f_low for float64 x >= FAR, by Payne and Hanek's method.

    x is an integer m times a power of two, so all bits of 2 / pi that make multiples of 4 can be left out: m times
    the 192 bits behind them is the number of quarter turns, of which the first two bits are the quadrant.
    """
    pattern = bitcast(x, uint64)
    mantissa = (pattern & ((1 << 52) - 1)) | (1 << 52)
    start = (pattern >> 52) - (1075 + 2 - 4)  # the first bit of the words that counts
    window = [constant(word, uint64) for word in TWO_OVER_PI_WORDS]
    for step in (8, 4, 2, 1):
        chosen = ((start >> 6) & step) != 0
        window = [where(chosen, far, near) for near, far in zip(window[:-step], window[step:], strict=True)][: 3 + step]
    shift = start & 63
    high, middle, low = ((a << shift) | (b >> (64 - shift)) for a, b in itertools.pairwise(window[:4]))
    carried = _high_product(mantissa, low)
    lower = mantissa * middle + carried
    upper = mantissa * high + _high_product(mantissa, middle) + cast(lower < carried, uint64)
    quadrant = (upper + (1 << 61)) >> 62  # the nearest one
    upper = upper - (quadrant << 62)
    negative = (upper >> 63) != 0
    upper = where(negative, ~upper + cast(lower == 0, uint64), upper)
    lower = where(negative, -lower, lower)
    first, second = cast(upper >> 32, float64) * 2.0**-30, cast(upper & 0xFFFFFFFF, float64) * 2.0**-62
    third = fma(cast(lower & 0xFFFFFFFF, float64), 2.0**-126, cast(lower >> 32, float64) * 2.0**-94)
    total = first + second
    rest = ((first - total) + second) + third
    turns = total + rest
    turns_low = (total - turns) + rest
    f = exact_mul(turns, constant(HALF_PI[0], float64))
    f_low = fma(turns, HALF_PI[0], -f) + fma(turns, HALF_PI[1], turns_low * HALF_PI[0])
    return where(negative, -f, f), where(negative, -f_low, f_low), cast(quadrant, int64)


#: From here on too few bits of pi are at hand for the quick reduction.
FAR = 2.0**50


def odd_series(f: Expr, coefficients: tuple[float, ...]) -> Expr:
    """f + f**3 P(f**2)."""
    z = f * f
    return fma(f * z, polynomial(z, coefficients), f)


def sine_of(x: Expr, turn: int, flip: Expr | None) -> Expr:
    """sin(x + turn pi / 2), its sign flipped where the sign bit of `flip` is set."""
    near = turned_sine(*reduce_half_pi(x), turn)

    def far(x: Expr) -> Expr:
        f, _, quadrant = reduce_far(cast(abs(x), float64))
        sine = turned_sine(f, quadrant, turn)
        return where(abs(x) < INFINITY, cast(sine, x.dtype), NAN)

    sine = s.rarely(near, x, FAR, far)
    return sine if flip is None else bitcast(bits(sine) ^ flip, x.dtype)


def turned_sine(f: Expr, quadrant: Expr, turn: int) -> Expr:
    """sin(f + (quadrant + turn) pi / 2) for |f| <= pi / 4."""
    quadrant = quadrant + turn
    z = f * f
    sine = fma(f * z, polynomial(z, SIN[f.dtype]), f)
    cosine = fma(z * z, polynomial(z, COS[f.dtype]), fma(z, -0.5, 1.0))
    picked = bits(where((quadrant & 1) != 0, cosine, sine))
    return bitcast(picked ^ ((quadrant & 2) << (8 * f.dtype.itemsize - 2)), f.dtype)


def sign_mask(x: Expr) -> Expr:
    """The sign bit of x alone, as an integer."""
    integer = bits_dtype(x.dtype)
    return bits(x) & constant(-(1 << (8 * integer.itemsize - 1)), integer)


@body("sin")
def sin(node: Expr, x: Expr) -> Expr:
    return sine_of(abs(x), 0, sign_mask(x))


@body("cos")
def cos(node: Expr, x: Expr) -> Expr:
    return sine_of(x, 1, None)


@body("tan")
def tan(node: Expr, x: Expr) -> Expr:
    # The rounding errors of the reduction and of the sum are carried along, for the reciprocal would double them.
    wide = cast(x, float64)
    rounded, quadrant = magic_round(wide, TWO_OVER_PI)
    first = fma(-rounded, HALF_PI[0], wide)
    second = fma(-rounded, HALF_PI[1], first)
    if x.dtype is float32:
        f = cast(second, float32)
        f_low = cast(second - cast(f, float64), float32)
        quadrant = cast(quadrant, int32)
    else:
        f = second
        f_low = fma(-rounded, HALF_PI[2], fma(-rounded, HALF_PI[1], first - second))
    near = where(x == 0, x, turned_tangent(f, f_low, quadrant))

    def far(x: Expr) -> Expr:
        tangent = cast(turned_tangent(*reduce_far(cast(abs(x), float64))), x.dtype)
        return where(abs(x) < INFINITY, where(x < 0, -tangent, tangent), NAN)

    return s.rarely(near, x, FAR, far)


def turned_tangent(f: Expr, f_low: Expr, quadrant: Expr) -> Expr:
    """tan(f + f_low + quadrant pi / 2) for |f| <= pi / 4."""
    z = f * f
    tail = fma(f_low, z + 1, f * z * polynomial(z, TAN[f.dtype]))
    tangent = f + tail
    low = (f - tangent) + tail
    inverse = -1 / tangent
    error = fma(inverse, tangent, 1.0) + inverse * low
    cotangent = where(abs(inverse) < INFINITY, fma(inverse, error, inverse), inverse)
    return where((quadrant & 1) != 0, cotangent, tangent)


@body("sinc")
def sinc(node: Expr, x: Expr) -> Expr:
    product = x * PI
    return where(x == 0, 1.0, s.sin(product) / product)


def atan_positive(numerator: Expr, denominator: Expr, base: Expr, base_low: Expr) -> Expr:
    """base + atan(numerator / denominator), for a quotient of at most 1/2."""
    t = numerator / denominator
    z = t * t
    return base + (fma(t * z, polynomial(z, ATAN[t.dtype]), t) + base_low)


@body("atan")
def atan(node: Expr, x: Expr) -> Expr:
    dtype = x.dtype
    a = abs(x)
    large = a > 2.414213562373095
    middle = a > 0.5
    one, zero = constant(1, dtype), constant(0, dtype)
    numerator = where(large, -one, where(middle, a - 1, a))
    denominator = where(large, a, where(middle, a + 1, one))
    base, low = (where(large, half, where(middle, quarter, zero))
                 for half, quarter in zip(HALF_PI_PARTS[dtype], QUARTER_PI_PARTS[dtype], strict=True))  # fmt: skip
    return s.copysign(atan_positive(numerator, denominator, base, low), x)


@body("atan2")
def atan2(node: Expr, y: Expr, x: Expr) -> Expr:
    dtype = x.dtype
    ax, ay = abs(x), abs(y)
    high, low = where(ay > ax, ay, ax), where(ay > ax, ax, ay)
    huge = high > {float32: 1e38, float64: 1e308}[dtype]
    scale = where(huge & (high < INFINITY), 0.25, constant(1, dtype))
    high, low = high * scale, low * scale
    equal = high == low  # also two infinities, whose quotient is NaN
    middle = low > high * 0.5
    one, zero = constant(1, dtype), constant(0, dtype)
    numerator = where(equal, zero, where(middle, low - high, low))
    denominator = where(equal, one, where(middle, high + low, high))
    diagonal = middle | (equal & (high > 0))
    quarter, quarter_low = QUARTER_PI_PARTS[dtype]
    angle = atan_positive(numerator, denominator, where(diagonal, quarter, zero), where(diagonal, quarter_low, zero))
    half, half_low = HALF_PI_PARTS[dtype]
    angle = where(ay > ax, (half - angle) + half_low, angle)
    pi, pi_low = PI_PARTS[dtype]
    angle = where(s.signbit(x), (pi - angle) + pi_low, angle)
    return where(s.isnan(x) | s.isnan(y), x + y, s.copysign(angle, y))


def _asin_parts(a: Expr) -> tuple[Expr, Expr, Expr]:
    """(small, root, tail): asin(...) = root + tail; for a <= 1/2 root is a, beyond it is sqrt((1 - a) / 2)."""
    small = a <= 0.5
    z = where(small, a * a, fma(a, -0.5, 0.5))
    root = where(small, a, s.sqrt(z))
    missing = where(small | (root == 0), 0.0, fma(-root, root, z) / (2 * root))  # what the square root rounded off
    return small, root, fma(root * z, polynomial(z, ASIN[a.dtype]), missing)


@body("asin")
def asin(node: Expr, x: Expr) -> Expr:
    small, root, tail = _asin_parts(abs(x))
    half, low = HALF_PI_PARTS[x.dtype]
    return s.copysign(where(small, root + tail, (half - 2 * root) - (2 * tail - low)), x)


@body("acos")
def acos(node: Expr, x: Expr) -> Expr:
    small, root, tail = _asin_parts(abs(x))
    half, half_low = HALF_PI_PARTS[x.dtype]
    pi, pi_low = PI_PARTS[x.dtype]
    near_zero = half - (s.copysign(root, x) + (s.copysign(tail, x) - half_low))
    twice = 2 * (root + tail)
    return where(small, near_zero, where(x < 0, pi - (twice - pi_low), twice))


@body("sinh")
def sinh(node: Expr, x: Expr) -> Expr:
    a = abs(x)
    power = half_exp(a)
    large = power - 0.25 / power
    return where(a < 1, odd_series(x, SINH[x.dtype]), s.copysign(large, x))


@body("cosh")
def cosh(node: Expr, x: Expr) -> Expr:
    power = half_exp(abs(x))
    return power + 0.25 / power


@body("tanh")
def tanh(node: Expr, x: Expr) -> Expr:
    # 1 - 2 e / (1 + e) with e = exp(-2a), which loses digits only near 0
    a = abs(x)
    _, fraction, k = exp_reduced(bounded(a * -2, {float32: -20.0, float64: -42.0}[x.dtype], 0.0))
    power = power_of_two(k, x.dtype)
    e = fma(power, fraction, power)
    return s.copysign(where(a < 0.55, odd_series(a, TANH[x.dtype]), 1 - 2 * e / (1 + e)), x)


def _log1p_wide(x: Expr, add: Expr) -> Expr:
    """log(1 + x) + add * ln 2 for x >= 0; an infinite x gives infinity."""
    dtype = x.dtype
    k, _ = split_exponent(x + 1)
    scale = power_of_two(2 - k, dtype) * 0.25
    f = fma(x, scale, scale - 1)
    return where(x < INFINITY, log_fraction(f, to_float(k, dtype) + add, LN2[dtype]), x)


@body("asinh")
def asinh(node: Expr, x: Expr) -> Expr:
    a = abs(x)
    large = a > {float32: 1e8, float64: 1e16}[x.dtype]
    square = a * a
    inner = where(large, a, a + square / (1 + s.sqrt(square + 1)))
    return s.copysign(_log1p_wide(inner, where(large, 1.0, constant(0, x.dtype))), x)


@body("acosh")
def acosh(node: Expr, x: Expr) -> Expr:
    large = x > {float32: 1e8, float64: 1e16}[x.dtype]
    t = x - 1
    inner = where(large, x, t + s.sqrt(fma(t, t, 2 * t)))
    return where(x < 1, NAN, _log1p_wide(inner, where(large, 1.0, constant(0, x.dtype))))


@body("atanh")
def atanh(node: Expr, x: Expr) -> Expr:
    a = abs(x)
    inner = _log1p_wide(2 * a / (1 - a), constant(0, x.dtype)) * 0.5
    return s.copysign(where(a > 1, NAN, inner), x)
