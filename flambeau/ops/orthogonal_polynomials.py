"""Orthogonal polynomials of torch.special: Chebyshev's four kinds (and shifted), Hermite's two, Laguerre's, Legendre's.

Each is its three-term recurrence (Abramowitz and Stegun, table 22.7) in double precision, one kernel in which every element
takes its own number of steps; Chebyshev's polynomials of high degree are trigonometric inside the interval. Not
differentiable, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable

from flambeau.base.dtype import float64
from flambeau.core.annotations import Operand
from flambeau.core.derive import pointwise
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr, where

Step = Callable[[Expr, Expr, Expr, Expr], Expr]
HIGH = 8        # degrees above it are trigonometric inside the interval


def _recurrence(x: Expr, n: Expr, first: Expr, step: Step) -> Expr:
    """p(n) from p(0) = 1, p(1) = first and p(k + 1) = step(x, p(k), p(k - 1), k); 0 for n below 0 and NaN."""
    def further(k: Expr, values: tuple[Expr, ...], operands: tuple[Expr, ...]) -> tuple[Expr, ...]:
        now, before = values
        return step(operands[0], now, before, k + 1), now
    last = s.repeated(further, n - 1, (first, s.constant(1.0, float64)), x)
    return where(n == 0, 1.0, where(n > 0, last, 0.0))


def _chebyshev(x: Expr, n: Expr, first: Expr, closed: Callable[[Expr, Expr], Expr]) -> Expr:
    """A kind of Chebyshev's: `closed(angle, n)` for degrees above HIGH inside (-1, 1)."""
    high = (n > HIGH) & (abs(x) < 1)
    low = _recurrence(x, where(high, 0.0, n), first, lambda x, p, q, k: 2 * x * p - q)
    return where(high, closed(s.acos(where(high, x, 0.0)), where(high, n, 0.0)), low)


def _t(x: Expr, n: Expr) -> Expr:
    return _chebyshev(x, n, x, lambda a, n: s.cos(n * a))


def _u(x: Expr, n: Expr) -> Expr:
    return _chebyshev(x, n, 2 * x, lambda a, n: s.sin((n + 1) * a) / s.sin(a))


def _v(x: Expr, n: Expr) -> Expr:
    return _chebyshev(x, n, 2 * x - 1, lambda a, n: s.cos((n + 0.5) * a) / s.cos(a / 2))


def _w(x: Expr, n: Expr) -> Expr:
    return _chebyshev(x, n, 2 * x + 1, lambda a, n: s.sin((n + 0.5) * a) / s.sin(a / 2))


def _declare(name: str, formula: Callable[[Expr, Expr], Expr], words: str) -> Callable:
    def body(input: Operand, n: Operand):
        return formula(s.cast(input, float64), s.trunc(s.cast(n, float64)))
    body.__doc__ = f"{words} of degree n at input, with broadcasting; 0 for a negative degree. Not differentiable."
    body.__annotations__ = {"input": "Operand", "n": "Operand"}
    return pointwise(kind="float", method=False, function=False, inplace=False, differentiable=False, types="f",
                     name=f"special_{name}", kernel=f"{name}_cpu")(body)


chebyshev_polynomial_t = _declare("chebyshev_polynomial_t", _t, "Chebyshev's polynomial of the first kind")
chebyshev_polynomial_u = _declare("chebyshev_polynomial_u", _u, "Chebyshev's polynomial of the second kind")
chebyshev_polynomial_v = _declare("chebyshev_polynomial_v", _v, "Chebyshev's polynomial of the third kind")
chebyshev_polynomial_w = _declare("chebyshev_polynomial_w", _w, "Chebyshev's polynomial of the fourth kind")
shifted_chebyshev_polynomial_t = _declare(
    "shifted_chebyshev_polynomial_t", lambda x, n: _t(2 * x - 1, n), "Chebyshev's polynomial of the first kind on [0, 1]")
shifted_chebyshev_polynomial_u = _declare(
    "shifted_chebyshev_polynomial_u", lambda x, n: _u(2 * x - 1, n), "Chebyshev's polynomial of the second kind on [0, 1]")
shifted_chebyshev_polynomial_v = _declare(
    "shifted_chebyshev_polynomial_v", lambda x, n: _v(2 * x - 1, n), "Chebyshev's polynomial of the third kind on [0, 1]")
shifted_chebyshev_polynomial_w = _declare(
    "shifted_chebyshev_polynomial_w", lambda x, n: _w(2 * x - 1, n), "Chebyshev's polynomial of the fourth kind on [0, 1]")
hermite_polynomial_h = _declare(
    "hermite_polynomial_h", lambda x, n: _recurrence(x, n, 2 * x, lambda x, p, q, k: 2 * x * p - 2 * k * q),
    "Hermite's polynomial")
hermite_polynomial_he = _declare(
    "hermite_polynomial_he", lambda x, n: _recurrence(x, n, x, lambda x, p, q, k: x * p - k * q),
    "Hermite's probabilistic polynomial")
laguerre_polynomial_l = _declare(
    "laguerre_polynomial_l",
    lambda x, n: _recurrence(x, n, 1 - x, lambda x, p, q, k: ((2 * k + 1 - x) * p - k * q) / (k + 1)), "Laguerre's polynomial")
legendre_polynomial_p = _declare(
    "legendre_polynomial_p",
    lambda x, n: _recurrence(x, n, x, lambda x, p, q, k: ((2 * k + 1) * x * p - k * q) / (k + 1)), "Legendre's polynomial")
