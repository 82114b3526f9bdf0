"""The checks of an exported program's inputs: sizes that were specialized, ranges, equalities, and what else the trace depends
on.

Each is data: a text, as PyTorch has it, and what computes it from the inputs. Used by `_unlift` and `_constraints`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._subclasses.symbolic.state import kept
from flambeau.base.symbolic.expressions import Expr, integer, rebuild, symbol
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.base.symbolic.ranges import ValueRanges, int_oo
from flambeau.base.symbolic.solving import isolated

__all__ = ["Guard", "alike", "guards_of", "input_texts", "text_of"]

#: (text, check): whether the leaves of the inputs fulfil it.
Guard = tuple[str, Callable[[Sequence[Any]], bool]]
_SIGNS = {"Eq": "==", "Ne": "!=", "Lt": "<", "Le": "<=", "Gt": ">", "Ge": ">="}


def text_of(e: Expr, names: Mapping[Expr, str], level: int = 0) -> str:
    """An expression as PyTorch prints it in Python, with names in the place of symbols."""
    if e.is_symbol:
        return names.get(e, e.name)
    if e.is_number or e.kind in ("true", "false"):
        return str(e)
    if e.kind in _SIGNS:
        return f"{text_of(e.args[0], names, 2)} {_SIGNS[e.kind]} {text_of(e.args[1], names, 2)}"
    if e.kind in ("And", "Or"):
        joined = f" {e.kind.lower()} ".join(text_of(a, names, 1) for a in e.args)
        return f"({joined})" if level else joined
    if e.kind in ("Add", "Mul"):
        own, sign = (3, " + ") if e.kind == "Add" else (4, "*")
        joined = sign.join(text_of(a, names, own) for a in sorted(e.args, key=_numbers_first))
        return f"({joined})" if level > own else joined
    if e.kind in ("Mod", "PythonMod", "FloorDiv", "IntTrueDiv"):
        sign = {"FloorDiv": " // ", "IntTrueDiv": " / "}.get(e.kind, " % ")
        joined = sign.join(text_of(a, names, 5) for a in e.args)
        return f"({joined})"
    if e.kind == "Pow":
        return "*".join([text_of(e.args[0], names, 4)] * int(e.args[1]))
    if e.kind in ("Max", "Min"):
        return f"{e.kind.lower()}({', '.join(text_of(a, names) for a in e.args)})"
    if e.kind == "Not":
        return f"not ({text_of(e.args[0], names)})"
    return f"{e.kind}({', '.join(text_of(a, names) for a in e.args)})"


def _numbers_first(e: Expr) -> tuple[int, str]:
    """The order of operands: numbers, symbols by their names, and the others as they are."""
    return (0, "") if e.is_number else (1, e.name) if e.is_symbol else (2, "")


def _as_python(text: str) -> str:
    """The text of an expression as Python writes it, with no more parentheses than it needs."""
    return ast.unparse(ast.parse(text, mode="eval"))


class _Size:
    """A size of an input, or an input that is a number: its place among the leaves, and its text."""

    def __init__(self, at: int, name: str, dim: int | None) -> None:
        self.at, self.dim = at, dim
        self.name = name if dim is None else f"{name}.size()[{dim}]"

    def of(self, leaves: Sequence[Any]) -> int:
        x = leaves[self.at]
        found: int = x if self.dim is None else x.size()[self.dim]
        return found


def _equals(size: _Size, n: int) -> Guard:
    return f"{size.name} == {n}", lambda leaves: size.of(leaves) == n


def guards_of(
    inputs: Sequence[tuple[str, Any]],
    ranges: Mapping[Expr, ValueRanges],
    left: Sequence[Expr] = (),
    *,
    related_only: bool = False,
) -> list[Guard]:
    """The checks of inputs that were traced as (text, tensor or constant); `left`: further conditions on their symbols.

    related_only: just those of sizes that are computed from others, and of `left`, without what each size is by itself.
    """
    found: list[Guard] = []
    where: dict[Expr, _Size] = {}
    first: dict[Expr, _Size] = {}  # by the symbols that sizes had before the trace knew more of them
    related: list[tuple[_Size, Expr]] = []
    for at, (name, value) in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            sizes = list(value.shape)
            found.append((f"len({name}.size()) == {len(sizes)}", _has_dims(at, len(sizes))))
            pairs = [(_Size(at, name, i), n) for i, n in enumerate(sizes)]
            own = kept(value)
            first.update({} if own is None else {e: size for e, (size, _) in zip(own.sizes, pairs) if e.is_symbol})
        elif is_symbolic_number(value):
            pairs = [(_Size(at, name, None), value)]
        else:
            if (isinstance(value, (int, float, str)) and not isinstance(value, bool)) or isinstance(value, bool):
                found.append((f"{name} == {value!r}", _is_constant(at, value)))
            continue
        for size, n in pairs:
            e = n.node.expr if is_symbolic_number(n) else integer(n)
            if e.is_number:
                found.append(_equals(size, int(e)))
            elif e in where:
                found.append((f"{size.name} == {where[e].name}", _are_equal(size, where[e])))
            else:
                where[e] = size
                related.append((size, e))
                found += _bounds(size, ranges.get(e))
    relations = _relations(where, first, related, left)
    return relations if related_only else found + relations


def alike(first: tuple[int, str], second: tuple[int, str]) -> Guard:
    """The check of two inputs, (place, text), that were one tensor: the graph uses only the second, so others must be alike.

    PyTorch's programs compute with the second without a word.
    """
    at, other = first[0], second[0]
    return f"{first[1]} is {second[1]}", lambda leaves: leaves[at] is leaves[other] or torch.equal(leaves[at], leaves[other])


def input_texts(in_spec: pytree.TreeSpec, names: Sequence[str], outer: str = "{}") -> list[str]:
    """How the leaves of a call's inputs are written: x, d['a'][0]. names: of the arguments; outer: what stands around them."""
    args, kwargs = pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec)
    found = [""] * in_spec.num_leaves
    for name, tree in [*zip(names, args), *kwargs.items()]:
        for path, at in pytree.tree_leaves_with_path(tree):
            found[at] = outer.format(name) + pytree.keystr(path)
    return found


def _has_dims(at: int, count: int) -> Callable[[Sequence[Any]], bool]:
    return lambda leaves: leaves[at].dim() == count


def _is_constant(at: int, value: Any) -> Callable[[Sequence[Any]], bool]:
    if isinstance(value, float) and math.isnan(value):
        return lambda leaves: math.isnan(leaves[at])
    return lambda leaves: bool(leaves[at] == value)


def _are_equal(a: _Size, b: _Size) -> Callable[[Sequence[Any]], bool]:
    return lambda leaves: a.of(leaves) == b.of(leaves)


def _bounds(size: _Size, r: ValueRanges | None) -> list[Guard]:
    found: list[Guard] = []
    if r is not None and r.lower > 2:
        found.append((f"{size.name} >= {r.lower}", lambda leaves: size.of(leaves) >= r.lower))
    if r is not None and r.upper != int_oo:
        found.append((f"{size.name} <= {r.upper}", lambda leaves: size.of(leaves) <= r.upper))
    return found


def _relations(
    where: dict[Expr, _Size], first: dict[Expr, _Size], related: list[tuple[_Size, Expr]], left: Sequence[Expr]
) -> list[Guard]:
    """Sizes that are computed from others, and conditions on several sizes."""
    known: dict[Expr, Expr] = {e: symbol(size.name) for e, size in where.items() if e.is_symbol}
    texts = {symbol(size.name): size for size in (*where.values(), *first.values())}
    own = {s: size.name for s, size in first.items()}
    found: list[Guard] = []
    multiples: dict[Expr, tuple[_Size, Expr]] = {}  # by a symbol that no size is: one that is a multiple of it, and a number
    for size, e in related:
        if e.is_symbol or not e.free_symbols:
            continue
        if e.free_symbols <= known.keys():
            found.append(_condition(rebuild("Eq", (symbol(size.name), e.xreplace(known))), texts))
        elif len(e.free_symbols) == 1:
            (s,) = e.free_symbols
            solved = isolated(rebuild("Eq", (e, symbol(size.name))), s)
            if solved is not None:
                known[s] = solved[1]
            elif s in multiples:
                found.append(_condition(_proportion(multiples[s], (size, e), s), texts))
            else:
                multiples[s] = size, e
    known = {**{s: symbol(size.name) for s, size in first.items()}, **known}
    for e in left:
        if e.free_symbols <= known.keys():
            text = text_of(e, own) if e.free_symbols <= own.keys() else None
            found.append(_condition(e.xreplace(known), texts, text))
    return found


def _proportion(one: tuple[_Size, Expr], other: tuple[_Size, Expr], s: Expr) -> Expr:
    """What two sizes fulfil that are linear in a symbol which neither of them is."""

    def parts(e: Expr) -> tuple[Expr, Expr]:
        at_zero = e.xreplace({s: integer(0)})
        return e.xreplace({s: integer(1)}) - at_zero, at_zero

    (factor, rest), (other_factor, other_rest) = parts(one[1]), parts(other[1])
    x, y = symbol(one[0].name), symbol(other[0].name)
    if factor == other_factor:
        return rebuild("Eq", (x - rest + other_rest, y))
    return rebuild("Eq", (other_factor * (x - rest), factor * (y - other_rest)))


def _condition(e: Expr, sizes: dict[Expr, _Size], text: str | None = None) -> Guard:
    own = {s: sizes[s] for s in e.free_symbols}
    text = _as_python(text_of(e, {s: size.name for s, size in own.items()}) if text is None else text)

    def check(leaves: Sequence[Any]) -> bool:
        return e.xreplace({s: size.of(leaves) for s, size in own.items()}).kind != "false"

    return text, check
