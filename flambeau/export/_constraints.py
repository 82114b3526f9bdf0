"""What a trace demands of the inputs' sizes against what the program says of them: range constraints, or an error with fixes.

Stands on fx.experimental.shape_env and dims; used by `_export`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.base.symbolic.expressions import Expr, as_expr, coefficient, integer, rebuild, symbol, terms
from flambeau.base.symbolic.ranges import ValueRanges, decided, int_oo
from flambeau.base.symbolic.solving import isolated
from flambeau.export._guards import text_of
from flambeau.export.dims import Dim, _DerivedDim, _DimHint, _DimHintType, _StaticDim
from flambeau.fx.experimental.shape_env import ShapeEnv, Source
from flambeau.fx.experimental.size_errors import ConstraintViolationError

__all__ = ["Dimension", "check_constraints", "fake_sizes", "range_constraints"]

_DEFAULT = ValueRanges(2, int_oo)


@dataclasses.dataclass
class Dimension:
    """A dimension of an input tensor, or an input number: where it is, its size, what the program says of it, its expression."""

    source: Source
    path: pytree.KeyPath
    value: int
    said: Any
    expr: Expr

    @property
    def name(self) -> str:
        """The name that the program gave it, or where it is."""
        return self.said.__name__ if isinstance(self.said, Dim) else self.source.name

    @property
    def shown(self) -> str:
        """The name, and where it is."""
        return f"{self.name} = {self.source.name}"


def fake_sizes(env: ShapeEnv, name: str, path: pytree.KeyPath, tensor: torch.Tensor, said: list[Any]) -> list[Dimension]:
    """The dimensions of an input, with symbols for those that are dynamic. ConstraintViolationError for a size that isn't as
    said.
    """
    found = []
    for i, (n, dim) in enumerate(zip(tensor.shape, said)):
        source = Source(name, i)
        if isinstance(dim, _StaticDim) and dim.value != n:
            raise ConstraintViolationError(
                f"Static shape constraint of {dim.value} does not match input size of {n}, for {source.name}"
            )
        static = dim is None or isinstance(dim, _StaticDim) or (isinstance(dim, _DimHint) and dim.type == _DimHintType.STATIC)
        if static:
            e = integer(n)
        else:
            vr = ValueRanges(dim.min, dim.max) if isinstance(dim, Dim) else None
            if vr is not None and n > 1 and n not in vr & _DEFAULT:
                both = vr & _DEFAULT
                raise ConstraintViolationError(f"{n} not in range [{both.lower}, {both.upper}]")
            e = env.create_symbol(n, source, constraint=vr)
        found.append(Dimension(source, path, n, dim, e))
        if isinstance(dim, Dim) and not isinstance(dim, _StaticDim):
            env.source_name_to_debug_name[source.name] = dim.__name__
    return found


# ---------------------------------------------------------------- what must be equal


def _equate(env: ShapeEnv, dimensions: list[Dimension]) -> None:
    """Equalities that the names of dimensions say. ConstraintViolationError where the example isn't so."""
    roots: dict[str, Dimension] = {}
    for d in dimensions:
        if isinstance(d.said, _DerivedDim) or not isinstance(d.said, Dim) or isinstance(d.said, _StaticDim):
            continue
        first = roots.setdefault(d.said.__name__, d)
        if first is not d and not env.evaluate(rebuild("Eq", (env.replace(d.expr), env.replace(first.expr)))):
            raise ConstraintViolationError(f"{d.source.name} = {d.value} is not equal to {first.source.name} = {first.value}")
    phantoms: dict[str, Expr] = {}
    for d in dimensions:
        if not isinstance(d.said, _DerivedDim):
            continue
        name = d.said.root.__name__
        first = roots.get(name)
        root = first.expr if first is not None else phantoms.get(name)
        if root is None:
            root = phantoms[name] = _phantom(env, d)
        wanted = d.said.of(env.replace(root))
        if not env.evaluate(rebuild("Eq", (env.replace(d.expr), as_expr(wanted)))):
            raise ConstraintViolationError(
                f"Expected input {d.source.name} to be equal to {d.said.of(symbol(name))}, where {name} = "
                f"{env.value_of(root)}, but "
                f"got {d.value}"
            )


def _phantom(env: ShapeEnv, d: Dimension) -> Expr:
    """The symbol of a root that no dimension is."""
    name = d.said.root.__name__
    root = symbol(name)
    found = isolated(rebuild("Eq", (d.said.of(root), integer(d.value))), root)
    if found is None or not found[1].is_number:
        raise ConstraintViolationError(
            f"Expected shape[{d.source.idx}] = {d.value} of input Tensor to be of the form {d.said.of(root)}, where {root} is an "
            "integer"
        )
    return env.create_symbol(int(found[1]), Source(name), constraint=ValueRanges(d.said.root.min, d.said.root.max))


# ---------------------------------------------------------------- violations


def check_constraints(env: ShapeEnv, dimensions: list[Dimension]) -> list[Expr]:
    """The guards that inputs must still be checked for. ConstraintViolationError if the trace demands more than the program
    says.
    """
    _equate(env, dimensions)
    found = _Violations(env, dimensions)
    for d in dimensions:
        found.specialized(d)
    for d in dimensions:
        found.related(d)
    left = found.guards()
    found.ranges()
    if found.messages:
        names = ", ".join(sorted({n for n, _ in found.messages}))
        text = "\n".join(f"  - {m}" for _, m in found.messages)
        raise ConstraintViolationError(
            f'Constraints violated ({names})! For more information, run with TORCH_LOGS="+dynamic".\n{text}'
            f"{_fixes(env, dimensions)}"
        )
    return left


class _Violations:
    def __init__(self, env: ShapeEnv, dimensions: list[Dimension]) -> None:
        self.env, self.dimensions = env, dimensions
        self.messages: list[tuple[str, str]] = []
        self.first: dict[Expr, Dimension] = {}
        self.strict: dict[Expr, list[Dimension]] = {}
        for d in dimensions:
            e = env.replace(d.expr)
            if e.is_symbol:
                self.first.setdefault(e, d)
                if isinstance(d.said, Dim):
                    self.strict.setdefault(e, []).append(d)

    def add(self, d: Dimension, message: str, stack: Any = None) -> None:
        lines = "".join(stack.format()).rstrip() if stack else ""
        self.messages.append((d.name, message + (f"\n\nUser stack:\n{lines}" if lines else "")))

    def specialized(self, d: Dimension) -> None:
        """A size that became a number."""
        e = self.env.replace(d.expr)
        marked = isinstance(d.said, Dim) and not isinstance(d.said, _StaticDim)
        if isinstance(d.said, _DimHint) and d.said.type == _DimHintType.DYNAMIC:
            marked = e.is_number and int(e) not in (0, 1)
        if e.is_number and marked:
            self.add(
                d,
                f"You marked {d.name} as dynamic but your code specialized it to be a constant ({e}). If you're using "
                f"mark_dynamic, "
                "either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or "
                "Dim.AUTO.",
                self.env.specialization_stacks.get(d.source.name),
            )

    def related(self, d: Dimension) -> None:
        """Sizes that turned out to be related, which the program says nothing of."""
        e = self.env.replace(d.expr)
        if len(e.free_symbols) != 1:
            return
        (s,) = e.free_symbols
        other = self.first.get(s)
        if other is None or other is d or s not in self.strict or any(isinstance(x.said, _DimHint) for x in (d, other)):
            return
        if e.is_symbol and not _same(d.said, other.said):
            stack = self._stack_of(d.expr, other.expr)
            self.add(d, f"The values of {d.shown} and {other.shown} must always be equal.", stack)
        elif not e.is_symbol and not _derived(d.said, other.said, e, s):
            named = e.xreplace({s: symbol(other.name)})
            self.add(
                d,
                f"The values of {d.shown} must always be related to the values of {other.shown} by {d.name} = {named}.",
                self._stack_of(d.expr, other.expr),
            )

    def _stack_of(self, *exprs: Expr) -> Any:
        wanted = set().union(*[e.free_symbols for e in exprs])
        return next((g.stack for g in self.env.guards if wanted <= g.expr.free_symbols), None)

    def guards(self) -> list[Expr]:
        """The guards that don't follow from ranges; those on one size of a named dimension are violations."""
        left: dict[Expr, None] = {}
        names = self.names()
        for guard in self.env.guards:
            e = self.env.simplify(guard.expr)
            if e.kind == "true" and self._of_roots(guard.expr):
                e = guard.expr  # true of what the root of a derived dimension gives, not of every size
            if e in left or e.kind in ("true", "false") or _by_ranges(self.env, e):
                continue
            left[e] = None
            if len(e.free_symbols) == 1:
                (s,) = e.free_symbols
                for d in self.strict.get(s, [])[:1]:
                    self.add(
                        d, f"Not all values of {self._in_range(d)} satisfy the generated guard {text_of(e, names)}.", guard.stack
                    )
        return list(left)

    def _of_roots(self, e: Expr) -> bool:
        """Whether an expression's sizes are computed from a root that no dimension is."""
        found = {s for s in e.free_symbols if not self.env.replace(s).is_symbol and self.env.replace(s).free_symbols}
        return bool(found) and all(self.env.replace(s).free_symbols.isdisjoint(self.first) for s in found)

    def names(self) -> dict[Expr, str]:
        """Where symbols come from."""
        return {s: self.first[s].source.name for s in self.first}

    def _in_range(self, d: Dimension) -> str:
        low = f"{d.said.min} <= " if d.said.min > 2 else ""
        high = f" <= {d.said.max}" if d.said.max != int_oo else ""
        return f"{d.shown} in the specified range" + (f" {low}{d.name}{high}" if low or high else "")

    def ranges(self) -> None:
        """Ranges that the trace made smaller than those of named dimensions."""
        for s, dims in self.strict.items():
            r = self.env.var_to_range[s]
            for d in dims:
                if not (ValueRanges(d.said.min, d.said.max) & _DEFAULT).issubset(r):
                    name = self.first[s].source.name
                    high = "IntInfinity()" if r.upper == int_oo else str(r.upper)
                    stack = next((g.stack for g in self.env.guards if s in g.expr.free_symbols), None)
                    self.add(
                        self.first[s],
                        f"Not all values of {self._in_range(d)} satisfy the generated guard {r.lower} <= {name} and {name} <= "
                        f"{high}",
                        stack,
                    )
                    break  # the others are the same


def _by_ranges(env: ShapeEnv, e: Expr) -> bool:
    return decided(e, env.var_to_range) is not None


def _same(a: Any, b: Any) -> bool:
    return isinstance(a, Dim) and isinstance(b, Dim) and a.__name__ == b.__name__


def _derived(a: Any, b: Any, e: Expr, s: Expr) -> bool:
    if not isinstance(a, Dim) or not isinstance(b, Dim):
        return False
    root = symbol("root")
    first = a.of(root) if isinstance(a, _DerivedDim) else root
    second = b.of(root) if isinstance(b, _DerivedDim) else root
    names = {d.root.__name__ if isinstance(d, _DerivedDim) else d.__name__ for d in (a, b)}
    return len(names) == 1 and e.xreplace({s: second}) == first


# ---------------------------------------------------------------- suggested fixes


def _fixes(env: ShapeEnv, dimensions: list[Dimension]) -> str:
    """The lines that say how dynamic_shapes would fit the trace."""
    done: set[str] = set()
    first: dict[Expr, Dimension] = {}
    for d in dimensions:
        e = env.replace(d.expr)
        if e.is_symbol:
            first.setdefault(e, d)
    dims: list[str] = []
    others: list[str] = []
    for d in dimensions:
        if not isinstance(d.said, Dim) or isinstance(d.said, _StaticDim) or d.name in done:
            continue
        e = env.replace(d.expr)
        root = d.said.root if isinstance(d.said, _DerivedDim) else d.said
        name = root.__name__
        if e.is_number:
            value = int(e)
            if isinstance(d.said, _DerivedDim):
                solved = isolated(rebuild("Eq", (d.said.of(symbol(name)), e)), symbol(name))
                value = int(solved[1]) if solved is not None else value
            text = f"{name} = {value}"
        elif not e.is_symbol or first[e] is not d:
            if isinstance(d.said, _DerivedDim) or not _is_linear(e):
                continue
            (s,) = e.free_symbols
            if s not in first:
                continue
            named = e.xreplace({s: symbol(first[s].name)})
            if str(named) == name:
                continue
            text = f"{name} = {named}"
        else:
            made = _range_fix(env, d, e, name)
            if made is None:
                continue
            done.add(d.name)
            dims += made[0]
            others += made[1]
            continue
        if text not in others:
            others.append(text)
        done.add(d.name)
    lines = [*dims, *others]
    return "\nSuggested fixes:\n  " + "\n  ".join(lines) if lines else ""


def _is_linear(e: Expr) -> bool:
    return len(e.free_symbols) == 1 and all(coefficient(t)[1] == 1 or coefficient(t)[1].is_symbol for t in terms(e))


def _range_fix(env: ShapeEnv, d: Dimension, s: Expr, name: str) -> Any:
    """(lines of ranges, lines of relations) for a dimension that keeps its symbol; None if it is as said."""
    r = env.var_to_range[s]
    low, high = r.lower, r.upper
    steps = [int(m.args[1]) for m in env.divisible if env.replace(m.args[0]) == s and m.args[1].is_number]
    if isinstance(d.said, _DerivedDim):
        root = symbol(name)
        ends = [(k, b) for k, b in (("Ge", low), ("Le", high)) if b != int_oo]
        bounds = [isolated(rebuild(k, (d.said.of(root), as_expr(b))), root) for k, b in ends]
        values = {b[0]: int(b[1]) for b in bounds if b is not None and b[1].is_number}
        low, high = values.get("Ge", d.said.root.min), values.get("Le", int_oo)
    own = d.said.root if isinstance(d.said, _DerivedDim) else d.said
    if steps and not isinstance(d.said, _DerivedDim):
        step = math.lcm(*steps)
        least, most = -(-low // step), "oo" if high == int_oo else high // step
        return [f"_{name} = Dim('_{name}', min={least}, max={most})"], [f"{name} = {step}*_{name}"]
    if ((own.min < 2 and low == 2) or own.min == low) and own.max == high:
        return None
    parts = [f"'{name}'", *[f"min={low}"] * (low != 2), *[f"max={high}"] * (high != int_oo)]
    return [f"{name} = Dim({', '.join(parts)})"], []


# ---------------------------------------------------------------- ranges


def range_constraints(env: ShapeEnv, dimensions: list[Dimension], dynamic: bool) -> dict[Expr, ValueRanges]:
    """The ranges of the inputs' sizes, and of what only a run tells. ValueError for hints that the trace doesn't keep to."""
    found: dict[Expr, ValueRanges] = {s: env.var_to_range[s] for s in env.unbacked}
    if not dynamic:
        return found
    symbols: dict[Expr, None] = {}
    violations = []
    for d in dimensions:
        e = env.replace(d.expr)
        if not e.is_number:
            own = ValueRanges(d.said.min, d.said.max) if isinstance(d.said, Dim) else env.bound_sympy(e)
            found[e] = found.get(e, ValueRanges(0, int_oo)) & own
            symbols.update(dict.fromkeys(sorted(e.free_symbols, key=lambda s: s.name)))
        if isinstance(d.said, _DimHint):
            message = _check_hint(env, d, e, found)
            if message:
                violations.append(message)
    if violations:
        raise ValueError(
            "Found the following conflicts between user-specified ranges and inferred ranges from model tracing:\n"
            + "\n".join(violations)
        )
    for s in symbols:
        found.setdefault(s, env.var_to_range[s])
    return found


def _check_hint(env: ShapeEnv, d: Dimension, e: Expr, found: dict[Expr, ValueRanges]) -> str:
    traced = ValueRanges(int(e), int(e)) if e.is_number else found[e]
    place = f"inputs{pytree.keystr(d.path)}" + ("" if d.source.idx is None else f".shape[{d.source.idx}]")
    said = ValueRanges(0 if d.said.min is None else d.said.min, int_oo if d.said.max is None else d.said.max)
    try:
        both = traced & said
    except ValueError:
        return (
            f"- Received user-specified min/max range of [{d.said.min}, {d.said.max}], conflicting with the inferred min/max "
            f"range of "
            f"[{traced.lower}, {traced.upper}], for {place}."
        )
    if not e.is_number:
        found[e] = both
        if e.is_symbol:
            env.var_to_range[e] = env.var_to_range[e] & said
    if d.said.type == _DimHintType.DYNAMIC and both.is_singleton():
        start = f"- Received user-specified dim hint Dim.DYNAMIC(min={d.said.min}, max={d.said.max}), but "
        if traced.is_singleton() and d.value in (0, 1):
            return f"{start}export 0/1 specialized due to hint of {d.value} for dimension {place}."
        return f"{start}tracing inferred a static shape of {both.lower} for dimension {place}."
    return ""
