"""Trees: a program's statements and expressions after parsing, each with the range of text that it and its parts cover.

Stands on ir.source; made by parsing, read by the emitter and by what reads annotations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flambeau.jit.ir.source import SourceRange

__all__ = [
    "Apply", "Assert", "Assign", "AugAssign", "BinOp", "Break", "ClassDef", "Const", "Continue", "Def", "Delete", "DictComp",
    "DictLiteral", "Dots", "Expr", "ExprStmt", "For", "If", "ListComp", "ListLiteral", "Literal", "Param", "Pass", "Raise",
    "Return",
    "Select", "SliceExpr", "Starred", "Stmt", "StringLiteral", "Subscript", "TernaryIf", "TupleLiteral", "UnaryOp", "Var",
    "While",
    "With", "covering",
]  # fmt: skip


@dataclass(eq=False, slots=True)
class Tree:
    """Anything with a range."""

    range: SourceRange


class Expr(Tree):
    """What has a value."""

    __slots__ = ()


class Stmt(Tree):
    """What does something."""

    __slots__ = ()


def covering(where: SourceRange, *parts: Any) -> SourceRange:
    """The range with those of parts; parts may be lists or None."""
    for part in parts:
        if isinstance(part, list):
            where = covering(where, *part)
        elif part is not None:
            where = where.merged(part if isinstance(part, SourceRange) else part.range)
    return where


# ---------------------------------------------------------------- expressions


@dataclass(eq=False, slots=True)
class Var(Expr):
    """A name."""

    name: str


@dataclass(eq=False, slots=True)
class Const(Expr):
    """A number."""

    value: int | float | complex


@dataclass(eq=False, slots=True)
class StringLiteral(Expr):
    """A text."""

    text: str


@dataclass(eq=False, slots=True)
class Literal(Expr):
    """True, False or None."""

    value: bool | None


@dataclass(eq=False, slots=True)
class Dots(Expr):
    """`...`."""


@dataclass(eq=False, slots=True)
class Select(Expr):
    """`value.name`."""

    value: Expr
    name: str


@dataclass(eq=False, slots=True)
class Apply(Expr):
    """`callee(inputs, name=value)`."""

    callee: Expr
    inputs: list[Expr]
    attributes: list[tuple[str, Expr]]


@dataclass(eq=False, slots=True)
class BinOp(Expr):
    """Two values and a sign between them: arithmetic, comparisons, `and`, `or`, `in`, `is`."""

    op: str
    lhs: Expr
    rhs: Expr


@dataclass(eq=False, slots=True)
class UnaryOp(Expr):
    """A sign in front of a value: `-`, `~`, `not`."""

    op: str
    operand: Expr


@dataclass(eq=False, slots=True)
class TernaryIf(Expr):
    """`true if cond else false`."""

    cond: Expr
    true: Expr
    false: Expr


@dataclass(eq=False, slots=True)
class Subscript(Expr):
    """`value[items]`."""

    value: Expr
    items: list[Expr]


@dataclass(eq=False, slots=True)
class SliceExpr(Expr):
    """`start:stop:step`."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(eq=False, slots=True)
class ListLiteral(Expr):
    """`[a, b]`."""

    inputs: list[Expr]


@dataclass(eq=False, slots=True)
class TupleLiteral(Expr):
    """`(a, b)`."""

    inputs: list[Expr]


@dataclass(eq=False, slots=True)
class DictLiteral(Expr):
    """`{a: b}`."""

    keys: list[Expr]
    values: list[Expr]


@dataclass(eq=False, slots=True)
class ListComp(Expr):
    """`[elt for target in iter]`."""

    elt: Expr
    target: Expr
    iter: Expr


@dataclass(eq=False, slots=True)
class DictComp(Expr):
    """`{key: value for target in iter}`."""

    key: Expr
    value: Expr
    target: Expr
    iter: Expr


@dataclass(eq=False, slots=True)
class Starred(Expr):
    """`*value`."""

    value: Expr


# ---------------------------------------------------------------- statements


@dataclass(eq=False, slots=True)
class ExprStmt(Stmt):
    """A value that is worked out and left."""

    expr: Expr


@dataclass(eq=False, slots=True)
class Assign(Stmt):
    """`targets = value`, or `target: type = value`."""

    targets: list[Expr]
    value: Expr
    type: Expr | None = None


@dataclass(eq=False, slots=True)
class AugAssign(Stmt):
    """`target += value`."""

    target: Expr
    op: str
    value: Expr


@dataclass(eq=False, slots=True)
class Return(Stmt):
    """`return value`."""

    value: Expr


@dataclass(eq=False, slots=True)
class Raise(Stmt):
    """`raise value`."""

    value: Expr


@dataclass(eq=False, slots=True)
class Assert(Stmt):
    """`assert test, message`."""

    test: Expr
    message: Expr | None


@dataclass(eq=False, slots=True)
class If(Stmt):
    """`if cond: ... else: ...`."""

    cond: Expr
    true: list[Stmt]
    false: list[Stmt]


@dataclass(eq=False, slots=True)
class While(Stmt):
    """`while cond: ...`."""

    cond: Expr
    body: list[Stmt]


@dataclass(eq=False, slots=True)
class For(Stmt):
    """`for target in iter: ...`."""

    target: Expr
    iter: Expr
    body: list[Stmt]


@dataclass(eq=False, slots=True)
class With(Stmt):
    """`with value as name: ...`; the items are pairs of an expression and the name's, or None."""

    items: list[tuple[SourceRange, Expr, Expr | None]]
    body: list[Stmt]


@dataclass(eq=False, slots=True)
class Delete(Stmt):
    """`del targets`."""

    targets: list[Expr]


class Pass(Stmt):
    """`pass`."""

    __slots__ = ()


class Break(Stmt):
    """`break`."""

    __slots__ = ()


class Continue(Stmt):
    """`continue`."""

    __slots__ = ()


# ---------------------------------------------------------------- definitions


@dataclass(eq=False, slots=True)
class Param(Tree):
    """A parameter: its name, its annotation if there is one, its default in the text (None in programs of Python's)."""

    name: str
    type: Expr | None
    kwarg_only: bool = False
    default: Expr | None = None


@dataclass(eq=False, slots=True)
class Def(Tree):
    """A function. `range` covers all of it, `name_range` its first word."""

    name: str
    params: list[Param]
    returns: Expr | None
    body: list[Stmt] = field(default_factory=list)
    name_range: SourceRange | None = None


@dataclass(eq=False, slots=True)
class Closure(Stmt):
    """A function in a function, which archives write for what is called later."""

    function: Def


@dataclass(eq=False, slots=True)
class ClassDef(Tree):
    """A class, as archives write it: assignments and methods in order."""

    name: str
    bases: list[Expr]
    assigns: list[Assign] = field(default_factory=list)
    methods: list[Def] = field(default_factory=list)
    annotations: list[tuple[str, Expr]] = field(default_factory=list)
