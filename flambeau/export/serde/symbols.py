"""Symbolic sizes from a file: texts as expressions over symbols whose example values and ranges the file tells.

A text is read by the grammar of base.symbolic, never evaluated. Stands on that, and on fx's ShapeEnv, which a program's sizes get
anew; used by reading and programs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flambeau._subclasses.symbolic.state import expr_of, sizes_of
from flambeau.base.symbolic.expressions import Expr, as_expr, rebuild
from flambeau.base.symbolic.ranges import ValueRanges, int_oo
from flambeau.base.symbolic.reading import read
from flambeau.base.symbolic.solving import isolated
from flambeau.export.serde import schema
from flambeau.export.serde.text import SerializeError
from flambeau.fx.experimental.shape_env import ShapeEnv

__all__ = ["Symbols", "graphs_in", "inputs_by_text"]

#: An expression may be this long, and its value have as many bits.
MOST_CHARACTERS, MOST_BITS = 20_000, 2048
_OF_A_SYMBOL = 64
_UNBACKED = ("u", "zuf")
_TRUTHS = frozenset("Eq Ne Lt Le Gt Ge And Or Not true false".split())


def graphs_in(graph: schema.Graph) -> Iterator[schema.Graph]:
    """A graph, and those that its operators run."""
    yield graph
    for node in graph.nodes:
        for given in node.inputs:
            if given.arg.type == "as_graph":
                yield from graphs_in(given.arg.value.graph)


class Symbols:
    """The symbols of a program: `env` has their values for the example, and their ranges."""

    def __init__(self, ranges: Mapping[str, schema.RangeConstraint]) -> None:
        self.env = ShapeEnv(assume_static_by_default=True)
        self._ranges = {text: _range_of(text, r) for text, r in ranges.items()}
        self._named: dict[str, Expr] = {}
        self._read: dict[str, Expr] = {}

    # ---- learning

    def learn(self, graph: schema.Graph) -> None:
        """Read all sizes and numbers of a graph, and of those within it. SerializeError for texts that are no expressions."""
        hints: dict[Expr, Any] = {}
        for part in graphs_in(graph):
            for size in _numbers_of(part):
                if size.type == "as_expr":
                    e = self.expr(size.value.expr_str)
                    if size.value.hint is not None:
                        hints[e] = size.value.hint.value
        known = set(self._named)
        for text in list(self._ranges):  # those of symbols that are nowhere in the graph are forgotten
            if not {s.name for s in self.expr(text).free_symbols} <= known:
                del self._ranges[text]
        for s in [self._named[name] for name in known]:
            self._enter(s, hints)

    def expr(self, text: str) -> Expr:
        """The expression that a text says. SerializeError for any other text."""
        if text not in self._read:
            if len(text) > MOST_CHARACTERS:
                raise SerializeError(f"an expression over sizes of {len(text)} characters is longer than any program's")
            try:
                made = as_expr(read(text, self._named))
                if _bits(made) > MOST_BITS:
                    raise ValueError(f"the numbers of {text[:80]!r} are larger than any size")
            except (ValueError, TypeError, RecursionError, ArithmeticError) as error:
                raise SerializeError(f"this is no expression over sizes: {text[:80]!r} ({error})") from None
            for s in made.free_symbols:
                self._named.setdefault(s.name, s)
            self._read[text] = made
        return self._read[text]

    def _enter(self, s: Expr, hints: Mapping[Expr, Any]) -> None:
        """Tell the environment of a symbol."""
        known = self._ranges.get(s.name, ValueRanges(-int_oo, int_oo))
        env = self.env
        prefix = s.name.rstrip("0123456789")
        if prefix in _UNBACKED and s.name != prefix:
            env.unbacked[s] = _stand_in(known, len(env.unbacked), s.is_integer)
            env._counts[prefix] = max(env._counts[prefix], int(s.name[len(prefix) :][:9]) + 1)
        else:
            value = _solved(s, hints)
            if value is None:
                value = _stand_in(known, 0, s.is_integer)
            env.backed_var_to_val[s] = value
            env.var_to_sources.setdefault(s, [])
            if s.is_positive and value >= 2:
                known = ValueRanges(max(known.lower, 2), max(known.upper, 2))
        env.var_to_range[s] = known

    # ---- what they are

    def number(self, size: Any) -> Any:
        """A size or another number of the format: a number, or a symbolic one."""
        if size.type != "as_expr":
            return size.value
        e = self.expr(size.value.expr_str)
        if isinstance(size, schema.SymBool):
            return self.env.create_symboolnode(e)
        return self.env.create_symfloatnode(e) if isinstance(size, schema.SymFloat) else self.env.create_symintnode(e)

    def value(self, e: Expr) -> int:
        """The size that an expression is for the example. SerializeError for one that tensors can't have."""
        found = self.env.value_of(e)
        if not isinstance(found, int) or not 0 <= found < 1 << 62:
            raise SerializeError(f"{str(e)[:80]} is {str(found)[:80]} for the example, which is no size")
        return found

    def ranges(self) -> dict[Expr, ValueRanges]:
        """The ranges of the file, by their expressions."""
        return {self._read[text]: known for text, known in self._ranges.items()}

    def guards(self, texts: Sequence[str], inputs: Mapping[str, Expr]) -> list[Expr]:
        """The conditions on inputs that texts such as "L['x'].size()[0] == L['y'].size()[0]" say; inputs: sizes by their text.

        A condition on anything but sizes isn't one that this package checks: a warning says so.
        """
        found = []
        for text in texts:
            try:
                if len(text) > MOST_CHARACTERS:
                    raise ValueError
                e = as_expr(read(text, inputs))
                if e.kind not in _TRUTHS or not e.free_symbols <= set(self._named.values()):
                    raise ValueError
            except (ValueError, TypeError, RecursionError, ArithmeticError):
                warnings.warn(f"the loaded program doesn't check that {text[:200]}", stacklevel=2)
                continue
            found.append(e)
        return [e for e in found if e.kind not in ("true", "false")]


def _numbers_of(graph: schema.Graph) -> Iterator[Any]:
    for meta in graph.tensor_values.values():
        yield from (*meta.sizes, *meta.strides, meta.storage_offset)
    for table in (graph.sym_int_values, graph.sym_float_values, graph.sym_bool_values):
        yield from table.values()  # type: ignore[attr-defined]


def _range_of(text: str, given: schema.RangeConstraint) -> ValueRanges:
    low = -int_oo if given.min_val is None else given.min_val
    high = int_oo if given.max_val is None else given.max_val
    if low > high:
        raise SerializeError(f"the range of {text[:80]!r} is empty: from {low} to {high}")
    return ValueRanges(low, high)


def _stand_in(known: ValueRanges, count: int, integer: bool) -> Any:
    """A value in a range that no constant of a program is likely to be."""
    wanted = 12 + count
    found = min(max(wanted, known.lower), known.upper)
    return int(found) if integer else float(found) + 0.5


def _solved(s: Expr, hints: Mapping[Expr, Any]) -> int | None:
    """The value of a symbol for the example: that which is said of it, or follows from what is said of an expression."""
    if s in hints:
        return hints[s]  # type: ignore[no-any-return]
    for e, value in hints.items():
        if e.free_symbols == {s} and isinstance(value, int) and e.is_integer:
            try:
                found = isolated(rebuild("Eq", (e, as_expr(value))), s)
            except (ValueError, TypeError):
                continue
            if found is not None and found[0] == "Eq" and found[1].kind == "Integer":
                return int(found[1].value)
    return None


def _bits(e: Expr) -> float:
    """How many bits the value of an expression may have."""
    if e.is_number:
        return math.frexp(e.value)[1] if isinstance(e.value, float) else abs(e.value).bit_length()
    if not e.args:
        return _OF_A_SYMBOL
    parts = [_bits(a) for a in e.args]
    if e.kind == "Mul":
        return sum(parts)
    if e.kind in ("Pow", "PowByNatural", "FloatPow"):
        return parts[0] * max(1, e.args[1].value if e.args[1].is_number else MOST_BITS)
    if e.kind == "LShift":
        return parts[0] + (e.args[1].value if e.args[1].is_number else MOST_BITS)
    return max(parts) + len(parts).bit_length()


def inputs_by_text(leaves: Iterable[tuple[str, Any]]) -> dict[str, Expr]:
    """The sizes of inputs by the texts that guards have for them, which are about arguments, or about leaves of all inputs.

    leaves: (text of an input, its fake tensor or number).
    """
    found: dict[str, Expr] = {}
    for at, (own, value) in enumerate(leaves):
        for text in (own, f"L['flat_args'][{at}]"):
            if hasattr(value, "shape"):
                found.update({f"{text}.size()[{i}]": e for i, e in enumerate(sizes_of(value))})
            elif hasattr(value, "node") or (isinstance(value, int) and not isinstance(value, bool)):
                found[text] = expr_of(value)
    return found
