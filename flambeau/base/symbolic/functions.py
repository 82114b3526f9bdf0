"""Functions in expressions: floor division, remainders, minima and maxima, conversions between integers and floats.

Each is simplified when it is made, as PyTorch's are. Used through `expressions.rebuild`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.base.symbolic.expressions import (
    ONE,
    ZERO,
    Expr,
    as_expr,
    base_and_exponent,
    builder,
    coefficient,
    factors,
    float_of,
    integer,
    power,
    product,
    sort_key,
    sum_of,
    terms,
)

__all__ = ["ceil_div", "floor_div", "largest", "mod", "python_mod", "smallest"]


# ---------------------------------------------------------------- division


def _content(e: Expr) -> int:
    """The greatest number that divides all terms' coefficients."""
    return math.gcd(*[int(coefficient(t)[0].value) for t in terms(e)])


def divided(e: Expr, divisor: Expr) -> Expr | None:
    """The quotient where the division is exact by the look of it; None otherwise."""
    if divisor.kind == "Integer":
        n = divisor.value
        made = []
        for t in terms(e):
            c, rest = coefficient(t)
            if c.kind != "Integer" or c.value % n:
                return None
            made.append(product(integer(c.value // n), rest))
        return sum_of(*made)
    for factor in factors(divisor):
        if factor.kind == "Integer":
            quotient = divided(e, factor)
        else:
            quotient = _without(e, *base_and_exponent(factor))
        if quotient is None:
            return None
        e = quotient
    return e


def _without(e: Expr, base: Expr, exponent: int) -> Expr | None:
    """The quotient by a power that all terms, or e itself, have as a factor."""
    for parts in ((e,), terms(e)):
        made = []
        for t in parts:
            held = next((f for f in factors(t) if base_and_exponent(f)[0] == base), None)
            if held is None or base_and_exponent(held)[1] < exponent:
                break
            rest = [f for f in factors(t) if f is not held]
            made.append(product(*rest, power(base, base_and_exponent(held)[1] - exponent)))
        else:
            return sum_of(*made)
    return None


@builder("FloorDiv")
def floor_div(base: Expr, divisor: Expr) -> Expr:
    """base // divisor, rounding down. ZeroDivisionError for 0."""
    if divisor == ZERO:
        raise ZeroDivisionError("division by zero")
    if base in (ZERO, divisor):
        return ZERO if base == ZERO else ONE
    if divisor == ONE:
        return base
    if divisor == integer(-1):
        return product(divisor, base)
    if base.kind == divisor.kind == "Integer":
        return integer(base.value // divisor.value)
    if base.kind == "FloorDiv":
        return floor_div(base.args[0], product(base.args[1], divisor))
    if divisor.kind == "Integer":
        exact = [t for t in terms(base) if divided(t, divisor) is not None]
        if exact:
            whole = sum_of(*[q for t in exact if (q := divided(t, divisor)) is not None])
            return sum_of(floor_div(sum_of(*[t for t in terms(base) if t not in exact]), divisor), whole)
    common = math.gcd(_content(base), _content(divisor))
    shared = integer(common)
    for factor in factors(divisor):
        if not factor.is_number and divided(base, factor) is not None:
            shared = product(shared, factor)
    if shared != ONE:
        p, q = divided(base, shared), divided(divisor, shared)
        if p is not None and q is not None:
            return floor_div(p, q)
    nonnegative = base.is_nonnegative and divisor.is_nonnegative
    return Expr("FloorDiv", (base, divisor), nonnegative=nonnegative)


builder("CleanDiv")(floor_div)


def ceil_div(base: Expr, divisor: Expr) -> Expr:
    """The quotient rounded up."""
    exact = divided(base, divisor)
    return exact if exact is not None else floor_div(base + (divisor - 1), divisor)


@builder("CeilDiv")
def _ceil_div(base: Expr, divisor: Expr) -> Expr:
    return ceil_div(base, divisor)


def _remainder(kind: str) -> Callable[[Expr, Expr], Expr]:
    def make(p: Expr, q: Expr) -> Expr:
        if q == ZERO:
            raise ZeroDivisionError("Modulo by zero")
        if p in (ZERO, q) or q == ONE or divided(p, q) is not None:
            return ZERO
        if p.is_number and q.is_number:
            return as_expr(p.value % q.value)
        return Expr(kind, (p, q), nonnegative=kind == "Mod" or q.is_positive)

    return builder(kind)(make)


mod, python_mod = _remainder("Mod"), _remainder("PythonMod")


# ---------------------------------------------------------------- minima and maxima


def _extreme(kind: str, better: Callable[[Any, Any], Any]) -> Callable[..., Expr]:
    def make(*args: Expr) -> Expr:
        number: Any = None
        rest: list[Expr] = []
        for a in [b for arg in args for b in (arg.args if arg.kind == kind else (arg,))]:
            if a.is_number:
                number = a.value if number is None else better(number, a.value)
            elif a not in rest:
                rest.append(a)
        if number is not None and kind == "Max":
            if any(_at_least(e, number) for e in rest):
                number = None
        elif number is not None:
            rest = [e for e in rest if not _at_least(e, number)]
        rest = _comparable(rest, kind)
        rest.sort(key=sort_key)
        if number is not None:
            rest.insert(0, as_expr(number))
        if len(rest) == 1:
            return rest[0]
        signs = any if kind == "Max" else all
        return Expr(kind, tuple(rest), integer=all(a.is_integer for a in rest), positive=signs(a.is_positive for a in rest),
                    nonnegative=signs(a.is_nonnegative for a in rest))  # fmt: skip

    return builder(kind)(make)


def _at_least(e: Expr, n: Any) -> bool:
    """Whether an expression is never below a number, by the signs of its symbols."""
    return (n <= 0 and e.is_nonnegative) or (n <= 1 and e.is_positive and e.is_integer)


def _comparable(args: list[Expr], kind: str) -> list[Expr]:
    """Without those that differ from another one by a multiple of a symbol of known sign."""
    kept = list(args)
    for a in args:
        for b in args:
            if a is b or a not in kept or b not in kept:
                continue
            (ca, ra), (cb, rb) = coefficient(a), coefficient(b)
            if ra == rb and ra.is_nonnegative:
                kept.remove(a if (ca.value < cb.value) == (kind == "Max") else b)
    return kept


largest, smallest = _extreme("Max", max), _extreme("Min", min)


# ---------------------------------------------------------------- floats


@builder("ToFloat")
def to_float(x: Expr) -> Expr:
    """The number as a float."""
    if x.is_number:
        return float_of(x.value)
    return Expr("ToFloat", (x,), integer=False, positive=x.is_positive, nonnegative=x.is_nonnegative)


def _rounding(kind: str, how: Callable[[float], int]) -> None:
    @builder(kind)
    def make(x: Expr) -> Expr:
        if x.is_number:
            return integer(how(x.value))
        return Expr(kind, (x,), nonnegative=x.is_nonnegative)


_rounding("TruncToInt", math.trunc)
_rounding("FloorToInt", math.floor)
_rounding("CeilToInt", math.ceil)
_rounding("RoundToInt", round)


def _float_function(kind: str, compute: Callable[..., float]) -> None:
    @builder(kind)
    def make(*args: Expr) -> Expr:
        if all(a.is_number for a in args):
            return float_of(compute(*[a.value for a in args]))
        return Expr(kind, args, integer=False, positive=all(a.is_positive for a in args),
                    nonnegative=all(a.is_nonnegative for a in args))  # fmt: skip


_float_function("IntTrueDiv", lambda a, b: a / b)
_float_function("FloatTrueDiv", lambda a, b: a / b)
_float_function("FloatPow", lambda a, b: a**b)
_float_function("OpaqueUnaryFn_sqrt", math.sqrt)
_float_function("RoundDecimal", lambda a, n: round(a, int(n)))
_float_function("TruncToFloat", lambda a: float(math.trunc(a)))


@builder("PowByNatural")
def power_by_natural(base: Expr, exponent: Expr) -> Expr:
    """base ** exponent for an exponent that isn't negative."""
    if exponent.kind == "Integer":
        return power(base, exponent.value)
    return Expr("PowByNatural", (base, exponent), positive=base.is_positive, nonnegative=base.is_nonnegative)


@builder("Where")
def where(condition: Expr, p: Expr, q: Expr) -> Expr:
    """p if the condition holds, else q."""
    if condition.kind in ("true", "false"):
        return p if condition.kind == "true" else q
    return Expr("Where", (condition, p, q), integer=p.is_integer and q.is_integer,
                positive=p.is_positive and q.is_positive, nonnegative=p.is_nonnegative and q.is_nonnegative)  # fmt: skip


@builder("Identity")
def identity(x: Expr) -> Expr:
    """The expression itself, which isn't taken apart further."""
    return Expr("Identity", (x,), integer=x.is_integer, positive=x.is_positive, nonnegative=x.is_nonnegative)


@builder("LShift")
def left_shift(base: Expr, shift: Expr) -> Expr:
    """base << shift."""
    return product(base, power_by_natural(integer(2), shift))


@builder("RShift")
def right_shift(base: Expr, shift: Expr) -> Expr:
    """base >> shift."""
    return floor_div(base, power_by_natural(integer(2), shift))
