"""The regularised incomplete gamma functions P and Q for real dtypes.

The power series below the mean and a continued fraction above it (Abramowitz and Stegun, 6.5); for a large first argument
Temme's uniform expansion (N. Temme, 1979). float32 works in double precision inside. Stands on ir.scalar; used by
ops.elementwise.incomplete_gamma.
"""

from __future__ import annotations

import math

from flambeau.base.dtype import float32, float64
from flambeau.ir import scalar as s
from flambeau.ir.elementary import INFINITY, NAN, polynomial
from flambeau.ir.scalar import Expr, cast, constant, where
from flambeau.ir.special import STIRLING

UNIFORM = 1e6  # where the uniform expansion takes over
LIMIT = 100000  # steps of a series; they grow like the square root of a
TINY = 1e-300
#: log(gamma(1 + a)) / a near 0, where 1 + a would lose digits of a.
NEAR_ONE = (-0.5772156649015329, 0.8224670334241132, -0.40068563438653143, 0.27058080842778454, -0.20738555102867398)


def _log_gamma_above(a: Expr) -> Expr:
    """log(gamma(1 + a)) for a >= 0."""
    return where(a > 1e-3, s.lgamma(a + 1), a * polynomial(a, NEAR_ONE))


def _gap(mu: Expr) -> Expr:
    """mu - log(1 + mu), without the difference near 0."""
    series = mu * mu * polynomial(-mu, tuple(1 / k for k in range(2, 10)))
    return where(abs(mu) < 0.01, series, mu - s.log1p(mu))


def _density(a: Expr, x: Expr) -> Expr:
    """x**a exp(-x) / gamma(a + 1); for a large a about the mean, where nothing cancels."""
    large = a >= 10
    inverse = 1 / where(large, a, 10.0)
    stirling = inverse * polynomial(inverse * inverse, STIRLING)
    below = a * s.log(x) - x - s.apart(_log_gamma_above, where(large, 1.0, a))
    about = where(large, -a * s.apart(_gap, (x - a) / a) - stirling, below)
    return s.exp(about) * where(large, s.sqrt(inverse * (0.5 / math.pi)), 1.0)


def _series(a: Expr, x: Expr, precision: float) -> Expr:
    """Sum of x**k / ((a + 1) ... (a + k)), which is P(a, x) * gamma(a + 1) * exp(x) / x**a."""
    one = constant(1, float64) + 0 * a

    def step(total: Expr, term: Expr, n: Expr, x: Expr) -> tuple[Expr, ...]:
        term = term * (x / (n + 1))
        return total + term, term, n + 1

    return s.repeat(step, lambda total, term, n, x: term > total * precision, (one, one, a), x, limit=LIMIT)


def _fraction(a: Expr, x: Expr, precision: float) -> Expr:
    """The continued fraction of Q(a, x) * gamma(a) * exp(x) / x**a, by Lentz's method."""

    def away(y: Expr) -> Expr:
        return where(abs(y) < TINY, TINY, y)

    def step(made: Expr, change: Expr, b: Expr, c: Expr, d: Expr, i: Expr, a: Expr) -> tuple[Expr, ...]:
        factor = i * (a - i)
        b = b + 2
        d = 1 / away(factor * d + b)
        c = away(b + factor / c)
        change = c * d
        return made * change, change, b, c, d, i + 1

    b = x + 1 - a
    first = 1 / away(b)
    nothing = 0 * a
    states = (first, nothing, b, nothing + 1 / TINY, first, nothing + 1)
    return s.repeat(step, lambda made, change, b, c, d, i, a: abs(change - 1) > precision, states, a, limit=LIMIT)


def _uniform(a: Expr, x: Expr, upper: bool) -> Expr:
    """P or Q for a so large that the first correction of Temme's expansion about the Gaussian distribution suffices."""
    mu = (x - a) / a
    eta = s.copysign(s.sqrt(2 * s.apart(_gap, mu)), mu)
    correction = where(abs(mu) < 0.01, polynomial(eta, (-1 / 3, 1 / 12, -2 / 135)), 1 / mu - 1 / eta)
    rest = s.exp(-0.5 * a * eta * eta) / s.sqrt(2 * math.pi * a) * correction
    half = eta * s.sqrt(a / 2)
    return 0.5 * s.erfc(half) + rest if upper else 0.5 * s.erfc(-half) - rest


def _small_upper(a: Expr, x: Expr) -> Expr:
    """Q(a, x) for a, x below 1, where 1 - P(a, x) would lose it: both terms of P without the 1."""
    growth = s.expm1(a * s.log(x) - s.apart(_log_gamma_above, a))
    rest, power = 0 * a, 1 + 0 * a
    for k in range(1, 25):
        power = power * (x * (-1 / k))
        rest = rest + power / (a + k)
    return -growth - (1 + growth) * a * rest


def regularised(a: Expr, x: Expr, upper: bool) -> Expr:
    """P(a, x), or Q(a, x) = 1 - P(a, x) (upper); NaN for negative arguments and for a = x = 0."""
    dtype = a.dtype
    precision = 1e-10 if dtype is float32 else 3e-16
    a, x = cast(a, float64), cast(x, float64)

    def below(a: Expr, x: Expr) -> Expr:
        part = s.apart(_density, a, x) * _series(a, x, precision)
        return 1 - part if upper else part

    def above(a: Expr, x: Expr) -> Expr:
        part = s.apart(_density, a, x) * a * _fraction(a, x, precision)
        return part if upper else 1 - part

    fine = (a >= 0) & (x >= 0)
    inner = fine & (a > 0) & (x > 0) & (a < INFINITY) & (x < INFINITY)
    large, low = a > UNIFORM, x < a + 1
    zero, one = (0.0, 1.0) if upper else (1.0, 0.0)
    value = where(fine & ((a == 0) & (x > 0) | (x == INFINITY) & (a < INFINITY)), zero, NAN * constant(1, float64))
    value = where(fine & ((x == 0) & (a > 0) | (a == INFINITY) & (x < INFINITY)), one, value)
    small = (a < 1) & (x < 1) if upper else a < 0
    for chosen, way in (
        (inner & ~large & low & ~small, below),
        (inner & ~large & ~low & ~small, above),
        (inner & large, lambda a, x: _uniform(a, x, upper)),
        (inner & small, _small_upper),
    ):
        if way is not _small_upper or upper:  # elements of another way wait as 1, which is soon done
            value = s.sometimes(value, chosen, way, where(chosen, a, 1.0), where(chosen, x, 1.0))
    return cast(value, dtype)
