"""Solving a relation for a symbol, and its normal form, by which facts are known again. Stands on `relations` and `ranges`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flambeau.base.symbolic.expressions import ZERO, Expr, expand, integer, product, sum_of, terms
from flambeau.base.symbolic.expressions import coefficient as coefficient_of
from flambeau.base.symbolic.functions import divided

__all__ = ["MIRRORED", "canonical", "isolated", "solve_point"]

#: The relation seen from its other side.
MIRRORED = {"Eq": "Eq", "Ne": "Ne", "Lt": "Gt", "Le": "Ge", "Gt": "Lt", "Ge": "Le"}


def isolated(e: Expr, symbol: Expr) -> tuple[str, Expr] | None:
    """(relation, right side) that a relation says of a symbol of integers: ("Ge", 5) for s//2 >= 2 + 0*... ; None if it can't be
    had in whole numbers.
    """
    kind, (left, right) = e.kind, e.args
    if symbol in left.free_symbols and symbol in right.free_symbols:
        left, right = expand(left - right), ZERO
    elif symbol not in left.free_symbols:
        kind, left, right = MIRRORED[kind], right, left
    while left != symbol:
        if left.kind == "Add":
            own = [t for t in left.args if symbol in t.free_symbols]
            if not own:  # each side has it, their difference hasn't
                return None
            rest = sum_of(*[t for t in left.args if t not in own])
            right = right - rest
            if len(own) > 1:
                shared = _shared(own, symbol)
                if shared is None:
                    return None
                own = [shared]
            left = own[0]
        elif left.kind == "Mul":
            other = product(*[f for f in left.args if symbol not in f.free_symbols])
            left = product(*[f for f in left.args if symbol in f.free_symbols])
            found = _divided(kind, right, other)
            if found is None or left.kind == "Mul":
                return None
            kind, right = found
        elif left.kind == "FloorDiv" and kind in ("Gt", "Ge", "Lt", "Le"):
            base, divisor = left.args
            if divisor.kind != "Integer" or divisor.value < 0:
                return None
            if kind in ("Gt", "Ge"):
                kind, right = "Ge", (right if kind == "Ge" else right + 1) * divisor
            else:
                kind, right = "Lt", (right if kind == "Lt" else right + 1) * divisor
            left = base
        else:
            return None
    return kind, right


def _shared(own: list[Expr], symbol: Expr) -> Expr | None:
    """A sum of multiples of a symbol as one product."""
    quotients = [divided(t, symbol) for t in own]
    if any(q is None or symbol in q.free_symbols for q in quotients):
        return None
    total = sum_of(*[q for q in quotients if q is not None])
    return Expr("Mul", (total, symbol))


def _divided(kind: str, right: Expr, other: Expr) -> tuple[str, Expr] | None:
    if kind in ("Eq", "Ne"):
        quotient = ZERO if right == ZERO else divided(expand(right), other)
        if quotient is None and expand(right) != right:
            quotient = divided(right, other)
        if quotient is None or (right == ZERO and not other.is_number):
            return None
        return kind, quotient
    if other.kind != "Integer":
        quotient = divided(right, other)
        return (kind, quotient) if quotient is not None and other.is_positive else None
    n = other.value
    if n < 0:
        kind, right, n = MIRRORED[kind], -right, -n
    exact = divided(right, integer(n))
    if exact is not None:
        return kind, exact
    if right.kind != "Integer":
        return None
    down = right.value // n  # there is no whole number at the bound itself
    return ("Le", integer(down)) if kind in ("Lt", "Le") else ("Ge", integer(down + 1))


def canonical(e: Expr) -> tuple[str, Expr, int] | None:
    """(kind, x, n) such that a relation of integers says x == n, x != n or x <= n; None for anything else."""
    if e.kind not in MIRRORED or not all(a.is_integer for a in e.args):
        return None
    kind = e.kind
    d = expand(e.args[0] - e.args[1])
    if kind in ("Gt", "Ge"):
        kind, d = MIRRORED[kind], -d
    constant = next((int(t.value) for t in terms(d) if t.is_number), 0)
    rest = sum_of(*[t for t in terms(d) if not t.is_number])
    if rest == ZERO:
        return None
    bound = -constant - (kind == "Lt")
    content = math.gcd(*[int(coefficient_of(t)[0].value) for t in terms(rest)])
    if content > 1:
        if kind in ("Eq", "Ne") and bound % content:
            return None
        rest, bound = product_by(rest, content), bound // content
    if kind in ("Eq", "Ne") and coefficient_of(terms(rest)[0])[0].value < 0:
        rest, bound = -rest, -bound
    return ("Le" if kind == "Lt" else kind), rest, bound


def product_by(e: Expr, n: int) -> Any:
    """The quotient of an expression by a number that divides all its coefficients."""
    return divided(e, integer(n))


#: How far from the other side of a relation the value is that fulfils it and is nearest.
_NEAREST = {"Eq": 0, "Le": 0, "Ge": 0, "Lt": -1, "Gt": 1}


def solve_point(point: dict[Expr, Any], conditions: list[Expr], values: Mapping[Expr, Any]) -> None:
    """Give symbols that equations tell the values that they tell, and those that break a bound the value at the bound."""
    for c in conditions:
        if c.kind in _NEAREST and c.xreplace(point).kind != "true":
            for s in sorted(c.free_symbols, key=lambda s: (values[s], s.name), reverse=True):
                found = isolated(c, s)
                if found is not None and found[0] in _NEAREST:
                    value = found[1].xreplace({k: v for k, v in point.items() if k is not s})
                    if value.kind == "Integer":
                        point[s] = value.value + _NEAREST[found[0]]
                        break
