"""Loop nests: what a kernel computes, without how it is laid out in memory.

A nest has operands (outputs first, then inputs), run-time scalars, and stages over one row: a `Loop` runs along the inner axes
(the reduced ones, or simply the innermost), folding values into reductions and storing elements; a `Row` stores one value per
row from what the loops before it found. Pointwise operators, reductions, softmax, norms and scans are all of this form; each
row stays in cache between its stages. Stands on ir.scalar; codegen.loops.nest turns a nest into a kernel, codegen.loops.schedule
lays it over the axes of concrete tensors.

Leaves of the expressions: `element(k)` (input k at the current index), `stored(k)` (output k there, written by an earlier stage),
`number(k)` (scalar k), `folded(name)` (result of a
reduction; in its own scan loop, the running value), `position()` (index along the inner axes), and `pick(k, index)` (input k
moved by `index` along the axis that its plan names, bounds checked).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import int64
from flambeau.base.lazy_import import kept
from flambeau.ir.expression import describe
from flambeau.ir.scalar import Expr, compute_dtype, leaf, make, topological


def element(k: int, dtype: DType) -> Expr:
    """Input `k` at the current index; `dtype` is its storage dtype."""
    return leaf(f"in{k}", compute_dtype(dtype))


def stored(k: int, dtype: DType) -> Expr:
    """What an earlier stage of the row stored in output `k` at the current index."""
    return leaf(f"out{k}", compute_dtype(dtype))


def number(k: int, dtype: DType) -> Expr:
    """Run-time scalar `k` as a value of compute dtype `dtype`."""
    return leaf(f"s{k}", compute_dtype(dtype))


def folded(name: str, dtype: DType) -> Expr:
    """The result of the reduction component `name`."""
    return leaf(f"acc:{name}", dtype)


def position() -> Expr:
    """The index along the inner axes, counted in row-major order over all of them."""
    return leaf("r", int64)


def pick(k: int, index: Expr, dtype: DType) -> Expr:
    """Input `k` at the current index, moved by `index` (int64) along its pick axis."""
    return make("pick", (index,), compute_dtype(dtype), k)


@dataclass(frozen=True)
class Fold:
    """A reduction: components `names`, their first values, the value of one element, and how two partial results combine.

    `combine(a, b)` gets and gives tuples of expressions; it must be associative and commutative up to rounding (for
    `Loop(scan=True)` only associative: b is the later one), and combining with the first values must change nothing.
    """

    names: tuple[str, ...]
    start: tuple[Expr, ...]
    lift: tuple[Expr, ...]
    combine: Callable[[tuple[Expr, ...], tuple[Expr, ...]], tuple[Expr, ...]]

    def leaves(self) -> tuple[Expr, ...]:
        return tuple(folded(n, s.dtype) for n, s in zip(self.names, self.start))


@dataclass(frozen=True)
class Loop:
    """Along the inner axes: fold, and store `(output, expression)` pairs. A scan stores running values, in order; if `grouped`,
    neighbours may be combined with each other before they are with what came before.
    """

    folds: tuple[Fold, ...] = ()
    stores: tuple[tuple[int, Expr], ...] = ()
    scan: bool = False
    grouped: bool = False

    @property
    def expressions(self) -> list[Expr]:
        """What is computed of an element."""
        return [e for _, e in self.stores] + [e for fold in self.folds for e in fold.lift]


@dataclass(frozen=True)
class Row:
    """Once per row: store `(output, expression)` pairs."""

    stores: tuple[tuple[int, Expr], ...]

    @property
    def expressions(self) -> list[Expr]:
        """What is computed of a row."""
        return [e for _, e in self.stores]


@dataclass(frozen=True)
class Nest:
    """Operands' storage dtypes, kinds and compute dtypes of scalars ("f", "i", "c"), and the stages."""

    name: str
    outputs: tuple[DType, ...]
    inputs: tuple[DType, ...]
    stages: tuple[Loop | Row, ...]
    scalars: tuple[tuple[str, DType], ...] = ()

    @kept
    def may_refuse(self) -> bool:
        """Whether it may find bad data: by a pick, whose position is out of range, or by a guard."""
        return any(n.op in ("pick", "guard") for s in self.stages for e in s.expressions for n in topological(e))

    @kept
    def key(self) -> tuple:
        """Content without the functions in it: folds are identified by their combined expressions."""
        stages = []
        for s in self.stages:
            folds: tuple[Any, ...] = ()
            if isinstance(s, Loop):
                folds = tuple((f.names, f.start, f.lift, combined(f)) for f in s.folds)
            stages.append((type(s).__name__, folds, s.stores, getattr(s, "scan", False), getattr(s, "grouped", False)))
        return self.outputs, self.inputs, tuple(stages), self.scalars

    def description(self) -> str:
        """All that a kernel's text depends on, as a text: the same in every process."""
        lines = [f"{[d.name for d in self.outputs]} {[d.name for d in self.inputs]} {[(k, d.name) for k, d in self.scalars]}"]
        for s in self.stages:
            folds = s.folds if isinstance(s, Loop) else ()
            kind = f"{type(s).__name__} {getattr(s, 'scan', False)} {getattr(s, 'grouped', False)}"
            lines.append(f"{kind} {[j for j, _ in s.stores]} {[f.names for f in folds]}")
            lines.append(describe(*(e for _, e in s.stores), *(e for f in folds for e in (*f.start, *f.lift, *combined(f)))))
        return "\n".join(lines)

    def pointwise(self) -> bool:
        """Whether every element is independent of the others."""
        return all(isinstance(s, Loop) and not s.folds for s in self.stages)


def combined(fold: Fold) -> tuple[Expr, ...]:
    """The fold's combination of two symbolic partial results."""
    a = tuple(leaf(f"a{i}", s.dtype) for i, s in enumerate(fold.start))
    b = tuple(leaf(f"b{i}", s.dtype) for i, s in enumerate(fold.start))
    return tuple(fold.combine(a, b))


def steady(expressions: Sequence[Expr], known: Callable[[Expr], bool]) -> list[Expr]:
    """The largest subexpressions made of `known` leaves (at least one), numbers and constants: what is the same along the row."""
    kinds: dict[Expr, int] = {}  # 0: changes along the row; 1: constants and numbers; 2: known leaves too
    for node in topological(*expressions):
        if known(node):
            kinds[node] = 2
        elif node.args and node.op not in ("pick", "guard"):
            of_args = [kinds[x] for x in node.args]
            kinds[node] = max(of_args) if min(of_args) else 0
        else:
            kinds[node] = int(node.op == "constant" or (node.op == "leaf" and str(node.value)[0] == "s"))
    found: dict[Expr, None] = {}
    pending = list(expressions)
    seen = set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if kinds[node] == 2 and node.args and not known(node):
            found[node] = None
        elif not kinds[node]:
            pending.extend(node.args)
    return list(found)
