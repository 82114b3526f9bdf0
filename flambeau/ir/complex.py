"""Bodies of complex operations, as pairs of real expressions.

Every body takes its node and expanded arguments; complex ones are complex(re, im). Stands on ir.scalar. Used through
ir.functions, which expands the real expressions further.
"""

from __future__ import annotations

from collections.abc import Callable

from flambeau.base.dtype import bool_
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr, cast, complex_, constant, imag, part_dtype, real, where

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
    return complex_(-re, -im)


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
    (ar, ai), (br, bi) = parts(a), parts(b)
    return complex_(ar * br - ai * bi, ar * bi + ai * br)


@body("div")
def _div(node: Expr, a: Expr, b: Expr) -> Expr:
    # Scaled by the larger part of the divisor, as PyTorch does, so that its square does not overflow.
    (ar, ai), (br, bi) = parts(a), parts(b)
    scale = s.maximum(abs(br), abs(bi))
    scale = where((scale == 0) | s.isinf(scale), 1.0, scale)
    cr, ci = br / scale, bi / scale
    norm = cr * cr + ci * ci
    return complex_((ar * cr + ai * ci) / norm / scale, (ai * cr - ar * ci) / norm / scale)


@body("reciprocal")
def _reciprocal(node: Expr, x: Expr) -> Expr:
    return complex_(constant(1, part_dtype(x.dtype)), constant(0, part_dtype(x.dtype))) / x


@body("abs")
def _abs(node: Expr, x: Expr) -> Expr:
    return s.hypot(*parts(x))


@body("sign")
def _sign(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    size = s.hypot(re, im)
    safe = where(size == 0, 1.0, size)
    return complex_(where(size == 0, 0.0, re / safe), where(size == 0, 0.0, im / safe))


@body("exp")
def _exp(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    size = s.exp(re)
    return complex_(where(size == 0, 0.0, size * s.cos(im)), where((im == 0) | (size == 0), im * 0.0, size * s.sin(im)))


@body("exp2")
def _exp2(node: Expr, x: Expr) -> Expr:
    return s.exp(x * 0.6931471805599453)


@body("expm1")
def _expm1(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    half_sine = s.sin(im * 0.5)
    grown = s.expm1(re)
    return complex_(grown - 2 * (grown + 1) * half_sine * half_sine, (grown + 1) * s.sin(im))


@body("log")
def _log(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    a, b = abs(re), abs(im)
    high, low = where(a > b, a, b), where(a > b, b, a)
    # near the unit circle log|x| = log1p(high**2 - 1 + low**2) / 2 keeps the digits that hypot would lose
    near = (high > 0.5) & (high < 2)
    close = s.log1p(s.fma(high - 1, high + 1, low * low)) * 0.5
    return complex_(where(near, close, s.log(s.hypot(re, im))), s.atan2(im, re))


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
    root = s.sqrt((s.hypot(re, im) + abs(re)) * 0.5)
    other = where(root == 0, 0.0, abs(im) / (2 * where(root == 0, 1.0, root)))
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
    result = s.exp(y * s.log(x))
    zero_base = (x == 0) & (y != 0)
    return where(y == 0, 1, where(zero_base, 0, result))


@body("sigmoid")
def _sigmoid(node: Expr, x: Expr) -> Expr:
    return 1 / (1 + s.exp(-x))


@body("sin")
def _sin(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    return complex_(s.sin(re) * s.cosh(im), s.cos(re) * s.sinh(im))


@body("cos")
def _cos(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    return complex_(s.cos(re) * s.cosh(im), -(s.sin(re) * s.sinh(im)))


@body("sinh")
def _sinh(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    return complex_(s.sinh(re) * s.cos(im), s.cosh(re) * s.sin(im))


@body("cosh")
def _cosh(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    return complex_(s.cosh(re) * s.cos(im), s.sinh(re) * s.sin(im))


@body("tanh")
def _tanh(node: Expr, x: Expr) -> Expr:
    # (tanh a (1 + tan^2 b) + i tan b (1 - tanh^2 a)) / (1 + tanh^2 a tan^2 b), with 1 - tanh^2 a = 1 / cosh^2 a
    re, im = parts(x)
    t, u = s.tanh(re), s.tan(im)
    cosh = s.cosh(re)
    norm = 1 + t * t * u * u
    return complex_(t * (1 + u * u) / norm, u / cosh / cosh / norm)


@body("tan")
def _tan(node: Expr, x: Expr) -> Expr:
    return _minus_i_times(s.tanh(_i_times(x)))


@body("asinh")
def _asinh(node: Expr, x: Expr) -> Expr:
    # Kahan: asinh z = asinh(Re(conj(u) v)) + i asin-like angle, with u = sqrt(1 + iz), v = sqrt(1 - iz)
    re, im = parts(x)
    one = constant(1, re.dtype)
    ur, ui = parts(s.sqrt(complex_(one - im, re)))  # sqrt(1 + i z)
    vr, vi = parts(s.sqrt(complex_(one + im, -re)))  # sqrt(1 - i z)
    return complex_(s.asinh(vr * ui - vi * ur), s.atan2(im, ur * vr - ui * vi))


@body("asin")
def _asin(node: Expr, x: Expr) -> Expr:
    return _minus_i_times(s.asinh(_i_times(x)))


@body("acos")
def _acos(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    one = constant(1, re.dtype)
    ur, ui = parts(s.sqrt(complex_(one - re, -im)))
    vr, vi = parts(s.sqrt(complex_(one + re, im)))
    return complex_(2 * s.atan2(ur, vr), s.asinh(vr * ui - vi * ur))


@body("acosh")
def _acosh(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    one = constant(1, re.dtype)
    ur, ui = parts(s.sqrt(complex_(re - one, im)))
    vr, vi = parts(s.sqrt(complex_(re + one, im)))
    return complex_(s.asinh(ur * vr + ui * vi), 2 * s.atan2(ui, vr))


@body("atanh")
def _atanh(node: Expr, x: Expr) -> Expr:
    re, im = parts(x)
    upper = (1 + re) * (1 + re) + im * im
    lower = (1 - re) * (1 - re) + im * im
    modulus = where(re < 0, -0.25, 0.25) * s.log1p(4 * abs(re) / where(re < 0, upper, lower))
    return complex_(modulus, s.atan2(2 * im, (1 - re) * (1 + re) - im * im) * 0.5)


@body("atan")
def _atan(node: Expr, x: Expr) -> Expr:
    return _minus_i_times(s.atanh(_i_times(x)))
