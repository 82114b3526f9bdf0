"""Relations between expressions and what logic makes of them; those that signs of symbols decide are true or false."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from flambeau.base.symbolic.expressions import Expr, as_expr, builder, sort_key

__all__ = ["FALSE", "NEGATED", "OPERATORS", "TRUE", "conjunction", "disjunction", "negation", "relation"]

TRUE, FALSE = as_expr(True), as_expr(False)
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "Eq": operator.eq, "Ne": operator.ne, "Lt": operator.lt, "Le": operator.le, "Gt": operator.gt, "Ge": operator.ge,
}  # fmt: skip
#: The relation that holds where another doesn't.
NEGATED = {"Eq": "Ne", "Ne": "Eq", "Lt": "Ge", "Ge": "Lt", "Gt": "Le", "Le": "Gt"}


def relation(kind: str, a: Expr, b: Expr) -> Expr:
    """a relation of two expressions; true or false where it is known."""
    if a.is_number and b.is_number:
        return as_expr(OPERATORS[kind](a.value, b.value))
    if a == b:
        return as_expr(kind in ("Eq", "Le", "Ge"))
    difference = a - b
    if difference.is_number:
        return as_expr(OPERATORS[kind](difference.value, 0))
    for sign, d in ((1, difference), (-1, -difference)):
        if d.is_positive:
            return as_expr(OPERATORS[kind](sign, 0))
        if d.is_nonnegative and kind in ("Ge", "Lt") and sign == 1:
            return as_expr(kind == "Ge")
        if d.is_nonnegative and kind in ("Le", "Gt") and sign == -1:
            return as_expr(kind == "Le")
    return Expr(kind, (a, b), integer=False)


def _relation_of(kind: str) -> None:
    @builder(kind)
    def make(a: Expr, b: Expr) -> Expr:
        return relation(kind, a, b)


for _kind in OPERATORS:
    _relation_of(_kind)


def _logical(kind: str, decides: Expr, neutral: Expr) -> Callable[..., Expr]:
    def make(*args: Expr) -> Expr:
        found: list[Expr] = []
        for a in [b for arg in args for b in (arg.args if arg.kind == kind else (arg,))]:
            if a == decides:
                return decides
            if a != neutral and a not in found:
                found.append(a)
        if len(found) <= 1:
            return found[0] if found else neutral
        return Expr(kind, tuple(sorted(found, key=sort_key)), integer=False)

    return builder(kind)(make)


conjunction, disjunction = _logical("And", FALSE, TRUE), _logical("Or", TRUE, FALSE)


@builder("Not")
def negation(a: Expr) -> Expr:
    """not a."""
    if a.kind in ("true", "false"):
        return FALSE if a.kind == "true" else TRUE
    if a.kind in NEGATED:
        return relation(NEGATED[a.kind], *a.args)
    if a.kind == "Not":
        return a.args[0]
    return Expr("Not", (a,), integer=False)
