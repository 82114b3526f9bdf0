"""ShapeEnv: the symbols of a trace, their values for the example, their ranges, and what the program was found to depend on.

A size that is dynamic has a symbol, named as PyTorch names it. A question about sizes is answered by what is known for all
values; else by the example, and becomes a guard, from which ranges and equalities of symbols are learnt. Symbols that only a run
tells (`u0`, of item or nonzero) can't be asked: what is asserted of them becomes a check of the graph. Stands on base.symbolic.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import math
import random
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

from flambeau.base.symbolic.expressions import ZERO, Expr, as_expr, expand, integer, rebuild, symbol
from flambeau.base.symbolic.numbers import SymBool, SymFloat, SymInt, SymNode
from flambeau.base.symbolic.ranges import ValueRanges, decided, int_oo, range_of
from flambeau.base.symbolic.relations import negation
from flambeau.base.symbolic.solving import canonical, isolated, solve_point
from flambeau.base.symbolic.trace_events import current_observer
from flambeau.fx.experimental.size_errors import data_dependent_error

__all__ = ["RuntimeAssert", "ShapeEnv", "ShapeGuard", "Source"]

_STAND_IN = 3  # stands in for numbers that only a run tells
_STAND_INS = (3, 4, 2, 5, 6, 8, 1, 0, 12, 16, 32, 64, 100, 1000)  # and what else may


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a size comes from: L['x'].size()[0] for dimension 0 of the argument x; idx is None for a number itself."""

    base: str
    idx: int | None = None
    prop: str = "size"

    @property
    def name(self) -> str:
        """The text of the expression that gives it."""
        return self.base if self.idx is None else f"{self.base}.{self.prop}()[{self.idx}]"


@dataclasses.dataclass(frozen=True)
class ShapeGuard:
    """A condition that holds for the example and that the trace depends on; stack: the program's lines that asked."""

    expr: Expr
    stack: traceback.StackSummary
    size_oblivious: bool = False


@dataclasses.dataclass(frozen=True)
class RuntimeAssert:
    """A condition that a run checks."""

    expr: Expr
    msg: str
    stack: traceback.StackSummary


def user_stack() -> traceback.StackSummary:
    """The lines of the program that are in a forward, or the innermost one, without those of this package; the innermost last."""
    frames = user_frames()
    return traceback.StackSummary.extract(iter([f for f in frames if f[0].f_code.co_name == "forward"] or frames[-1:]))


def user_frames() -> list[tuple[FrameType, int]]:
    """The frames of the program inside the call of a forward, and their lines; the innermost last."""
    frames: list[tuple[FrameType, int]] = []
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        own = str(frame.f_globals.get("__name__", "")).partition(".")[0] == __name__.partition(".")[0]
        if not own and not frame.f_code.co_filename.startswith("<"):
            frames.append((frame, line))
        elif frame.f_code.co_name == "forward" and frames:
            break
    frames.reverse()
    return frames[next((i for i, f in enumerate(frames) if f[0].f_code.co_name == "forward"), 0) :]


class ShapeEnv:
    """The symbols of a trace.

    specialize_zero_one: sizes 0 and 1 are numbers, never symbols; duck_shape: sizes that are equal get one symbol unless they are
    said to be dynamic. guards: what the trace depends on; replacements: symbols that others, or numbers, stand for.
    """

    def __init__(
        self,
        *,
        should_record_events: bool | None = None,
        tracked_fakes: list[Any] | None = None,
        allow_scalar_outputs: bool = True,
        allow_dynamic_output_shape_ops: bool = True,
        assume_static_by_default: bool = False,
        specialize_zero_one: bool = True,
        duck_shape: bool | None = None,
        co_fields: dict[str, str] | None = None,
        prefer_deferred_runtime_asserts_over_guards: bool = False,
        trace_asserts: bool = False,
    ) -> None:
        self.tracked_fakes = tracked_fakes
        self.allow_scalar_outputs, self.allow_dynamic_output_shape_ops = allow_scalar_outputs, allow_dynamic_output_shape_ops
        self.assume_static_by_default, self.specialize_zero_one = assume_static_by_default, specialize_zero_one
        self.duck_shape = True if duck_shape is None else duck_shape
        self.prefer_deferred_runtime_asserts_over_guards = prefer_deferred_runtime_asserts_over_guards
        self.trace_asserts = trace_asserts
        self.guards: list[ShapeGuard] = []
        self.backed_var_to_val: dict[Expr, int | float] = {}
        self.var_to_range: dict[Expr, ValueRanges] = {}
        self.var_to_sources: dict[Expr, list[Source]] = {}
        self.source_to_var: dict[str, Expr] = {}
        self.source_name_to_debug_name: dict[str, str] = {}
        self.val_to_var: dict[int, Expr] = {}
        self.replacements: dict[Expr, Expr] = {}
        self.divisible: set[Expr] = set()
        self.deferred_runtime_asserts: dict[Expr | None, list[RuntimeAssert]] = {}
        self.specialization_stacks: dict[str, traceback.StackSummary] = {}
        self.size_like: set[Expr] = set()
        self.unbacked: dict[Expr, int | float | bool] = {}
        self.unique_ids: set[int] = set()
        self.recorders: list[Any] = []  # SizeNodes
        self.told: set[Expr] = set()  # of those that only a run tells: which have the values of the example
        self.fake_mode: Any = None  # the one that propagates real tensors
        self.observer = current_observer()
        self.frozen = False
        self._facts: dict[tuple[str, Expr], int] = {}
        self._suppressed = False
        self._again: list[Expr] = []
        self._points: dict[tuple[Any, ...], list[dict[Expr, Any]]] = {}
        self._counts = {"u": 0, "zuf": 0}

    @property
    def var_to_val(self) -> dict[Expr, int | float]:
        """The values of the symbols for the example."""
        return self.backed_var_to_val

    # ---------------------------------------------------------------- symbols

    def create_symbol(
        self,
        val: int,
        source: Source,
        *,
        duck: bool = False,
        constraint: ValueRanges | None = None,
        positive: bool | None = True,
        do_not_specialize_zero_one: bool = False,
    ) -> Expr:
        """The symbol of a size, or of a number if `positive` is None; the number itself for 0 and 1 unless that is asked for."""
        if val in (0, 1) and self.specialize_zero_one and not do_not_specialize_zero_one:
            return integer(val)
        if duck and self.duck_shape and val in self.val_to_var:
            made = self.val_to_var[val]
        else:
            number = int(hashlib.sha256(source.name.encode()).hexdigest(), 16) % 100
            while number in self.unique_ids:
                number += 1
            self.unique_ids.add(number)
            made = symbol(f"s{number}", positive=bool(positive))
            self.backed_var_to_val[made] = val
            self.var_to_sources[made] = []
            low = 2 if self.specialize_zero_one and not do_not_specialize_zero_one else 0
            self.var_to_range[made] = ValueRanges(low, int_oo) if positive else ValueRanges.unknown_int()
            if constraint is not None:
                self.var_to_range[made] &= constraint
            if duck:
                self.val_to_var[val] = made
        self.source_to_var[source.name] = made
        self.var_to_sources[made].append(source)
        return made

    def sizes_for(self, shape: tuple[int, ...], source: Any, context: Any) -> list[Expr]:
        """The sizes of a tensor: its symbols, and numbers where it is static. source: what the tensor is, such as L['x']."""
        name = getattr(source, "name", None) or source or f"__unnamed_{len(self.source_to_var)}"
        made = []
        for i, n in enumerate(shape):
            how = "DUCK" if context is None else context.dynamic_sizes[i].name
            constraint = None if context is None else context.constraint_sizes[i]
            vr = getattr(constraint, "vr", None)
            if how == "UNBACKED":
                made.append(self.create_unbacked_symint(stand_in=n).node._expr)
                self.constrain_size(made[-1])
            elif how == "STATIC" and constraint is None:
                made.append(integer(n))
            else:
                own = Source(str(name() if callable(name) else name), i)
                made.append(self.create_symbol(n, own, duck=how == "DUCK" and constraint is None, constraint=vr))
        return made

    def create_symintnode(self, sym: Any, *, hint: int | None = None, source: Any = None) -> Any:
        """An expression as a number; an int where no symbol is in it."""
        sym = as_expr(sym)
        if sym.kind == "Integer":
            return int(sym.value)
        return SymInt(SymNode(sym, self, int, hint))

    def create_symfloatnode(self, sym: Any, *, hint: float | None = None, source: Any = None) -> Any:
        """An expression as a float."""
        sym = as_expr(sym)
        return float(sym.value) if sym.is_number else SymFloat(SymNode(sym, self, float, hint))

    def create_symboolnode(self, sym: Any) -> Any:
        """A relation as a truth."""
        sym = as_expr(sym)
        return sym.kind == "true" if sym.kind in ("true", "false") else SymBool(SymNode(sym, self, bool))

    def create_unbacked_symint(self, source: Any = None, *, stand_in: int | None = None) -> SymInt:
        """A number that only a run tells; stand_in: what it is taken for meanwhile."""
        if self._again:
            return SymInt(SymNode(self._again.pop(0), self, int))
        made = symbol(f"u{self._count('u')}")
        self.unbacked[made] = _STAND_IN if stand_in is None else stand_in
        self.var_to_range[made] = ValueRanges.unknown_int()
        return SymInt(SymNode(made, self, int))

    def create_unbacked_symfloat(self) -> SymFloat:
        """A float that only a run tells."""
        if self._again:
            return SymFloat(SymNode(self._again.pop(0), self, float))
        made = symbol(f"zuf{self._count('zuf')}", integer=False)
        self.unbacked[made] = _STAND_IN + 0.5
        self.var_to_range[made] = ValueRanges(-float("inf"), float("inf"))
        return SymFloat(SymNode(made, self, float))

    def create_unbacked_symbool(self) -> SymBool:
        """A truth that only a run tells."""
        made = self._again.pop(0) if self._again else symbol(f"u{self._count('u')}")
        self.unbacked[made] = 1
        self.var_to_range[made] = ValueRanges(0, 1)
        return SymBool(SymNode(rebuild("Eq", (made, integer(1))), self, bool))

    @contextlib.contextmanager
    def again(self, symbols: Iterable[Expr]) -> Iterator[None]:
        """What only a run tells is called by these symbols, which it was called by when the program was traced first."""
        before, self._again = self._again, list(symbols)
        try:
            yield
        finally:
            self._again = before

    def _count(self, prefix: str) -> int:
        self._counts[prefix] += 1
        return self._counts[prefix] - 1

    def is_unbacked_symint(self, symbol: Expr) -> bool:
        """Whether only a run tells a symbol."""
        return symbol in self.unbacked

    def unbacked_in(self, e: Expr) -> set[Expr]:
        """The symbols of an expression that only a run tells."""
        return {s for s in e.free_symbols if s in self.unbacked}

    def asserted(self, node: SymNode) -> None:
        """Tell the tracers of this environment which condition is asserted."""
        for recorder in self.recorders:
            recorder.asserted(SymBool(node))

    def made(self, number: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Tell the tracers of this environment what computed a number."""
        for recorder in self.recorders:
            recorder.computed(number, function, args)

    # ---------------------------------------------------------------- what is known

    def replace(self, e: Expr) -> Expr:
        """The expression with what symbols are known to be in their places."""
        if not self.replacements or (not e.args and e.kind != "Symbol"):
            return e
        found = {s: r for s in e.free_symbols if (r := self._find(s)) is not s}
        return expand(e.xreplace(found)) if found else e

    def _find(self, s: Expr) -> Expr:
        seen = self.replacements.get(s)
        if seen is None:
            return s
        found = self.replace(seen)
        if found != seen:
            self.replacements[s] = found
        return found

    def simplify(self, e: Expr) -> Expr:
        """The expression with what is known put in: maxima with 0 and 1, quotients that are whole."""
        e = self.replace(expand(e))
        found: dict[Expr, Expr] = {}
        for part in _parts(e):
            if part.kind == "Max" and len(part.args) == 2 and part.args[0] in (0, 1):
                if decided(rebuild("Ge", (part.args[1], part.args[0])), self.var_to_range):
                    found[part] = part.args[1]
            elif part.kind == "TruncToInt" and part.args[0].kind == "IntTrueDiv":
                found[part] = rebuild("FloorDiv", part.args[0].args)
        return self.replace(expand(e.xreplace(found))) if found else e

    def bound_sympy(self, e: Expr, size_oblivious: bool = False) -> ValueRanges:
        """The range of an expression."""
        return range_of(as_expr(e), self.var_to_range)

    def value_of(self, e: Expr) -> Any:
        """The value of an expression for the example; numbers stand in for what only a run tells."""
        found = self.replace(e).xreplace({**self.backed_var_to_val, **self.unbacked})
        return found.kind == "true" if found.kind in ("true", "false") else found.value

    def decide(self, e: Expr) -> bool | None:
        """Whether a condition holds for all values, or for none; None where that isn't known."""
        e = self.simplify(e)
        known = self._decide_by_facts(e)
        if known is None:
            known = decided(e, self.var_to_range)
        if known is None and e.kind in ("And", "Or"):
            found = [self.decide(a) for a in e.args]
            stop = e.kind == "Or"
            known = stop if stop in found else None if None in found else not stop
        if known is None and e.kind in ("Eq", "Ne") and self._divisible(e):
            known = e.kind == "Eq"
        return known

    def _divisible(self, e: Expr) -> bool:
        left, right = e.args
        return right == ZERO and left.kind in ("Mod", "PythonMod") and rebuild("Mod", left.args) in self.divisible

    def _decide_by_facts(self, e: Expr) -> bool | None:
        asked = canonical(e)
        if asked is None:
            return None
        kind, x, n = asked
        if kind in ("Eq", "Ne"):
            for other in ("Eq", "Ne"):
                if self._facts.get((other, x)) == n:
                    return kind == other
            most, least = self._facts.get(("Le", x)), self._facts.get(("Le", -x))
            if (most is not None and most < n) or (least is not None and -least > n):
                return kind == "Ne"
            return None
        most, least = self._facts.get(("Le", x)), self._facts.get(("Le", -x))
        if most is not None and most <= n:
            return True
        return False if least is not None and -least > n else None

    # ---------------------------------------------------------------- other sizes

    def sample_points(self, symbols: Iterable[Expr], count: int, assuming: Iterable[Expr] = ()) -> list[dict[Expr, Any]]:
        """Up to `count` other values that fulfil the guards, the ranges and the conditions in `assuming`, of those symbols that
        nothing stands for.
        """
        said = [*[g.expr for g in self.guards], *assuming]
        said += [a.expr for found in self.deferred_runtime_asserts.values() for a in found]
        # what symbols are known to be is in their places, so that it needn't be met by chance
        conditions = [c for c in dict.fromkeys(map(self.replace, said)) if c.free_symbols]
        wanted = {s for given in symbols for s in self.replace(given).free_symbols}
        for _ in range(4):  # what is said of a symbol may be said by others
            more = {s for e in conditions for s in e.free_symbols if wanted & e.free_symbols} - wanted
            wanted |= more
        own = sorted(wanted, key=lambda s: s.name)
        key = (tuple(own), len(said), tuple(assuming), count)
        if key not in self._points:
            self._points[key] = self._sampled(own, count, [c for c in conditions if c.free_symbols <= wanted])
        return self._points[key]

    def _sampled(self, own: list[Expr], count: int, conditions: list[Expr]) -> list[dict[Expr, Any]]:
        values = {**self.backed_var_to_val, **self.unbacked}
        step = math.lcm(*[int(p.args[1].value) for e in conditions for p in _parts(e)
                          if p.kind in ("Mod", "PythonMod", "FloorDiv") and p.args[1].kind == "Integer"], 1)  # fmt: skip
        found: list[dict[Expr, Any]] = []
        chooser = random.Random(len(own))
        for attempt in range(400):
            point: dict[Expr, Any] = {}
            for i, s in enumerate(own):
                r, here = self.var_to_range.get(s, ValueRanges(0, int_oo)), values[s]
                shift = _SHIFTS[(attempt + 5 * i) % len(_SHIFTS)] if attempt < 60 else chooser.randrange(-40, 400)
                value = here + shift * (step if attempt % 3 or step == 1 else 1)
                if value not in r:
                    value = chooser.randint(int(max(r.lower, 0)), int(min(r.upper, here + 60)))
                point[s] = value
            solve_point(point, conditions, values)
            if all(point[s] in self.var_to_range.get(s, ValueRanges(0, int_oo)) for s in own) and all(
                _holds(c.xreplace(point)) for c in conditions
            ):
                if point not in found and any(point[s] != values[s] for s in own):
                    found.append(point)
                if len(found) == count:
                    break
        return found

    # ---------------------------------------------------------------- questions

    def evaluate(self, e: Expr, fallback: bool | None = None) -> bool:
        """Whether a condition holds: for all values if that is known, else for the example, which becomes a guard.

        fallback: the answer where only a run tells; GuardOnDataDependentSymNode without.
        """
        e = as_expr(e)
        known = self.decide(e)
        if known is not None:
            return known
        e = self.simplify(e)
        unbacked = self.unbacked_in(e)
        if unbacked and fallback is not None:
            return fallback
        if unbacked - self.told:
            raise data_dependent_error(self, e)
        held = bool(self.value_of(e))
        if unbacked:
            return self._answered(e, held)
        if not self._suppressed:
            self._guard(e if held else negation(e))
        return held

    evaluate_expr = evaluate

    def tell(self, s: Expr, value: Any) -> None:
        """The value of the example for a symbol that only a run tells: it answers questions, which a run checks."""
        self.unbacked[s] = value
        self.told.add(s)

    def forget(self, symbols: Iterable[Expr]) -> None:
        """These of those that only a run tells are in no result."""
        for s in symbols:
            del self.unbacked[s]
            self.told.discard(s)

    def _answered(self, e: Expr, held: bool) -> bool:
        if self.observer is not None and not self._suppressed:
            self.observer.data_dependent(self, e, held)
        self.guard_or_defer_runtime_assert(e if held else negation(e), f"propagate_real_tensors: {e}")
        return held

    def specialized(self, node: SymNode) -> Any:
        """The value of a number, which becomes a constant of the trace."""
        e = self.simplify(node.expr)
        if e.is_number:
            return e.value
        if self.unbacked_in(e) - self.told:
            raise data_dependent_error(self, e)
        value = self.value_of(e)
        self.evaluate(rebuild("Eq", (e, as_expr(value))))
        return value

    def specialized_count(self, e: Expr) -> int:
        """A number of things, which becomes a constant of the trace."""
        e = self.simplify(e)
        return int(e) if e.is_number else int(self.specialized(SymNode(e, self, int)))

    def guard_or_defer_runtime_assert(self, e: Expr, msg: str) -> bool:
        """Assert a condition: by a guard, or by a check in the graph where only a run tells."""
        known = self.decide(e)
        if known is not None:
            return known
        e = self.simplify(e)
        unbacked = sorted(self.unbacked_in(e), key=lambda s: int(s.name.lstrip("uzf")))
        if not unbacked and not self.prefer_deferred_runtime_asserts_over_guards:
            return self.evaluate(e)
        self._learn(e)
        self._stand_in(e, [s for s in unbacked if s not in self.told])
        found = RuntimeAssert(e, msg, user_stack())
        self.deferred_runtime_asserts.setdefault(unbacked[-1] if unbacked else None, []).append(found)
        return True

    def _stand_in(self, e: Expr, symbols: list[Expr]) -> None:
        """Have other numbers stand in for what only a run tells, if those don't fulfil what is asserted."""
        conditions = [e, *[a.expr for found in self.deferred_runtime_asserts.values() for a in found]]
        for values in itertools.product(_STAND_INS, repeat=min(len(symbols), 3)):
            if all(self.value_of(c) for c in conditions) and all(self.unbacked[s] in self.var_to_range[s] for s in symbols):
                return
            self.unbacked.update(zip(symbols, values))

    def constrain_size(self, s: Expr, low: int = 0, high: Any = int_oo) -> None:
        """A number that only a run tells is a size."""
        self.refine(s, ValueRanges(low, high))
        self.size_like.add(s)

    def check_is_size(self, s: Expr) -> None:
        """torch._check_is_size."""
        self.constrain_size(s)

    @contextlib.contextmanager
    def suppress_guards(self) -> Iterator[None]:
        """Questions are answered by the example, and forgotten."""
        before, self._suppressed = self._suppressed, True
        try:
            yield
        finally:
            self._suppressed = before

    @contextlib.contextmanager
    def ignore_fresh_unbacked_symbols(self) -> Iterator[None]:
        """Symbols made here need no node that gives them."""
        yield

    def freeze(self) -> None:
        """Learn nothing more."""
        self.frozen = True

    # ---------------------------------------------------------------- guards, and what follows from them

    def _guard(self, e: Expr) -> None:
        if self.observer is not None:
            self.observer.guarded(self, e)
        self.guards.append(ShapeGuard(e, user_stack()))
        if self.prefer_deferred_runtime_asserts_over_guards:
            self.deferred_runtime_asserts.setdefault(None, []).append(RuntimeAssert(e, "", self.guards[-1].stack))
        self._learn(e)

    def _learn(self, e: Expr) -> None:
        if e.kind == "And":
            for part in e.args:
                self._learn(part)
            return
        self._keep_fact(e)
        if e.kind not in ("Eq", "Lt", "Le", "Gt", "Ge") or len(e.free_symbols) > 5:
            return
        self._refine_by(e)
        if e.kind != "Eq":
            return
        mods = [p for p in _parts(e) if p.kind in ("Mod", "PythonMod")]
        if mods:
            if e.args[1] == ZERO and e.args[0] in mods:
                self.divisible.add(rebuild("Mod", mods[0].args))
            return
        if any(p.kind == "FloorDiv" for p in _parts(e)):
            return
        symbols = sorted(e.free_symbols, key=lambda s: (self.backed_var_to_val.get(s, sys.maxsize), s.name), reverse=True)
        found = isolated(e, symbols[0]) if symbols else None
        if found is not None and not self.unbacked_in(found[1]):
            self._set_replacement(symbols[0], self.replace(found[1]))

    def _keep_fact(self, e: Expr) -> None:
        fact = canonical(e)
        if fact is not None:
            kind, x, n = fact
            before = self._facts.get((kind, x))
            self._facts[kind, x] = n if before is None or kind != "Le" else min(n, before)

    def _refine_by(self, e: Expr) -> None:
        e = self.simplify(e)
        for s in e.free_symbols:
            found = isolated(e, s) if s.is_integer and e.args else None
            if found is None or not found[1].is_integer:
                continue
            kind, right = found
            bounds, old = range_of(right, self.var_to_range), self.var_to_range.get(s, ValueRanges.unknown_int())
            low = bounds.lower + (kind == "Gt") if kind in ("Eq", "Ge", "Gt") else old.lower
            high = bounds.upper - (kind == "Lt") if kind in ("Eq", "Le", "Lt") else old.upper
            self.refine(s, ValueRanges(low, max(low, high)))
            if self.var_to_range[s].is_singleton():
                self._set_replacement(s, integer(self.var_to_range[s].lower))

    def refine(self, s: Expr, r: ValueRanges) -> None:
        """A symbol is in a range, too."""
        old = self.var_to_range.get(s, ValueRanges.unknown_int())
        low, high = max(old.lower, r.lower), min(old.upper, r.upper)
        if high < 2 and s in self.size_like:
            high = 2
        if low <= high:
            self.var_to_range[s] = ValueRanges(low, high)

    def _set_replacement(self, s: Expr, target: Expr) -> None:
        """A symbol is an expression from now on."""
        if self.replacements.get(s) == target or s in target.free_symbols:
            return
        own = self.var_to_range.get(s, ValueRanges.unknown_int())
        bound = range_of(target, self.var_to_range)
        self.refine(s, bound)
        if not bound.issubset(own) and len(target.free_symbols) == 1:
            (other,) = target.free_symbols
            for kind, end in (("Ge", own.lower), ("Le", own.upper)):
                found = isolated(Expr(kind, (target, as_expr(end)), integer=False), other) if abs(end) != int_oo else None
                if found is not None and found[1].is_number:
                    n = int(found[1])
                    self.refine(other, ValueRanges(n, int_oo) if found[0] == "Ge" else ValueRanges(-int_oo, n))
            bound = range_of(target, self.var_to_range)
        if not bound.issubset(own):
            return
        if target.is_number and self.prefer_deferred_runtime_asserts_over_guards and s not in self.unbacked:
            return  # the range says it
        if target.is_number:
            for source in self.var_to_sources.get(s, []):
                self.specialization_stacks.setdefault(source.name, user_stack())
        self.replacements[s] = target


#: How far other sizes are from those of the example.
_SHIFTS = (7, 19, 37, 61, 11, 29, 43, 3, 53, 23, 71, 13, 31, 5, 17, 47, 2, 83, 41, 1)


def _holds(e: Expr) -> bool:
    return e.kind == "true"


def _parts(e: Expr) -> Iterator[Expr]:
    yield e
    for a in e.args:
        yield from _parts(a)
