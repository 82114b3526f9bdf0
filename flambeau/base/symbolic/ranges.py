"""Ranges of values: `ValueRanges(lower, upper)`, printed as VR[2, int_oo], and the range of an expression."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flambeau.base.symbolic.expressions import Expr, coefficient, expand, integer, sum_of, terms
from flambeau.base.symbolic.expressions import product as times

__all__ = ["IntInfinity", "ValueRanges", "int_oo", "range_of"]


class IntInfinity(float):
    """A bound of integers that isn't there: greater than every number; `-int_oo` is less."""

    def __neg__(self) -> IntInfinity:
        return _minus if self > 0 else int_oo

    def __repr__(self) -> str:
        return "int_oo" if self > 0 else "-int_oo"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return _bound, (float(self),)


int_oo, _minus = IntInfinity("inf"), IntInfinity("-inf")


def _bound(value: Any) -> Any:
    """A number as a bound of integers."""
    if isinstance(value, Expr):
        value = value.value
    return (int_oo if value > 0 else _minus) if value in (math.inf, -math.inf) else value


@dataclass(frozen=True)
class ValueRanges:
    """The numbers from `lower` to `upper`; int_oo and -int_oo where there is no bound. ValueError for an empty range."""

    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", _bound(self.lower))
        object.__setattr__(self, "upper", _bound(self.upper))
        if self.lower > self.upper:
            raise ValueError(f"Invalid ranges [{self.lower}:{self.upper}]")

    @property
    def is_int(self) -> bool:
        """Whether the bounds are whole numbers, or none."""
        return all(isinstance(b, (int, IntInfinity)) for b in (self.lower, self.upper))

    def __contains__(self, x: Any) -> bool:
        return bool(self.lower <= x <= self.upper)

    def __and__(self, other: ValueRanges) -> ValueRanges:
        return ValueRanges(max(self.lower, other.lower), min(self.upper, other.upper))

    def __or__(self, other: ValueRanges) -> ValueRanges:
        return ValueRanges(min(self.lower, other.lower), max(self.upper, other.upper))

    def issubset(self, other: ValueRanges) -> bool:
        """Whether the other range holds all of this one."""
        return bool(other.lower <= self.lower and self.upper <= other.upper)

    def is_singleton(self) -> bool:
        """Whether it holds one number."""
        return bool(self.lower == self.upper)

    @staticmethod
    def unknown_int() -> ValueRanges:
        """All integers."""
        return ValueRanges(-int_oo, int_oo)

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {self.upper}]"

    __str__ = __repr__


_ROUNDINGS: dict[str, Callable[[float], int]] = {
    "TruncToInt": math.trunc, "FloorToInt": math.floor, "CeilToInt": math.ceil, "RoundToInt": round,
}  # fmt: skip
_ALL = ValueRanges(-int_oo, int_oo)


def range_of(e: Expr, known: Mapping[Expr, ValueRanges]) -> ValueRanges:
    """A range that holds all values of an expression whose symbols are in `known`, or anything that their signs allow."""
    if e.is_number:
        return ValueRanges(e.value, e.value)
    found = known.get(e)
    if found is not None:
        return found
    made = _of(e, known)
    low = 1 if e.is_positive and e.is_integer else 0 if e.is_nonnegative else -int_oo
    return ValueRanges(max(made.lower, low), made.upper) if made.upper >= low else made


def _of(e: Expr, known: Mapping[Expr, ValueRanges]) -> ValueRanges:
    args = [range_of(a, known) for a in e.args] if e.kind not in ("true", "false") else []
    if e.kind == "Add":
        return ValueRanges(sum(a.lower for a in args), sum(a.upper for a in args))
    if e.kind == "Mul":
        made = args[0]
        for a in args[1:]:
            made = _hull([_times(x, y) for x in (made.lower, made.upper) for y in (a.lower, a.upper)])
        return made
    if e.kind == "Pow":
        base, n = args[0], int(e.args[1])
        ends = [_times_all(base.lower, n), _times_all(base.upper, n)]
        return _hull([*ends, 0] if n % 2 == 0 and 0 in base else ends)
    if e.kind in ("Min", "Max"):
        pick = min if e.kind == "Min" else max
        return ValueRanges(pick(a.lower for a in args), pick(a.upper for a in args))
    if e.kind == "FloorDiv" and (args[1].lower > 0 or args[1].upper < 0):
        return _hull([_floor(x, y) for x in (args[0].lower, args[0].upper) for y in (args[1].lower, args[1].upper)])
    if e.kind in ("Mod", "PythonMod") and args[1].lower > 0:
        most = args[1].upper - 1
        return ValueRanges(0, min(most, args[0].upper) if args[0].lower >= 0 else most)
    if e.kind in ("ToFloat", "Identity"):
        return args[0]
    if e.kind in _ROUNDINGS:
        return ValueRanges(*[b if math.isinf(b) else _ROUNDINGS[e.kind](b) for b in (args[0].lower, args[0].upper)])
    if e.kind == "Where":
        return args[1] | args[2]
    return _ALL


def _times(a: Any, b: Any) -> Any:
    return 0 if 0 in (a, b) else a * b


def _times_all(a: Any, n: int) -> Any:
    return a**n


def _floor(a: Any, b: Any) -> Any:
    if math.isinf(b):
        return 0 if a == 0 or (a > 0) == (b > 0) else (-1 if not math.isinf(a) else -math.inf)
    if math.isinf(a):
        return a if b > 0 else -a
    return a // b


def _hull(values: list[Any]) -> ValueRanges:
    return ValueRanges(min(values), max(values))


def decided(e: Expr, known: Mapping[Expr, ValueRanges]) -> bool | None:
    """Whether a relation holds for all values in the ranges, or for none; None where that differs or isn't seen."""
    if e.kind in ("true", "false"):
        return e.kind == "true"
    if e.kind in ("And", "Or"):
        found = [decided(a, known) for a in e.args]
        stop = e.kind == "Or"
        return stop if stop in found else None if None in found else not stop
    if e.kind == "Not":
        inner = decided(e.args[0], known)
        return None if inner is None else not inner
    if len(e.args) != 2:
        return None
    difference = expand(e.args[0] - e.args[1])
    d = range_of(difference, known)
    if d.lower <= 0 <= d.upper and d.lower != d.upper:
        d = _relaxed(difference, known, d)
    answers = {
        "Eq": (d.lower == d.upper == 0, d.lower > 0 or d.upper < 0 or _odd_content(difference)),
        "Ne": (d.lower > 0 or d.upper < 0 or _odd_content(difference), d.lower == d.upper == 0),
        "Lt": (d.upper < 0, d.lower >= 0), "Le": (d.upper <= 0, d.lower > 0),
        "Gt": (d.lower > 0, d.upper <= 0), "Ge": (d.lower >= 0, d.upper < 0),
    }.get(e.kind)  # fmt: skip
    if answers is None:
        return None
    return True if answers[0] else False if answers[1] else None


def _relaxed(e: Expr, known: Mapping[Expr, ValueRanges], r: ValueRanges) -> ValueRanges:
    """The sign of a sum with quotients x//n, which are between (x - n + 1)/n and x/n; `r` where that says nothing more."""
    parts = [(*coefficient(t), t) for t in terms(e)]
    quotients = [q for _, q, _ in parts if q.kind == "FloorDiv" and q.args[1].kind == "Integer" and q.args[1].is_positive]
    if not quotients or not e.is_integer:
        return r
    scale = math.lcm(*[int(q.args[1].value) for q in quotients])
    ends = []
    for end in (0, 1):
        made = []
        for c, rest, t in parts:
            if rest in quotients:
                base, n = rest.args
                low = (c.value > 0) == (end == 0)
                made.append(times(integer(int(c.value) * scale // int(n.value)), base - (int(n.value) - 1) if low else base))
            else:
                made.append(times(integer(scale), t))
        ends.append(range_of(sum_of(*made), known))
    low, high = max(r.lower, _floor(ends[0].lower, scale)), min(r.upper, _floor(ends[1].upper, scale))
    if ends[0].lower > 0:
        low = max(low, 1)
    elif ends[0].lower > -scale:
        low = max(low, 0)
    return ValueRanges(low, high) if low <= high else r


def _odd_content(difference: Expr) -> bool:
    """Whether an integer expression is never 0, since a number divides all its terms but the constant."""
    if difference.kind != "Add" or not difference.is_integer:
        return False
    constant = [t for t in difference.args if t.is_number]
    rest = [coefficient(t)[0].value for t in difference.args if not t.is_number]
    return bool(constant) and math.gcd(*rest) != 0 and constant[0].value % math.gcd(*rest) != 0
