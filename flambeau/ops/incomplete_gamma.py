"""igamma and igammac: the regularised incomplete gamma functions, lower and upper.

Computed in double precision on NumPy by the power series below the mean and a continued fraction above it. Stands on
core.declare and core.create; offered by the namespace and torch.special (gammainc, gammaincc).
"""

from __future__ import annotations

import math

import numpy as np

from flambeau.base.dtype import float64, promote_types
from flambeau.core.create import array_of, from_array
from flambeau.core.declare import operator
from flambeau.core.tensor import Tensor

LIMIT = 100000      # steps of a series; they grow like the square root of a
_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


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
        chosen = inner & ((x < a + 1) == below)
        if chosen.any():
            p, y = a[chosen], x[chosen]
            factor = p * np.log(y) - y - _log_gamma(p)
            part = np.exp(factor - np.log(p)) * _series(p, y) if below else np.exp(factor) * _fraction(p, y)
            out[chosen] = part if below != upper else 1 - part
    return out


def _compute(name: str, input: Tensor, other: Tensor, upper: bool) -> Tensor:
    dtype = promote_types(input.dtype, other.dtype)
    if not dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for \'{dtype.scalar_name}\'')
    a, x = array_of(input.to(float64)), array_of(other.to(float64))
    with np.errstate(all="ignore"):
        return from_array(np.ascontiguousarray(_regularised(a, x, upper))).to(dtype)


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
