"""Bodies of complex operations, as pairs of real expressions.

Every body takes its node and expanded arguments; complex ones are complex(re, im). Stands on ir.scalar. Used through
ir.functions, which expands the real expressions further.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from flambeau.base.dtype import bool_, float32, float64
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr, cast, complex_, constant, exact_mul, imag, part_dtype, real, where

LN_2 = 0.6931471805599453
HALF_PI = 1.5707963267948966
INFINITY, NAN = float("inf"), float("nan")

BODIES: dict[str, Callable[..., Expr]] = {}


def body(op: str):
    """Register a function as the complex body of `op`."""

    def register(function: Callable[..., Expr]) -> Callable[..., Expr]:
        BODIES[op] = function
        return function

    return register


def parts(x: Expr) -> tuple[Expr, Expr]:
    """Real and imaginary part; of a constant, constants."""
    if x.op == "constant":
        part = part_dtype(x.dtype)
        return constant(x.value.real, part), constant(x.value.imag, part)
    return real(x), imag(x)


def _times(size: Expr, wave: Expr) -> Expr:
    """size * wave, where 0 times infinity or NaN is 0; not reordered, as it may be finite where size times more is not."""
    zero = where(s.signbit(size) ^ s.signbit(wave), -0.0, 0.0 * constant(1, size.dtype))
    return where((size == 0) | (wave == 0), zero, exact_mul(size, wave))


def _i_times(x: Expr) -> Expr:
    re, im = parts(x)
    return complex_(-im, re)


def _minus_i_times(x: Expr) -> Expr:
    re, im = parts(x)
    return complex_(im, -re)


@body("real")
def _real(node: Expr, x: Expr) -> Expr:
    return parts(x)[0] if x.op in ("complex", "constant") else node


@body("imag")
def _imag(node: Expr, x: Expr) -> Expr:
    return parts(x)[1] if x.op in ("complex", "constant") else node


@body("cast")
def _cast(node: Expr, x: Expr) -> Expr:
    target = node.dtype
    if not target.is_complex:
        re, im = parts(x)
        return (re != 0) | (im != 0) if target is bool_ else cast(re, target)
    part = part_dtype(target)
    if not x.dtype.is_complex:
        return complex_(cast(x, part), constant(0, part))
    re, im = parts(x)
    return complex_(cast(re, part), cast(im, part))


@body("where")
def _where(node: Expr, condition: Expr, a: Expr, b: Expr) -> Expr:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return complex_(where(condition, ar, br), where(condition, ai, bi))


@body("eq")
def _eq(node: Expr, a: Expr, b: Expr) -> Expr:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return (ar == br) & (ai == bi)


@body("ne")
def _ne(node: Expr, a: Expr, b: Expr) -> Expr:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return (ar != br) | (ai != bi)


@body("neg")
def _neg(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    return complex_(_zero_less(re), _zero_less(im))


def _zero_less(part: Expr) -> Expr:
    """0 - part, which makes 0 of 0, as PyTorch negates complex numbers."""
    return where(part == 0, 0.0, -part)


@body("conj")
def _conj(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    return complex_(re, -im)


@body("add")
def _add(node: Expr, a: Expr, b: Expr) -> Expr:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return complex_(ar + br, ai + bi)


@body("sub")
def _sub(node: Expr, a: Expr, b: Expr) -> Expr:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return complex_(ar - br, ai - bi)


@body("mul")
def _mul(node: Expr, a: Expr, b: Expr) -> Expr:
    # No product is fused with the sum: z times its conjugate is real.
    (ar, ai), (br, bi) = parts(a), parts(b)
    return complex_(exact_mul(ar, br) - exact_mul(ai, bi), exact_mul(ar, bi) + exact_mul(ai, br))


@body("div")
def _div(node: Expr, a: Expr, b: Expr) -> Expr:
    # Scaled by the larger part of the divisor, as PyTorch does, so that its square does not overflow.
    (ar, ai), (br, bi) = parts(a), parts(b)
    # An infinite divisor is replaced by its direction, so that it makes zeros of finite dividends.
    # Zero divides both parts.
    scale = s.maximum(abs(br), abs(bi))
    zero, infinite = scale == 0, s.isinf(scale)
    unit = where(zero | infinite, 1.0, scale)
    cr, ci = (where(infinite, s.copysign(where(s.isinf(part), 1.0, 0.0 * unit), part), part / unit) for part in (br, bi))
    cr = where(zero, 1.0, cr)
    norm = cr * cr + ci * ci
    return complex_((ar * cr + ai * ci) / norm / scale, (ai * cr - ar * ci) / norm / scale)


@body("reciprocal")
def _reciprocal(node: Expr, x: Expr) -> Expr:
    # Smith's quotient, whose zeros have PyTorch's signs.
    re, im = parts(x)
    zero, wide = (re == 0) & (im == 0), abs(re) >= abs(im)
    safe = where(zero, 1.0, where(wide, re, im))
    ratio = where(wide, im, re) / safe
    norm = where(wide, re, im) + where(wide, im, re) * ratio
    first, second = where(wide, 1.0, ratio + 0.0), where(wide, 0.0 - ratio, 0.0 * ratio - 1.0)
    return complex_(where(zero, INFINITY, first / norm), where(zero, NAN, second / norm))


@body("abs")
def _abs(node: Expr, x: Expr) -> Expr:
    return s.hypot(*parts(x))


@body("sign")
def _sign(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    size = s.hypot(re, im)
    safe = where(size == 0, 1.0, size)
    return complex_(where(size == 0, 0.0, re / safe), where(size == 0, 0.0, im / safe))


def _exp_in_two(x: Expr) -> tuple[Expr, Expr]:
    """exp(x) as a product: its factors are finite where exp(x) alone overflows, though not times a sine."""
    limit, step = {float32: (88.0, 44.0), float64: (709.0, 128.0)}[x.dtype]
    far = (x > limit) & (x < INFINITY)
    return s.exp(where(far, x - step, x)), where(far, constant(math.exp(step), x.dtype), 1.0)


@body("exp")
def _exp(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    size, rest = _exp_in_two(re)
    # an infinite or unknown angle leaves nothing of zero, and infinity of infinity
    lost, none = (s.isinf(im)) | (s.isnan(im)), re == -INFINITY
    first, second = exact_mul(_product(size, s.cos(im)), rest), exact_mul(_product(size, s.sin(im)), rest)
    return complex_(where(lost & none, 0.0, where(lost & (re == INFINITY), INFINITY, first)),
                    where(lost & none, s.copysign(0.0 * rest, im), second))  # fmt: skip


def _product(size: Expr, wave: Expr) -> Expr:
    """size * wave, where infinity or NaN times a sine of 0 is 0."""
    return where(wave == 0, _times(size, wave), exact_mul(size, wave))


@body("exp2")
def _exp2(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    return s.exp(complex_(re * LN_2, im * LN_2))


@body("expm1")
def _expm1(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    half_sine = s.sin(im * 0.5)
    grown = s.expm1(re)
    size = s.exp(re)
    return complex_(where(re > 40, _times(size, s.cos(im)), grown - 2 * size * half_sine * half_sine),
                    _times(size, s.sin(im)))  # fmt: skip


@body("log")
def _log(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    return complex_(_log_modulus(re, im), s.atan2(im, re))


def _log_modulus(re: Expr, im: Expr) -> Expr:
    """log(hypot(re, im)), also where that overflows."""
    a, b = abs(re), abs(im)
    high, low = where(a > b, a, b), where(a > b, b, a)
    # near the unit circle log|x| = log1p(high**2 - 1 + low**2) / 2 keeps the digits that hypot would lose
    near = (high > 0.5) & (high < 2)
    close = s.log1p(s.fma(high - 1, high + 1, low * low)) * 0.5
    one = constant(1, high.dtype)
    largest = {float32: 127, float64: 1023}[high.dtype]
    large, small = (high >= 2.0 ** (largest - 1)) & (high < INFINITY), high < 2.0 ** (1 - largest)
    scale = where(large, 2.0**-50, where(small, 2.0**60, one))
    shift = where(large, 50 * LN_2, where(small, -60 * LN_2, 0 * one))
    return where(near, close, s.log(s.hypot(a * scale, b * scale)) + shift)


def _log_scaled(op: str, factor: float) -> None:
    @body(op)
    def scaled(node: Expr, x: Expr) -> Expr:
        re, im = parts(s.log(x))
        return complex_(re * factor, im * factor)


_log_scaled("log2", 1.4426950408889634)
_log_scaled("log10", 0.4342944819032518)


@body("log1p")
def _log1p(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    small = s.hypot(re, im) < 0.5
    near = s.log1p(re * (re + 2) + im * im) * 0.5
    return complex_(where(small, near, real(s.log(x + 1))), s.atan2(im, re + 1))


@body("sqrt")
def _sqrt(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    size = s.maximum(abs(re), abs(im))
    one = constant(1, re.dtype)
    large, small = size > 2.0**100, size < 2.0**-100
    scale = where(large, 2.0**-50, where(small, 2.0**50, one))  # the sum overflows for the largest numbers
    back = where(large, 2.0**25, where(small, 2.0**-25, one))
    a, b = abs(re) * scale, abs(im) * scale
    root = s.sqrt((s.hypot(a, b) + a) * 0.5)
    other = where(root == 0, 0.0, b / (2 * where(root == 0, 1.0, root))) * back
    root = root * back
    positive = re >= 0
    infinite = s.isinf(im)
    return complex_(
        where(infinite, abs(im), where(positive, root, other)),
        s.copysign(where(infinite, abs(im), where(positive, other, root)), im),
    )


@body("rsqrt")
def _rsqrt(node: Expr, x: Expr) -> Expr:
    return 1 / s.sqrt(x)


@body("pow")
def _pow(node: Expr, x: Expr, y: Expr) -> Expr:
    return s.exp(y * s.log(x))


@body("sigmoid")
def _sigmoid(node: Expr, x: Expr) -> Expr:
    far = real(x) < -50  # exp(-x) would overflow, and exp(x) alone is right
    exponential = s.exp(where(far, x, -x))
    return where(far, exponential, 1 / (1 + exponential))


def _sinh_and_cosh(size: Expr, angle: Expr) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]]:
    """The parts of sinh and of cosh of size + i angle."""
    a = abs(size)
    grown, rest = _exp_in_two(a)
    far = rest != 1.0
    even, odd = where(far, 0.5 * grown, s.cosh(size)), where(far, s.copysign(0.5 * grown, size), s.sinh(size))
    sine, cosine = s.sin(angle), s.cos(angle)
    lost = (a == INFINITY) & (s.isinf(angle) | s.isnan(angle))  # the real part is infinite all the same
    return (
        (where(lost, INFINITY, exact_mul(_times(odd, cosine), rest)), exact_mul(_times(even, sine), rest)),
        (where(lost, INFINITY, exact_mul(_times(even, cosine), rest)), exact_mul(_times(odd, sine), rest)),
    )


@body("sin")
def _sin(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    (second, first), _ = _sinh_and_cosh(im, re)
    return complex_(first, second)


@body("cos")
def _cos(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    first, second = _sinh_and_cosh(im, re)[1]
    return complex_(first, -second)


@body("sinh")
def _sinh(node: Expr, x: Expr) -> Expr:
    return complex_(*_sinh_and_cosh(*parts(x))[0])


@body("cosh")
def _cosh(node: Expr, x: Expr) -> Expr:
    return complex_(*_sinh_and_cosh(*parts(x))[1])


@body("tanh")
def _tanh(node: Expr, x: Expr) -> Expr:
    # (tanh a (1 + tan^2 b) + i tan b (1 - tanh^2 a)) / (1 + tanh^2 a tan^2 b), with 1 - tanh^2 a = 1 / cosh^2 a
    re, im = parts(x)
    t, u = s.tanh(re), s.tan(im)
    cosh = s.cosh(re)
    norm = 1 + t * t * u * u
    first, second = t * (1 + u * u) / norm, u / cosh / cosh / norm
    end = s.isinf(re)
    return complex_(where(end, t, where(re == 0, re, first)), where(end, s.copysign(0.0, u), where(im == 0, im, second)))


@body("tan")
def _tan(node: Expr, x: Expr) -> Expr:
    return _minus_i_times(s.tanh(_i_times(x)))


def _far_off(re: Expr, im: Expr) -> tuple[Expr, Expr]:
    """(whether x is so large that the inverse functions are logarithms, log(2 |x|))."""
    return s.maximum(abs(re), abs(im)) > 1e15, _log_modulus(re, im) + LN_2


@body("asinh")
def _asinh(node: Expr, x: Expr) -> Expr:
    # Kahan: asinh z = asinh(Re(conj(u) v)) + i asin-like angle, with u = sqrt(1 + iz), v = sqrt(1 - iz)
    re, im = parts(x)
    one = constant(1, re.dtype)
    ur, ui = parts(s.sqrt(complex_(one - im, re)))  # sqrt(1 + i z)
    vr, vi = parts(s.sqrt(complex_(one + im, -re)))  # sqrt(1 - i z)
    huge, distant = _far_off(re, im)
    size = where(huge, s.copysign(distant, re), s.asinh(vr * ui - vi * ur))
    angle = where(huge, s.atan2(im, abs(re)), s.atan2(im, ur * vr - ui * vi))
    return complex_(where(s.isnan(re) & s.isinf(im), s.copysign(INFINITY, re), size), where(s.isnan(re) & (im == 0), im, angle))


@body("asin")
def _asin(node: Expr, x: Expr) -> Expr:
    return _minus_i_times(s.asinh(_i_times(x)))


@body("acos")
def _acos(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    one = constant(1, re.dtype)
    ur, ui = parts(s.sqrt(complex_(one - re, -im)))
    vr, vi = parts(s.sqrt(complex_(one + re, im)))
    huge, distant = _far_off(re, im)
    size = where(huge, s.copysign(distant, -im), s.asinh(vr * ui - vi * ur))
    return complex_(
        _angle_of_missing(re, im, where(huge, s.atan2(abs(im), re), 2 * s.atan2(ur, vr))),
        where(s.isnan(im) & s.isinf(re), s.copysign(INFINITY, -im), size),
    )


def _angle_of_missing(re: Expr, im: Expr, angle: Expr) -> Expr:
    """The angle of arccosines where a part is NaN: a right one on the imaginary axis, otherwise none (C, Annex G.6)."""
    return where(s.isnan(im) & (re == 0), HALF_PI, where(s.isnan(re), NAN, angle))


@body("acosh")
def _acosh(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    one = constant(1, re.dtype)
    ur, ui = parts(s.sqrt(complex_(re - one, im)))
    vr, vi = parts(s.sqrt(complex_(re + one, im)))
    huge, distant = _far_off(re, im)
    size = where(huge, distant, s.asinh(ur * vr + ui * vi))
    return complex_(
        where((s.isnan(im) & s.isinf(re)) | (s.isnan(re) & s.isinf(im)), INFINITY, size),
        _angle_of_missing(re, im, where(huge, s.atan2(im, re), 2 * s.atan2(ui, vr))),
    )


@body("atanh")
def _atanh(node: Expr, x: Expr) -> Expr:
    re, im = (cast(part, float64) for part in parts(x))  # float32 would overflow and underflow early
    a, b = abs(re), abs(im)
    size = s.maximum(a, b)
    huge = size > 1e150
    fraction, other = a / size, b / size
    distant = where(s.isinf(size), 0.0, fraction / (fraction * fraction + other * other) / size)
    square = (1 - a) * (1 - a) + b * b
    pole = (a == 1) & (b < 1e-150)
    modulus = where(pole, 0.5 * (LN_2 - s.log(b)), 0.25 * s.log1p(4 * a / square))
    angle = s.atan2(2 * im, (1 - re) * (1 + re) - im * im) * 0.5
    far = s.isnan(re) & s.isinf(im)
    vanishing = far | (s.isnan(im) & ((re == 0) | s.isinf(re)))
    near = complex_(
        s.copysign(where(vanishing, 0.0, where(huge, distant, modulus)), re), where(huge | far, s.copysign(HALF_PI, im), angle)
    )
    return cast(near, node.dtype)


@body("atan")
def _atan(node: Expr, x: Expr) -> Expr:
    return _minus_i_times(s.atanh(_i_times(x)))
