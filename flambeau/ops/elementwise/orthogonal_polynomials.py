"""Orthogonal polynomials of torch.special: Chebyshev's four kinds (and shifted), Hermite's two, Laguerre's, Legendre's.

Each is its three-term recurrence in the tensor's own precision, run for every element as far as its degree asks, or until it is
NaN; Chebyshev's polynomials of high degree are trigonometric inside the interval and known at its ends. Not differentiable, as
in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import bfloat16, float16, int64
from flambeau.base.dtype import dtype as DType
from flambeau.core.operator.annotations import Operand
from flambeau.core.operator.variants import pointwise
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr, cast, where

Step = Callable[[Expr, Expr, Expr, Expr], Expr]
Closed = Callable[[Expr, Expr], Expr]
LIMIT = 1 << 40  # steps of a recurrence


def _recurrence(x: Expr, n: Expr, first: Expr, step: Step) -> Expr:
    """p(n) from p(0) = 1, p(1) = first and p(k + 1) = step(x, p(k), p(k - 1), k); 0 for a negative n. n and k are int64.

    A recurrence that has overflowed to NaN ends.
    """

    def further(now: Expr, before: Expr, k: Expr, x: Expr, n: Expr) -> tuple[Expr, ...]:
        return step(x, now, before, k), now, k + 1

    def wanted(now: Expr, before: Expr, k: Expr, x: Expr, n: Expr) -> Expr:
        return (k < n) & ~s.isnan(now)

    value = s.repeat(further, wanted, (first, cast(1.0, x.dtype), cast(1, n.dtype)), x, n, limit=LIMIT)
    return where(n > 0, value, where(n == 0, cast(1.0, x.dtype), cast(0.0, x.dtype)))


def _chebyshev(x: Expr, n: Expr, first: Expr, closed: Closed, left: Closed, right: Closed) -> Expr:
    """A kind of Chebyshev's: `closed(angle, n)` for degrees above 8 inside (-1, 1); `left` at -1 but for a sign, `right` at 1."""
    high = (n > 8) & (abs(x) < 1)
    end = (n > 0) & (abs(x) == 1)
    low = _recurrence(x, where(high | end, 0 * n, n), first, lambda x, p, q, k: 2 * x * p - q)
    degree = cast(n, x.dtype)
    sign = where(s.remainder(n, 2) == 0, cast(1.0, x.dtype), cast(-1.0, x.dtype))
    low = where(end, where(x > 0, right(x, degree), sign * left(x, degree)), low)
    return s.sometimes(low, high, lambda x, n: closed(s.acos(x), n), x, degree)


def _one(x: Expr, n: Expr) -> Expr:
    return cast(1.0, x.dtype)


def _next(x: Expr, n: Expr) -> Expr:
    return n + 1


def _odd(x: Expr, n: Expr) -> Expr:
    return n + n + 1


def _t(x: Expr, n: Expr) -> Expr:
    return _chebyshev(x, n, x, lambda a, n: s.cos(n * a), _one, _one)


def _u(x: Expr, n: Expr) -> Expr:
    return _chebyshev(x, n, 2 * x, lambda a, n: s.sin((n + 1) * a) / s.sin(a), _next, _next)


def _v(x: Expr, n: Expr) -> Expr:
    return _chebyshev(x, n, 2 * x - 1, lambda a, n: s.cos((n + 0.5) * a) / s.cos(a / 2), _odd, _one)


def _w(x: Expr, n: Expr) -> Expr:
    return _chebyshev(x, n, 2 * x + 1, lambda a, n: s.sin((n + 0.5) * a) / s.sin(a / 2), _one, _odd)


def _by(first: Callable[[Expr], Expr], step: Step) -> Closed:
    return lambda x, n: _recurrence(x, n, first(x), step)


def _declare(name: str, body: Closed, words: str) -> Callable:
    def refuse_half(computation: DType, *_: Any) -> None:
        if computation in (float16, bfloat16):
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{computation.scalar_name}'")

    def function(input: Operand, n: Operand):
        return body(input, cast(n, int64))

    function.__doc__ = f"{words} of degree n at input, with broadcasting; 0 for a negative degree. Not differentiable."
    return pointwise(
        kind="float",
        types="f",
        kernel=f"{name}_cpu",
        name=f"special_{name}",
        function=False,
        method=False,
        inplace=False,
        check=refuse_half,
        differentiable=False,
    )(function)


chebyshev_polynomial_t = _declare("chebyshev_polynomial_t", _t, "Chebyshev's polynomial of the first kind")
chebyshev_polynomial_u = _declare("chebyshev_polynomial_u", _u, "Chebyshev's polynomial of the second kind")
chebyshev_polynomial_v = _declare("chebyshev_polynomial_v", _v, "Chebyshev's polynomial of the third kind")
chebyshev_polynomial_w = _declare("chebyshev_polynomial_w", _w, "Chebyshev's polynomial of the fourth kind")
shifted_chebyshev_polynomial_t = _declare(
    "shifted_chebyshev_polynomial_t", lambda x, n: _t(2 * x - 1, n), "Chebyshev's polynomial of the first kind on [0, 1]"
)
shifted_chebyshev_polynomial_u = _declare(
    "shifted_chebyshev_polynomial_u", lambda x, n: _u(2 * x - 1, n), "Chebyshev's polynomial of the second kind on [0, 1]"
)
shifted_chebyshev_polynomial_v = _declare(
    "shifted_chebyshev_polynomial_v", lambda x, n: _v(2 * x - 1, n), "Chebyshev's polynomial of the third kind on [0, 1]"
)
shifted_chebyshev_polynomial_w = _declare(
    "shifted_chebyshev_polynomial_w", lambda x, n: _w(2 * x - 1, n), "Chebyshev's polynomial of the fourth kind on [0, 1]"
)
hermite_polynomial_h = _declare(
    "hermite_polynomial_h", _by(lambda x: 2 * x, lambda x, p, q, k: 2 * x * p - 2 * k * q), "Hermite's polynomial"
)
hermite_polynomial_he = _declare(
    "hermite_polynomial_he", _by(lambda x: x, lambda x, p, q, k: x * p - k * q), "Hermite's probabilistic polynomial"
)
laguerre_polynomial_l = _declare(
    "laguerre_polynomial_l",
    _by(lambda x: 1 - x, lambda x, p, q, k: ((2 * k + (1 - x)) * p - k * q) / (k + 1)),
    "Laguerre's polynomial",
)
legendre_polynomial_p = _declare(
    "legendre_polynomial_p", _by(lambda x: x, lambda x, p, q, k: ((2 * k + 1) * x * p - k * q) / (k + 1)), "Legendre's polynomial"
)
