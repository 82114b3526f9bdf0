"""Bessel functions of torch.special: J, Y, K of orders 0 and 1, the spherical one of order 0, Airy's.

Worked out in double precision with NumPy: power series near zero, quadrature of the integral representations between
(exponentially
convergent there), Hankel's expansions far out. Not differentiable, as in PyTorch. I of orders 0 and 1 is in ops.functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from flambeau.base.dtype import get_default_dtype
from flambeau.core.create import copy_array
from flambeau.core.declare import operator
from flambeau.core.tensor import Tensor
from flambeau.ops.linalg_arguments import values_of

EULER = 0.57721566490153286061
NEAR, FAR = 5.0, 25.0


@lru_cache(1)
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(96)
    return (nodes + 1) / 2, weights / 2


def _oscillating(x: np.ndarray, order: float, wave: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """1 / pi times the integral of wave(x sin t - order t) over [0, pi]."""
    nodes, weights = _rule()
    t = math.pi * nodes
    return wave(x[..., None] * np.sin(t) - order * t) @ weights


def _decaying(x: np.ndarray, factor: Callable[[np.ndarray], np.ndarray], limit: float) -> np.ndarray:
    """1 / pi times the integral of factor(t) exp(-x sinh t) from 0 to where it is negligible for x >= limit."""
    nodes, weights = _rule()
    end = math.asinh(42 / limit)
    t = end * nodes
    return np.exp(-x[..., None] * np.sinh(t)) * factor(t) @ weights * (end / math.pi)


def _far(x: np.ndarray, order: float) -> tuple[np.ndarray, np.ndarray]:
    """(J, Y) by Hankel's expansion, x >= 25."""
    mu = 4 * order * order
    p, q, term = np.ones_like(x), np.zeros_like(x), np.ones_like(x)
    for k in range(1, 24):
        term = term * (mu - (2 * k - 1) ** 2) / (k * 8 * x)
        sign = -1 if k % 4 in (2, 3) else 1
        if k % 2:
            q = q + sign * term
        else:
            p = p + sign * term
    angle = x - (order / 2 + 0.25) * math.pi
    size = np.sqrt(2 / (math.pi * x))
    return size * (p * np.cos(angle) - q * np.sin(angle)), size * (p * np.sin(angle) + q * np.cos(angle))


def _j(x: np.ndarray, order: int) -> np.ndarray:
    a = np.abs(x)
    made = np.where(a < FAR, _oscillating(np.minimum(a, FAR), order, np.cos), _far(np.maximum(a, FAR), order)[0])
    if not order:
        return made
    near = np.minimum(a, 1)
    made = np.where(a < 1, _series(near, 1, -1)[0] * near / 2, made)  # quadrature has absolute precision alone
    return np.where(x < 0, -made, made)


def _series(x: np.ndarray, order: int, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """(sum of c_k, sum of c_k (psi(k + 1) + psi(k + order + 1))) with c_k = (sign x^2 / 4)^k / (k! (k + order)!)."""
    term, plain, weighted = np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    harmonic = [-EULER]
    for k in range(1, 42):
        harmonic.append(harmonic[-1] + 1 / k)
    for k in range(40):
        plain = plain + term
        weighted = weighted + term * (harmonic[k] + harmonic[k + order])
        term = term * (sign * x * x / 4) / ((k + 1) * (k + 1 + order))
    return plain, weighted


def _y(x: np.ndarray, order: int) -> np.ndarray:
    small = np.clip(x, 1e-300, NEAR)
    plain, weighted = _series(small, order, -1)
    scale = small / 2 if order else 1.0
    near = (2 * np.log(small / 2) * plain * scale - weighted * scale) / math.pi - (2 / (math.pi * small) if order else 0)
    middle = np.clip(x, NEAR, FAR)
    growing = (lambda t: np.exp(t) - np.exp(-t)) if order else (lambda t: np.full_like(t, 2.0))
    between = _oscillating(middle, order, np.sin) - _decaying(middle, growing, NEAR)
    made = np.where(x < NEAR, near, np.where(x < FAR, between, _far(np.maximum(x, FAR), order)[1]))
    return np.where(x > 0, made, np.where(x == 0, -np.inf, np.nan))


def _k(x: np.ndarray, order: float, scaled: bool) -> np.ndarray:
    """K of any order below 2 for x >= 1 by the trapezoidal rule on exp(-x (cosh t - 1)) cosh(order t), t = u / sqrt(x)."""
    t = np.arange(0, 9.5, 0.1) / np.sqrt(x)[..., None]
    values = np.exp(-2 * x[..., None] * np.sinh(t / 2) ** 2) * np.cosh(order * t)
    values[..., 0] *= 0.5
    made = values.sum(-1) * 0.1 / np.sqrt(x)
    return made if scaled else made * np.exp(-x)


def _k_integer(x: np.ndarray, order: int, scaled: bool) -> np.ndarray:
    small = np.clip(x, 5e-324, 1)
    plain, weighted = _series(small, order, 1)
    if order:
        near = 1 / small + np.log(small / 2) * plain * small / 2 - weighted * small / 4
    else:
        near = weighted / 2 - np.log(small / 2) * plain
    made = np.where(x < 1, near * np.exp(small) if scaled else near, _k(np.clip(x, 1, 1.7e308), order, scaled))
    made = np.where(x > 1.7e308, 0.0, made)
    return np.where(x > 0, made, np.where(x == 0, np.inf, np.nan))


def _airy(x: np.ndarray) -> np.ndarray:
    third = 1 / 3
    inner = np.clip(x, -2, 1.5)
    f, g = np.ones_like(x), inner.copy()
    total_f, total_g = f, g
    for k in range(1, 24):
        f = f * inner ** 3 / ((3 * k - 1) * (3 * k))
        g = g * inner ** 3 / ((3 * k) * (3 * k + 1))
        total_f, total_g = total_f + f, total_g + g
    near = 0.355028053887817239 * total_f - 0.258819403792806798 * total_g
    positive = np.clip(x, 1.5, 1e3)  # from where on it is 0
    above = np.sqrt(positive / 3) / math.pi * _k(positive ** 1.5 * 2 / 3, third, False)
    z = np.maximum(-x, 2)
    zeta = z ** 1.5 * 2 / 3
    bounded = np.minimum(zeta, FAR)
    waves = _oscillating(bounded, third, np.cos) + _oscillating(bounded, -third, np.cos)
    tails = _decaying(bounded, lambda t: math.sin(math.pi / 3) * (np.exp(t / 3) - np.exp(-t / 3)), 1.8)
    outer = np.maximum(zeta, FAR)
    below = np.sqrt(z) / 3 * np.where(zeta < FAR, waves + tails, _far(outer, third)[0] + _far(outer, -third)[0])
    made = np.where(x > 1.5, above, np.where(x < -2, below, near))
    return np.where(np.isinf(x), np.nan, made)      # as in PyTorch, also at infinity, where the limit is 0


def _spherical(x: np.ndarray) -> np.ndarray:
    made = np.sin(x) / np.where(x == 0, 1, x)
    return np.where(np.isinf(x), 0, np.where(x == 0, 1, made))


def _declare(name: str, body: Callable[[np.ndarray], np.ndarray], words: str) -> Callable:
    def implementation(input: Tensor):
        dtype = input._layout.dtype
        values = np.asarray(values_of(input), np.float64)
        with np.errstate(all="ignore"):
            made = np.where(np.isnan(values), np.nan, body(np.where(np.isnan(values), 1.0, values)))
        return copy_array(np.asarray(made)).to(dtype if dtype.is_floating_point else get_default_dtype())
    implementation.__doc__ = f"{words} of each element; integers become the default floating dtype. Not differentiable."
    return operator(method=False, function=False, out=True, name=f"special_{name}")(implementation)


bessel_j0 = _declare("bessel_j0", lambda x: _j(x, 0), "The Bessel function of the first kind of order 0")
bessel_j1 = _declare("bessel_j1", lambda x: _j(x, 1), "The Bessel function of the first kind of order 1")
bessel_y0 = _declare("bessel_y0", lambda x: _y(x, 0), "The Bessel function of the second kind of order 0")
bessel_y1 = _declare("bessel_y1", lambda x: _y(x, 1), "The Bessel function of the second kind of order 1")
modified_bessel_k0 = _declare("modified_bessel_k0", lambda x: _k_integer(x, 0, False), "The Bessel function K of order 0")
modified_bessel_k1 = _declare("modified_bessel_k1", lambda x: _k_integer(x, 1, False), "The Bessel function K of order 1")
scaled_modified_bessel_k0 = _declare("scaled_modified_bessel_k0", lambda x: _k_integer(x, 0, True), "exp(x) times K of order 0")
scaled_modified_bessel_k1 = _declare("scaled_modified_bessel_k1", lambda x: _k_integer(x, 1, True), "exp(x) times K of order 1")
spherical_bessel_j0 = _declare("spherical_bessel_j0", _spherical, "The spherical Bessel function of order 0")
airy_ai = _declare("airy_ai", _airy, "The Airy function Ai")
