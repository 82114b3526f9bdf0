"""Finding the expression that numbers at several points are values of. Used by evidence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from flambeau.base.symbolic.expressions import Expr, integer, product, rebuild, sum_of

__all__ = ["Disagreement", "fitted"]

_MOST_STEPS = 64  # windows of strides up to this


class Disagreement(Exception):
    """Results at other sizes aren't what was said, or no expression is found for them."""


def fitted(wanted: Sequence[int], known: Sequence[Expr], values: Callable[[Expr], list[int]]) -> Expr:
    """The expression of `known` ones with these values; `values` gives those of an expression at the same points.

    One of them, a multiple and a number more, of products and sums of few of them, their least or greatest, or of a quotient
    rounded down; Disagreement if it is none of these.
    """
    if len(set(wanted)) == 1:
        return integer(wanted[0])
    wanted = list(wanted)
    for e in known:
        if values(e) == wanted:
            return e
    monomials = [*known, *[product(a, b) for a, b in itertools.combinations_with_replacement(known[:12], 2)]]
    monomials += [product(*c) for count in (3, 4) for c in itertools.combinations(known[:6], count)]
    monomials += [product(a, a, b) for a, b in itertools.permutations(known[:5], 2)]
    for m in monomials:
        found = _line(values(m), wanted)
        if found is not None:
            return integer(found[0]) * m + found[1]
    for count in (2, 3, 4):
        for chosen in itertools.combinations(monomials[:10], count):
            total = sum_of(*chosen)
            found = _line(values(total), wanted)
            if found is not None and found[0] == 1:
                return total + found[1]
    for kind, pick in (("Min", min), ("Max", max)):
        for a, b in itertools.combinations(known[:12], 2):
            found = _line(list(map(pick, values(a), values(b))), wanted)
            if found is not None and found[0] == 1:
                return rebuild(kind, (a, b)) + found[1]
    for e in monomials[:24]:
        steps = _steps(values(e), wanted)
        if steps is not None:
            before, divisor, behind = steps
            return rebuild("FloorDiv", (e + before, integer(divisor))) + behind
    raise Disagreement


def _line(x: Sequence[int], y: Sequence[int]) -> tuple[int, int] | None:
    """(a, b) such that y = a*x + b in whole numbers."""
    for i in range(1, len(x)):
        if x[i] != x[0]:
            slope, rest = divmod(y[i] - y[0], x[i] - x[0])
            if rest or not slope:
                return None
            offset = y[0] - slope * x[0]
            return (slope, offset) if all(slope * p + offset == q for p, q in zip(x, y)) else None
    return None


def _steps(x: Sequence[int], y: Sequence[int]) -> tuple[int, int, int] | None:
    """(a, d, b) such that y = (x + a)//d + b, with the smallest d and the a nearest to 0."""
    for d in range(2, _MOST_STEPS + 1):
        for a in sorted(range(-d + 1, d), key=abs):
            b = y[0] - (x[0] + a) // d
            if all((p + a) // d + b == q for p, q in zip(x, y)):
                return a, d, b
    return None
