"""Bodies of the error, gamma and Bessel functions, for real dtypes.

float32 versions of the slower functions work in double precision inside. Polynomials are minimax fits made for this
file. Stands on ir.scalar and ir.elementary. Used through ir.functions.
"""

from __future__ import annotations

from collections.abc import Callable

from flambeau.base.dtype import float32, float64
from flambeau.ir import scalar as s
from flambeau.ir.elementary import (
    EXP,
    EXP2,
    EXP_RANGE,
    INFINITY,
    LOG2_E,
    NAN,
    bounded,
    exp_reduced,
    polynomial,
    rounded_power,
    scale_by_power,
)
from flambeau.ir.scalar import Expr, cast, constant, exact_mul, fma, where
from flambeau.ir.trigonometric import reduce_half_pi, turned_sine

BODIES: dict[str, Callable[..., Expr]] = {}

# erf(x) = x + x P(x**2) for |x| <= 1.
ERF = {
    float32: (0.128379166, -0.37612626, 0.112835981, -0.0268543586, 0.00518935081, -0.000801903196, 7.88252437e-05),
    float64: (0.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076886,
              0.005223977624818235, -0.0008548326980807044, 0.00012055331109263404, -1.4925595176815784e-05,
              1.6460998528776505e-06, -1.6350286721480898e-07, 1.465956639672153e-08, -1.1371914115633335e-09,
              5.955387219592772e-11),
}  # fmt: skip
# exp(x**2) erfc(x) = P(u - 1/2) with u = 1 / (1 + 0.4 x) for 1 <= x <= 6, where erf reaches 1.
ERF_TAIL_64 = (
    0.21080636406114797,
    0.7434734678985949,
    1.0068527728171104,
    1.0002644198106658,
    0.6387606412920994,
    0.1277978386041466,
    -0.16910511449170743,
    -0.11212604876196332,
    0.05808130096427305,
    0.06982884572957629,
    -0.05215769841952712,
)
# -log(erfc(x)) for 0.95 <= x <= 4, where float32's erf reaches 1.
ERF_TAIL = (-0.00018344268, 1.12955678, 0.633262575, 0.108372517, -0.0251790062, 0.00419363007, -0.000439111231,
            2.14966149e-05)  # fmt: skip


def body(op: str):
    """Register a function as the body of `op`."""

    def register(function: Callable[..., Expr]) -> Callable[..., Expr]:
        BODIES[op] = function
        return function

    return register


def wide(function: Callable[[Expr], Expr]) -> Callable[..., Expr]:
    """A body for float64 that float32 shares by widening."""

    def apply(node: Expr, x: Expr) -> Expr:
        return cast(function(cast(x, float64)), node.dtype)

    apply.__name__ = function.__name__
    return apply


@body("erf")
def erf(node: Expr, x: Expr) -> Expr:
    dtype = x.dtype
    a = abs(x)
    inner = fma(x, polynomial(x * x, ERF[dtype]), x)
    if dtype is float32:
        outer = 1 - s.exp(-polynomial(bounded(a, 0.0, 4.0), ERF_TAIL))
    else:
        bound = bounded(a, 0.5, 6.0)
        down = fma(bound, 0.4, 1.0)
        u = 1 / down
        z = fma(u, fma(-u, down, 1.0), u - 0.5)  # with what the division rounded off
        outer = fma(-s.exp(-(bound * bound)), polynomial(z, ERF_TAIL_64), 1.0)
    return where(a < 1, inner, s.copysign(outer, x))


# -log2(Phi(-a)) for 0 <= a <= 5.6, beyond which float32's 1 - Phi(-a) is 1: Phi and a Phi to 2e-8 (weighted least squares,
# reweighted towards the largest error after Lawson).
NORMAL_TAIL = (
    0.99999994,
    1.1511075496673584,
    0.459187775850296,
    0.05256251245737076,
    -0.0071654003113508224,
    0.00021902669686824083,
    0.00015079152944963425,
    -3.168020339217037e-05,
    2.1745727281086147e-06,
)


def _normal_tail(a: Expr) -> Expr:
    """Phi(-a) for a >= 0 (float32); what counts for nothing beside 1 is 0."""
    power = polynomial(a, tuple(-c for c in NORMAL_TAIL))
    rounded, whole = rounded_power(power, 1.0)
    tail = polynomial(power - rounded, (1.0, *EXP2[float32])) * whole
    return where(a > 5.6, 0.0 * constant(1, float32), tail)


@body("normal_cdf")
def normal_cdf(node: Expr, x: Expr) -> Expr:
    if x.dtype is float64:
        return 0.5 * (1 + s.erf(x * 0.7071067811865476))
    tail = _normal_tail(abs(x))
    return where(x > 0, 1 - tail, tail)


@body("gelu")
def gelu(node: Expr, x: Expr) -> Expr:
    if x.dtype is float64:
        return x * s.normal_cdf(x)
    a = abs(x)
    lost = where(a > 5.6, 0.0 * constant(1, float32), a * _normal_tail(a))
    return where(x > 0, x, 0.0 * x) - lost


# (1 + 2 a) exp(a**2) erfc(a) for a >= 0, as a polynomial of t = (a - 4) / (a + 4).
ERFCX = (
    1.2329951186255526,
    -0.1396211168405623,
    0.015379652102619299,
    0.06809705425467008,
    -0.10103906603628586,
    0.09373283499906844,
    -0.06633036581246346,
    0.03716751552686837,
    -0.016197734057115037,
    0.0050319700655670225,
    -0.0007577732767345433,
    -0.000199257138076685,
    0.00015062154569833416,
    -2.4397768788811048e-05,
    -1.1221419807378274e-05,
    5.706642826353609e-06,
    2.921844732652509e-07,
    -8.211369027102879e-07,
    7.72483058218383e-08,
    1.0636877276556222e-07,
    -2.0413183315297312e-08,
    -1.2358967677228258e-08,
    3.1132389723637394e-09,
    9.33281453898935e-10,
    -2.565423270301044e-10,
)


def erfcx_positive(a: Expr) -> tuple[Expr, Expr]:
    """exp(a**2) erfc(a) for a >= 0 as a sum of two numbers (float64)."""
    up, down = a + 4, a - 4
    t = down / up
    t = t + fma(-t, up, down) / up
    numerator = polynomial(t, ERFCX)
    denominator = fma(a, 2.0, 1.0)
    quotient = numerator / denominator
    return quotient, fma(-quotient, denominator, numerator) / denominator


def erfc_positive(a: Expr) -> Expr:
    """erfc(a) for a >= 0 (float64)."""
    a = bounded(a, 0.0, 28.0)
    square = exact_mul(a, a)
    rest = fma(a, a, -square)  # exp(-a * a) would magnify the rounding of the square
    f, _, k = exp_reduced(-square)
    f = f - rest
    quotient, low = erfcx_positive(a)
    fraction = fma(polynomial(f, EXP[float64]), f * f, f)
    return scale_by_power(quotient + fma(quotient, fraction, low), k)


# exp(a**2) erfc(a) = u P(u) with u = 1 / (1 + 0.3 a) for 0 <= a <= 10.6, and 2**f for |f| <= 1 / 2: enough for float32.
ERFC_32 = (
    0.16927799928990814,
    0.1687548669627547,
    0.16693046692698785,
    0.11380741374485523,
    0.25491151876928086,
    -0.2556403429763268,
    0.7323351594569313,
    -0.799793742529201,
    0.7186127012080613,
    -0.32338542191303987,
    0.054189380482583635,
)
POWER_32 = (
    1.0000000005543046,
    0.6931472057367984,
    0.2402264688960848,
    0.05550328777720233,
    0.009618489068086355,
    0.0013399930976656753,
    0.00015345782153244327,
)


def _erfc_32(x: Expr) -> Expr:
    """erfc(x) in float64, as good as float32 can tell."""
    a = bounded(abs(x), 0.0, 10.6)
    u = 1 / fma(a, 0.3, 1.0)
    power = (a * a) * -LOG2_E
    rounded, whole = rounded_power(power, 1.0)
    tail = polynomial(u, ERFC_32) * u * (polynomial(power - rounded, POWER_32) * whole)
    return where(x < 0, 2 - tail, tail)


@body("erfc")
def erfc(node: Expr, x: Expr) -> Expr:
    if x.dtype is float32:
        return cast(_erfc_32(cast(x, float64)), float32)
    tail = erfc_positive(abs(x))
    central = 1 - fma(x, polynomial(x * x, ERF[float64]), x)
    return where(abs(x) < 0.5, central, where(x < 0, 2 - tail, tail))


@body("erfcx")
def erfcx(node: Expr, x: Expr) -> Expr:
    wide_x = cast(x, float64)
    a = abs(wide_x)
    inside = s.add(*erfcx_positive(bounded(a, 0.0, 1e8)))
    inside = where(a > 1e8, 0.5641895835477563 / a, inside)
    square = exact_mul(wide_x, wide_x)
    growth = s.exp(square)
    growth = where(growth < INFINITY, fma(growth, fma(wide_x, wide_x, -square), growth), growth)
    return cast(where(wide_x < 0, 2 * growth - inside, inside), node.dtype)


# The quantile of the normal distribution by quotients of polynomials (M. Wichura, "Algorithm AS 241: the percentage points of
# the normal distribution", 1988): of 0.425**2 - q**2 for |q| <= 0.425 beside 1/2; of r - 1.6 and, beyond 5, r - 5 for r =
# sqrt(-log(p)). Numerators are here those of what is to be added to 3 q, or r; and of the same for erfinv.
QUANTILE_CENTRE = (
    0.38713287279636655,
    6.201675786981646,
    -89.97007216962231,
    -2450.8942987647924,
    -17719.42897320992,
    -50657.91647326942,
    -52756.6816235777,
    -13170.40490782844,
)
ERFINV_CENTRE = (
    0.19753231156709122,
    4.759357410783068,
    9.875657851838062,
    -539.3091320403626,
    -4977.931786419022,
    -15525.85441797832,
    -16909.59238865965,
    -4339.4012092274,
)
CENTRE_BELOW = (
    1.0,
    42.31333070160091,
    687.187007492058,
    5394.196021424751,
    21213.794301586597,
    39307.89580009271,
    28729.085735721943,
    5226.495278852855,
)
QUANTILE_TAIL = (
    -0.17656288925031652,
    0.3452312435361312,
    1.0340898665288458,
    0.8678357586032407,
    0.3437245551833003,
    0.0693588822481842,
    0.006649028332053472,
    0.0002269495245786922,
    -1.0507500716444169e-09,
)
ERFINV_TAIL = (
    -0.5934779663963121,
    -1.010963312418408,
    -0.6557567456000464,
    -0.2005942789799146,
    -0.028384051745587696,
    -0.001457052596090057,
    -6.631770671522954e-06,
    9.05422307972923e-08,
    -1.0507500716444169e-09,
)
TAIL_BELOW = (
    1.0,
    2.053191626637759,
    1.6763848301838038,
    0.6897673349851,
    0.14810397642748008,
    0.015198666563616457,
    0.0005475938084995345,
    1.0507500716444169e-09,
)
QUANTILE_FAR = (
    1.6579046435011033,
    1.4646238783846743,
    0.5003449287477243,
    0.085253884451516,
    0.007722482579997443,
    0.00036347590036696234,
    7.941616633176104e-06,
    5.88822538762687e-08,
    -2.0442631033899397e-15,
)
ERFINV_FAR = (
    -0.29215047808696665,
    -0.1356816711505565,
    -0.022418661552328162,
    -0.0016066960044928773,
    -4.8615812610009665e-05,
    -4.910644073062413e-07,
    -3.457520321139598e-10,
    9.225662560335049e-13,
    -2.0442631033899397e-15,
)
FAR_BELOW = (
    1.0,
    0.599832206555888,
    0.1369298809227358,
    0.014875361290850615,
    0.0007868691311456133,
    1.8463183175100548e-05,
    1.421511758316446e-07,
    2.0442631033899397e-15,
)


def _quotient(x: Expr, above: tuple[float, ...], below: tuple[float, ...]) -> Expr:
    return polynomial(x, above) / polynomial(x, below)


def _quantile_tail(near: Expr, y: Expr, tail: tuple[float, ...], far: tuple[float, ...]) -> Expr:
    """The size of a quantile whose probability is y, where that is not `near` 1/2 (float64)."""
    r = s.sqrt(-s.log(where(near, 0.05, y)))

    def beyond(r: Expr) -> Expr:
        return where(r < INFINITY, r + _quotient(bounded(r, 5.0, 28.0) - 5, far, FAR_BELOW), r)

    return s.rarely(r + _quotient(bounded(r, 1.0, 5.0) - 1.6, tail, TAIL_BELOW), r, 5.0, beyond)


@body("normal_quantile")
@wide
def normal_quantile(p: Expr) -> Expr:
    q = p - 0.5
    near = abs(q) <= 0.425
    tail = _quantile_tail(near, where(q < 0, p, 1 - p), QUANTILE_TAIL, QUANTILE_FAR)
    return where(near, q * (_quotient(fma(-q, q, 0.180625), QUANTILE_CENTRE, CENTRE_BELOW) + 3), where(q < 0, -tail, tail))


# erfinv(x) / x as polynomials of w - 2.5 for w = -log(1 - x**2) < 5, and of w - 10.85 beyond, good to 6e-9: enough for
# float32.
ERFINV_NEAR_32 = (
    1.5014093591486015,
    0.24664028640904764,
    -0.004177386724049947,
    -0.0012527422187213822,
    0.0002183444055453669,
    -4.963193691922283e-06,
    -3.462695078060296e-06,
    4.6614273880533214e-07,
    2.3231707890758457e-08,
    -8.789334982051145e-09,
)
ERFINV_FAR_32 = (
    3.128060535077235,
    0.1526609012744257,
    -0.0034045435240379206,
    0.00014521129115999218,
    -7.087104516540479e-06,
    3.0201491425228657e-07,
    -4.221473186397399e-09,
    -1.116399112830466e-09,
    2.376258209299542e-10,
    -3.274240687606289e-11,
    1.923072812104465e-12,
)


def _erfinv_32(x: Expr) -> Expr:
    a = abs(x)
    w = cast(-s.log((1 - a) * (1 + a)), float64)
    factor = s.rarely(polynomial(w - 2.5, ERFINV_NEAR_32), w, 5.0, lambda w: polynomial(w - 10.85, ERFINV_FAR_32))
    y = cast(cast(a, float64) * factor, float32)
    return s.copysign(where(a < 1, y, where(a == 1, INFINITY, NAN * constant(1, float32))), x)


@body("erfinv")
def erfinv(node: Expr, x: Expr) -> Expr:
    if x.dtype is float32:
        return _erfinv_32(x)
    a = abs(x)
    near = a <= 0.85
    centre = fma(a, _quotient(fma(a * -0.25, a, 0.180625), ERFINV_CENTRE, CENTRE_BELOW), a)
    return s.copysign(where(near, centre, _quantile_tail(near, (1 - a) * 0.5, ERFINV_TAIL, ERFINV_FAR)), x)


# ------------------------------------------------------------------------------------------------------------ gamma

HALF_LOG_TWO_PI = 0.9189385332046727
PI = 3.141592653589793
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
# log(Gamma(2 + u)) = u P(u) for |u| <= 1/2.
LGAMMA = (
    0.42278433509846713,
    0.32246703342411326,
    -0.06735230105319819,
    0.020580808427780196,
    -0.007385551028663762,
    0.0028905103310453745,
    -0.0011927539121815507,
    0.0005096695151116786,
    -0.00022315474702883336,
    9.945767782622719e-05,
    -4.4926394072614814e-05,
    2.0505556462196405e-05,
    -9.438166903834635e-06,
    4.38486069921311e-06,
    -2.0460751134955274e-06,
    9.196761402024768e-07,
    -4.278908277858884e-07,
    2.791134210355272e-07,
    -1.3632031409628998e-07,
)
TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
            43867 / 798)  # fmt: skip


# sin(pi r) = r P(r**2) for |r| <= 1/2.
SINE_PI = (
    3.141592653589793,
    -5.167712780049969,
    2.550164039877294,
    -0.5992645293187383,
    0.0821458865698928,
    -0.007370430478762053,
    0.00046629968876507827,
    -2.190318539135527e-05,
    7.694726975697107e-07,
)


def _distance_sine(x: Expr) -> Expr:
    """|sin(pi x)| without loss near integers."""
    rest = x - s.round(x)
    return abs(rest * polynomial(rest * rest, SINE_PI))


def _sine_pi(x: Expr) -> tuple[Expr, Expr]:
    """(sin(pi r), cos(pi r)) for r = x - round(x)."""
    reduced = reduce_half_pi((x - s.round(x)) * PI)
    return turned_sine(*reduced, 0), turned_sine(*reduced, 1)


@body("lgamma")
@wide
def lgamma(x: Expr) -> Expr:
    """By recurrence into [1.5, 2.5], where it is u P(u), u = |x| - 2; Stirling's series from 8 on; reflected below zero."""
    one = constant(1, float64)
    a, negative = abs(x), x < 0
    tiny, small, large = a < 0.5, a < 1.5, a >= 8
    u = where(tiny, a, where(small, a - 1, a - 2))
    down = one
    for _ in range(6):
        larger = u > 0.5
        down = where(larger, down * (u + 1), down)
        u = where(larger, u - 1, u)

    def reflected(x: Expr, a: Expr, down: Expr) -> Expr:
        """What the recurrence and the reflection divide by."""
        return _distance_sine(x) * where(a < 1.5, one, a * down) / where(a < 0.5, fma(a, PI, PI), PI)

    factor = where(large, a, where(tiny, fma(a, a, a), where(small, a, down)))
    factor = s.sometimes(factor, negative & ~large, reflected, x, a, down)
    logarithm = s.log(factor)
    term = where(large, 0.0, u) * polynomial(where(large, 0.0, u), LGAMMA)
    near = where(negative, -term, term) + where(negative | small, -logarithm, logarithm)
    inverse = 1 / where(large, a, 8.0)
    series = fma(inverse, polynomial(inverse * inverse, STIRLING), HALF_LOG_TWO_PI)
    far = where(a < INFINITY, fma(a - 0.5, logarithm, -a) + series, a)
    result = where(large, far, near)

    def far_below(size: Expr, x: Expr, far: Expr) -> Expr:
        return where(s.trunc(x) == x, INFINITY, -s.log(_distance_sine(x) * size * (1 / PI)) - far)

    return s.rarely(result, where(negative, a, 0.0), 8.0, far_below, x, result)


@body("digamma")
@wide
def digamma(x: Expr) -> Expr:
    positive = x > 0
    y = where(positive, x, 1 - x)
    numerator, denominator, shifted = constant(1, float64), y, y
    for _ in range(7):  # numerator / denominator = 1 / y + 1 / (y + 1) + ...
        shifted = shifted + 1
        numerator, denominator = fma(numerator, shifted, denominator), denominator * shifted
    large = y >= 8
    sum_ = where(large, 0.0, numerator / where(large, 1.0, denominator))
    y = where(large, y, y + 8)
    inverse = 1 / y
    square = inverse * inverse
    result = s.log(y) - fma(square, polynomial(square, DIGAMMA), inverse * 0.5) - sum_
    sine, cosine = _sine_pi(x)
    reflected = result - PI * cosine / sine
    reflected = where(x == 0, s.copysign(INFINITY, -x), where(s.trunc(x) == x, NAN, reflected))
    return where(positive, result, where(s.isnan(x), x, reflected))


@body("trigamma")
def trigamma(node: Expr, narrow: Expr) -> Expr:
    # Below zero the sine is of pi * x as rounded in the operand's precision, by which PyTorch is finite at negative integers.
    x = cast(narrow, float64)
    sine = where(x > 0, _sine_pi(x)[0], s.sin(cast(narrow * constant(PI, narrow.dtype), float64)))
    positive = x >= 0.5
    y = where(positive, x, 1 - x)
    sum_ = constant(0, float64)
    shifted = y
    for _ in range(4):  # two reciprocal squares to a division
        first, second = shifted * shifted, (shifted + 1) * (shifted + 1)
        sum_ = sum_ + (first + second) / (first * second)
        shifted = shifted + 2
    large = y >= 8
    sum_ = where(large, 0.0, sum_)
    inverse = 1 / where(large, y, y + 8)
    square = inverse * inverse
    result = sum_ + inverse * fma(square, polynomial(square, TRIGAMMA), fma(inverse, 0.5, 1.0))
    reflected = (PI * PI) / (sine * sine) - result
    return cast(where(positive, result, where(s.isnan(x), x, reflected)), node.dtype)


# ----------------------------------------------------------------------------------------------------------- Bessel


# exp(-a) I0(a) and exp(-a) I1(a) / a by a / 4 - 1 on [0, 8]; times sqrt(a) by 16 / a - 1 beyond.
I0_NEAR = (
    0.2070019212239867,
    -0.1130043268862054,
    0.09451562853995185,
    -0.08904344136077189,
    0.08734341617546694,
    -0.08496338091563031,
    0.07927522590866962,
    -0.06954119562796764,
    0.05677703199893657,
    -0.04298594933178526,
    0.03017791219739028,
    -0.019682655570427275,
    0.011960076970877608,
    -0.006792395679395667,
    0.0036171298491180478,
    -0.001811900622273657,
    0.0008563066920232738,
    -0.0003828698900544099,
    0.00016242064523153553,
    -6.556197061705551e-05,
    2.5183421707466984e-05,
    -9.189192583154644e-06,
    3.2454302793631295e-06,
    -1.1388814827310406e-06,
    3.5864363204632654e-07,
    -8.698821643244911e-08,
    2.9185994902604455e-08,
    -1.6154163960969946e-08,
    4.045158952281227e-09,
)
I1_NEAR = (
    0.044687709875608835,
    -0.06112433802966629,
    0.0680575999095117,
    -0.06848260620582587,
    0.06376740371339987,
    -0.05528003922703132,
    0.04467457262145694,
    -0.03367135552038778,
    0.023686016954845856,
    -0.015571309250858817,
    0.009583962175195993,
    -0.005534567805427497,
    0.003005762286090129,
    -0.0015388747321869551,
    0.0007445128378659852,
    -0.00034117556022689004,
    0.00014841998020801998,
    -6.142449754537706e-05,
    2.423602231625867e-05,
    -9.13536128837836e-06,
    3.2910486779554127e-06,
    -1.1337697846616743e-06,
    3.7838812833256957e-07,
    -1.2362867915908976e-07,
    3.665491921317884e-08,
    -9.195201995883313e-09,
    3.0562185292476522e-09,
    -1.3850953764475643e-09,
    3.0635002561671044e-10,
)
I0_FAR = (
    0.4021765094450081,
    0.0033605519836676844,
    0.00013621607438061417,
    1.1143033805580978e-05,
    1.4838480456081252e-06,
    2.973594977238436e-07,
    8.871426239610413e-08,
    3.9329969039470665e-08,
    2.161589933646529e-08,
    7.528421239375834e-09,
    -7.085048695897819e-09,
    -1.3306434066671184e-08,
    -4.342183646337898e-09,
    7.29519788487607e-09,
    5.243230895056672e-09,
    -3.0813009859259727e-09,
    -2.977316825677329e-09,
    1.0623341295657376e-09,
    9.940862728527254e-10,
    -2.611993517731566e-10,
    -1.523508436408158e-10,
    3.2621722566402824e-11,
)
I1_FAR = (
    0.3893984590258723,
    -0.009749577193235574,
    -0.0002192357638220903,
    -1.5038547214008971e-05,
    -1.8349106326935237e-06,
    -3.4838524497101725e-07,
    -1.0000461636680768e-07,
    -4.313295789642377e-08,
    -2.3444252302911723e-08,
    -8.403705884755049e-09,
    7.085776084059668e-09,
    1.3940422446967398e-08,
    4.868256573024915e-09,
    -7.406871808708745e-09,
    -5.611886264487892e-09,
    3.037776159864657e-09,
    3.1457623982287925e-09,
    -1.0201312920743355e-09,
    -1.0442161062382677e-09,
    2.4579986746860224e-10,
    1.5955057278963186e-10,
    -3.027767833157808e-11,
)


def _bessel_scaled(a: Expr, near: tuple[float, ...], far: tuple[float, ...], times_a: bool) -> Expr:
    """exp(-a) I(a): a polynomial of a / 4 - 1 up to 8, of 16 / a - 1 over sqrt(a) beyond."""
    close = a <= 8
    small = polynomial(fma(where(close, a, 8.0), 0.25, -1.0), near)
    if times_a:
        small = small * a
    beyond = where(close, 8.0, a)
    large = polynomial(16 / beyond - 1, far) / s.sqrt(beyond)
    return where(close, small, where(s.isnan(a), a, large))


def _unscaled(a: Expr, scaled: Expr) -> Expr:
    """scaled * exp(a), where exp(a) alone may overflow; NaN at infinity, as in PyTorch."""
    low, high = EXP_RANGE[float64]
    _, fraction, k = exp_reduced(bounded(a, low, high + 20))
    made = where(a > 800, INFINITY, scale_by_power((fraction + 1) * scaled, k))
    return where(a == INFINITY, NAN, made)


def _odd(value: Expr, x: Expr) -> Expr:
    """value with the sign of x; 0.0 at -0.0, as in PyTorch."""
    return where(x < 0, -value, value)


@body("i0e")
@wide
def i0e(x: Expr) -> Expr:
    return _bessel_scaled(abs(x), I0_NEAR, I0_FAR, False)


@body("i0")
@wide
def i0(x: Expr) -> Expr:
    a = abs(x)
    return _unscaled(a, _bessel_scaled(a, I0_NEAR, I0_FAR, False))


@body("i1e")
@wide
def i1e(x: Expr) -> Expr:
    return _odd(_bessel_scaled(abs(x), I1_NEAR, I1_FAR, True), x)


@body("i1")
@wide
def i1(x: Expr) -> Expr:
    a = abs(x)
    return _odd(_unscaled(a, _bessel_scaled(a, I1_NEAR, I1_FAR, True)), x)
