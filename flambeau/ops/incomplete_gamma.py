"""igamma and igammac: the regularised incomplete gamma functions, lower and upper.

Computed in double precision on NumPy by the power series below the mean and a continued fraction above it; for a large
first argument by Temme's uniform expansion. Stands on
core.declare and core.create; offered by the namespace and torch.special (gammainc, gammaincc).
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from flambeau.base.dtype import float64, promote_types
from flambeau.core.create import array_of, elementwise
from flambeau.core.declare import operator
from flambeau.core.tensor import Tensor

UNIFORM = 1e6       # where the uniform expansion takes over
LIMIT = 100000      # steps of a series; they grow like the square root of a
#: log(gamma(1 + a)) = -0.577 a + 0.822 a**2 ... near 0, where 1 + a would lose digits of a.
NEAR_ONE = (-0.5772156649015329, 0.8224670334241132, -0.40068563438653143, 0.27058080842778454, -0.20738555102867398)


_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


@partial(np.vectorize, otypes=[np.float64])
def _log_gamma_above(a: float) -> float:
    """log(gamma(1 + a)) for a >= 0."""
    if a > 1e-3:
        return _log_gamma(a + 1)
    return a * sum(c * a**k for k, c in enumerate(NEAR_ONE))


def _small_upper(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Q(a, x) for a, x below about 1, where 1 - P(a, x) would lose it: both terms of P without the 1."""
    growth = np.expm1(a * np.log(x) - _log_gamma_above(a))
    rest, power = np.zeros_like(a), np.ones_like(a)
    for k in range(1, 25):
        power = power * (-x / k)
        rest += power / (a + k)
    return -growth - (1 + growth) * a * rest


def _series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Sum of x**k / ((a + 1) ... (a + k)), which is P(a, x) * gamma(a + 1) * exp(x) / x**a."""
    total, term, n = np.ones_like(a), np.ones_like(a), a.copy()
    for _ in range(LIMIT):
        n += 1
        term = term * (x / n)
        total += term
        if not (term > total * 1e-17).any():
            break
    return total


def _fraction(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The continued fraction of Q(a, x) * gamma(a) * exp(x) / x**a, by Lentz's method."""
    tiny = 1e-300
    b = x + 1 - a
    c, d = np.full_like(b, 1 / tiny), 1 / np.where(b == 0, tiny, b)
    result = d.copy()
    for i in range(1, LIMIT):
        step = -i * (i - a)
        b = b + 2
        d = step * d + b
        d = 1 / np.where(np.abs(d) < tiny, tiny, d)
        c = b + step / c
        c = np.where(np.abs(c) < tiny, tiny, c)
        change = c * d
        result = result * change
        if not (np.abs(change - 1) > 1e-16).any():
            break
    return result


def _uniform(a: np.ndarray, x: np.ndarray, upper: bool) -> np.ndarray:
    """P or Q for a so large that the first correction of Temme's expansion about the Gaussian distribution suffices."""
    mu = (x - a) / a
    near = np.abs(mu) < 0.01
    series = sum((-mu) ** k / k for k in range(2, 10))  # mu - log(1 + mu) without the difference
    eta = np.copysign(np.sqrt(2 * np.where(near, series, mu - np.log1p(mu))), mu)
    away = np.where(near, 1.0, mu)
    correction = np.where(near, -1 / 3 + eta / 12 - 2 * eta**2 / 135, 1 / away - 1 / np.where(near, 1.0, eta))
    rest = np.exp(-0.5 * a * eta * eta) / np.sqrt(2 * math.pi * a) * correction
    half = eta * np.sqrt(a / 2)
    return 0.5 * _erfc(half) + rest if upper else 0.5 * _erfc(-half) - rest


def _regularised(a: np.ndarray, x: np.ndarray, upper: bool) -> np.ndarray:
    """P(a, x), or Q(a, x) = 1 - P(a, x); NaN for negative arguments and for a = x = 0."""
    a, x = np.broadcast_arrays(a, x)
    out = np.full(a.shape, np.nan)
    fine = (a >= 0) & (x >= 0)
    out[fine & (x == 0) & (a > 0)] = 1.0 if upper else 0.0
    out[fine & (a == 0) & (x > 0)] = 0.0 if upper else 1.0
    out[fine & np.isinf(a) & np.isfinite(x)] = 1.0 if upper else 0.0
    out[fine & np.isinf(x) & np.isfinite(a)] = 0.0 if upper else 1.0
    inner = fine & (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    for below in (True, False):
        chosen = inner & (a <= UNIFORM) & ((x < a + 1) == below)
        if chosen.any():
            p, y = a[chosen], x[chosen]
            if below:
                part = np.exp(p * np.log(y) - y - _log_gamma_above(p)) * _series(p, y)
            else:
                part = np.exp(p * np.log(y) - y - _log_gamma(p)) * _fraction(p, y)
            out[chosen] = part if below != upper else 1 - part
    large = inner & (a > UNIFORM)
    if large.any():
        out[large] = _uniform(a[large], x[large], upper)
    small = inner & (a < 1) & (x < 1)
    if upper and small.any():
        out[small] = _small_upper(a[small], x[small])
    return out


def _compute(name: str, input: Tensor, other: Tensor, upper: bool) -> Tensor:
    dtype = promote_types(input.dtype, other.dtype)
    if not dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for \'{dtype.scalar_name}\'')
    a, x = array_of(input.to(float64)), array_of(other.to(float64))
    with np.errstate(all="ignore"):
        return elementwise(_regularised(a, x, upper), dtype, input, other)


def _density(input: Tensor, other: Tensor) -> Tensor:
    """The derivative of P(a, x) by x."""
    return ((input - 1) * other.log() - other - input.lgamma()).exp()


def _refuse(name: str, need: dict) -> None:
    if need["input"]:
        raise NotImplementedError(f"the derivative for '{name}: input' is not implemented.")


@operator(inplace=True, out=True)
def igamma(input: Tensor, other: Tensor):
    """The regularised lower incomplete gamma function P(input, other), for arguments >= 0; NaN for others."""
    return _compute("igamma_cpu", input, other, False)


@igamma.vjp
def _(g, input, other, need):
    _refuse("igamma", need)
    return None, g * _density(input, other)


@operator(inplace=True, out=True)
def igammac(input: Tensor, other: Tensor):
    """The regularised upper incomplete gamma function 1 - P(input, other), for arguments >= 0; NaN for others."""
    return _compute("igammac_cpu", input, other, True)


@igammac.vjp
def _(g, input, other, need):
    _refuse("igammac", need)
    return None, -g * _density(input, other)
