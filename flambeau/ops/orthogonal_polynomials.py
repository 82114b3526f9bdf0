"""Orthogonal polynomials of torch.special: Chebyshev's four kinds (and shifted), Hermite's two, Laguerre's, Legendre's.

Each is its three-term recurrence, run over all elements up to the highest degree asked for, in double precision by the
operators of tensors; Chebyshev's polynomials of high degree are trigonometric inside the interval. Not differentiable, as in
PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import DIMENSIONED, NUMBER, ZERO_DIM, float64, get_default_dtype, number_dtype, result_dtype
from flambeau.core.annotations import Operand
from flambeau.core.declare import operator
from flambeau.core.derive import NAMESPACE
from flambeau.core.tensor import Tensor

Step = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def _recurrence(x: Tensor, n: Tensor, first: Tensor, step: Step) -> Tensor:
    """p(n) from p(0) = 1, p(1) = first and p(k + 1) = step(x, p(k), p(k - 1), k); 0 for a negative n."""
    where = NAMESPACE["where"]
    before, now = NAMESPACE["ones_like"](x), first
    made = where(n == 0, before, now)
    for k in range(1, int(n.max().item()) if n._layout.numel else 0):
        before, now = now, step(x, now, before, k)
        made = where(n == k + 1, now, made)
    return where(n < 0, 0.0, made)


def _chebyshev(x: Tensor, n: Tensor, first: Tensor,
               closed: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """A kind of Chebyshev's: `closed(angle, n)` for degrees above 8 inside (-1, 1)."""
    where = NAMESPACE["where"]
    high = (n > 8) & (x.abs() < 1)
    low = _recurrence(x, where(high, 0.0, n), first, lambda x, p, q, k: 2 * x * p - q)
    angle = where(high, x, 0.0).acos()
    return where(high, closed(angle, where(high, n, 0.0)), low)


def _t(x: Tensor, n: Tensor) -> Tensor:
    return _chebyshev(x, n, x, lambda a, n: (n * a).cos())


def _u(x: Tensor, n: Tensor) -> Tensor:
    return _chebyshev(x, n, 2 * x, lambda a, n: ((n + 1) * a).sin() / a.sin())


def _v(x: Tensor, n: Tensor) -> Tensor:
    return _chebyshev(x, n, 2 * x - 1, lambda a, n: ((n + 0.5) * a).cos() / (a / 2).cos())


def _w(x: Tensor, n: Tensor) -> Tensor:
    return _chebyshev(x, n, 2 * x + 1, lambda a, n: ((n + 0.5) * a).sin() / (a / 2).sin())


def _evaluated(body: Callable[[Tensor, Tensor], Tensor], input: Any, n: Any) -> Tensor:
    """The values of a polynomial at broadcast arguments and degrees (truncated to integers), in their common floating dtype."""
    dtype = result_dtype([(x._layout.dtype, DIMENSIONED if x._layout.ndim else ZERO_DIM) if isinstance(x, Tensor) else
                          (number_dtype(x), NUMBER) for x in (input, n)])
    dtype = dtype if dtype.is_floating_point else get_default_dtype()
    x, degree = [a.detach().to(float64) if isinstance(a, Tensor) else NAMESPACE["tensor"](float(a), dtype=float64)
                 for a in (input, n)]
    x, degree = NAMESPACE["broadcast_tensors"](x, degree)
    return body(x, degree.trunc()).to(dtype)


def _declare(name: str, body: Callable[[Tensor, Tensor], Tensor], words: str) -> Callable:
    def implementation(input: Operand, n: Operand):
        return _evaluated(body, input, n)
    implementation.__doc__ = f"{words} of degree n at input, with broadcasting; 0 for a negative degree. Not differentiable."
    implementation.__annotations__ = {"input": "Operand", "n": "Operand"}
    return operator(method=False, function=False, out=True, name=f"special_{name}")(implementation)


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
