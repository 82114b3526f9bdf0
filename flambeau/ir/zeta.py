"""The body of the Hurwitz zeta function, which polygamma functions and their derivatives are made of.

Stands on ir.scalar; used through ir.functions.
"""

from __future__ import annotations

from flambeau.base.dtype import float64
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr

#: Coefficients (2k)! / B_2k of the Euler-Maclaurin sum.
_MACLAURIN = (
    12.0,
    -720.0,
    30240.0,
    -1209600.0,
    47900160.0,
    -1.8924375803183791606e9,
    7.47242496e10,
    -2.950130727918164224e12,
    1.1646782814350067249e14,
    -4.5979787224074726105e15,
    1.8152105401943546773e17,
    -7.1661652561756670113e18,
)


def _positive_zeta(x: Expr, q: Expr) -> Expr:
    """The Hurwitz zeta function for x > 1 and q > 0: ten terms, then the Euler-Maclaurin formula for the rest."""
    total = s.apart(s.pow, q, -x)
    a = q
    for _ in range(9):
        a = a + 1
        last = s.apart(s.pow, a, -x)
        total = total + last
    total = total + last * a / (x - 1) - last * 0.5
    terms, factor, power, k = total, s.constant(1.0, x.dtype), last, 0
    for coefficient in _MACLAURIN:
        factor = factor * (x + k)
        power = power / a
        total = total + factor * power * (1 / coefficient)
        factor = factor * (x + (k + 1))
        power = power / a
        k += 2
    return s.where(last == 0, terms, total)  # beside a vanishing term the factor may be infinite


def hurwitz_zeta(node: Expr, x: Expr, q: Expr) -> Expr:
    """Infinite at x = 1 and at whole q <= 0, NaN below x = 1 and for other x where q < 0."""
    x, q = s.cast(x, float64), s.cast(q, float64)  # terms of a float32 sum would underflow
    infinity, nan = float("inf"), float("nan")
    # The terms of a negative q up to zero are, but for the sign of odd powers, those of -q down to its fraction.
    below = q <= 0
    size = s.where(below, -q, 0)
    fraction = size - s.floor(size)
    upper, first, last = (
        s.apart(_positive_zeta, x, place)
        for place in (s.where(below, 1 - fraction, q), s.where(fraction == 0, 1, fraction), size + 1)
    )
    lower = first - last
    odd = s.floor(x * 0.5) * 2 != x
    value = s.where(below, upper + s.where(odd, -lower, lower), upper)
    value = s.where(below, s.where(fraction == 0, infinity, s.where(s.floor(x) == x, value, nan)), value)
    return s.cast(s.where(x == 1, infinity, s.where(x < 1, nan, value)), node.dtype)


BODIES = {"zeta": hurwitz_zeta}
