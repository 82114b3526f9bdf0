"""torch.fx.experimental.symbolic_shapes: ShapeEnv, and questions about sizes that may be symbolic.

A plain number is answered by itself. Stands on shape_env and base.symbolic.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

import flambeau as torch
from flambeau._subclasses.symbolic.state import kept, sizes_of
from flambeau.base.symbolic.expressions import Expr
from flambeau.base.symbolic.numbers import SymBool, SymFloat, SymInt, is_symbolic_number, known_true
from flambeau.base.symbolic.ranges import ValueRanges
from flambeau.core.operator import unsupported
from flambeau.fx.experimental.shape_env import RuntimeAssert, ShapeEnv, ShapeGuard
from flambeau.fx.experimental.size_errors import (
    ConstraintViolationError,
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
)
from flambeau.fx.experimental.unbacked_bindings import CallMethodKey, ConvertIntKey, bindings_of

__all__ = [
    "CallMethodKey", "ConvertIntKey",
    "ConstraintViolationError", "DimDynamic", "GuardOnDataDependentSymNode", "PendingUnbackedSymbolNotFound",
    "RelaxedUnspecConstraint", "RuntimeAssert", "ShapeEnv", "ShapeGuard", "StatelessSymbolicContext", "StrictMinMaxConstraint",
    "free_symbols", "free_unbacked_symbols", "guard_or_false", "guard_or_true", "guard_size_oblivious", "hint_int",
    "is_concrete_bool", "is_concrete_float", "is_concrete_int", "statically_known_false", "statically_known_true", "sym_and",
    "sym_eq", "sym_or",
]  # fmt: skip

SymTypes = (SymInt, SymFloat, SymBool)
py_sym_types = SymTypes
IntLike, FloatLike, BoolLike = (int, SymInt), (float, SymFloat), (bool, SymBool)


# ---------------------------------------------------------------- what is said of dimensions


class DimDynamic(Enum):
    """How a dimension is treated: DYNAMIC: a symbol of its own; DUCK: one symbol for equal sizes; STATIC: a number; UNBACKED: a
    symbol that only a run tells.
    """

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    UNBACKED = 3


@dataclasses.dataclass(frozen=True)
class StrictMinMaxConstraint:
    """A dimension has every size of a range: the trace must hold for all of them."""

    vr: ValueRanges
    warn_only: bool = False

    def render(self, source: Any) -> str:
        """The condition as text."""
        return f"{self.vr.lower} <= {source.name} <= {self.vr.upper}"


@dataclasses.dataclass(frozen=True)
class RelaxedUnspecConstraint:
    """A dimension has more than one size."""

    warn_only: bool = False

    def render(self, source: Any) -> str:
        """The condition as text."""
        return f"RelaxedUnspecConstraint({source.name})"


@dataclasses.dataclass
class StatelessSymbolicContext:
    """For each dimension of a tensor how it is treated, and what is said of it."""

    dynamic_sizes: list[DimDynamic]
    dynamic_strides: Any = None
    constraint_sizes: Any = None
    constraint_strides: Any = None
    view_base_context: Any = None

    def __post_init__(self) -> None:
        if self.constraint_sizes is None:
            self.constraint_sizes = [None] * len(self.dynamic_sizes)


# ---------------------------------------------------------------- truths


def _env(a: Any) -> Any:
    return a.node.shape_env


def guard_or_false(a: Any) -> bool:
    """The truth of a condition on sizes; False where only a run tells."""
    return _env(a).evaluate(a.node.expr, False) if isinstance(a, SymBool) else bool(a)


def guard_or_true(a: Any) -> bool:
    """The truth of a condition on sizes; True where only a run tells."""
    return _env(a).evaluate(a.node.expr, True) if isinstance(a, SymBool) else bool(a)


def statically_known_true(x: Any) -> bool:
    """Whether a condition on sizes is known to hold for all sizes; nothing is guarded on."""
    return known_true(x)


def statically_known_false(x: Any) -> bool:
    """Whether a condition on sizes is known to hold for no sizes; nothing is guarded on."""
    return _env(x).decide(x.node.expr) is False if isinstance(x, SymBool) else not x


definitely_true, definitely_false = statically_known_true, statically_known_false


def has_static_value(a: Any) -> bool:
    """Whether a number is known for all sizes. Raises AssertionError unless it is a number."""
    if isinstance(a, SymBool):
        return _env(a).decide(a.node.expr) is not None
    return guard_scalar_type(a) and (not is_symbolic_number(a) or _env(a).simplify(a.node.expr).is_number)


def guard_scalar_type(a: Any) -> bool:
    """True. Raises AssertionError unless it is a number."""
    if not isinstance(a, (bool, int, float, *SymTypes)):
        raise AssertionError(f"unrecognized scalar {a}")
    return True


def guard_size_oblivious(expr: Any) -> bool:
    """The truth of a condition on sizes."""
    return bool(expr)


def expect_true(a: Any, skip: int = 0) -> bool:
    """The truth of a condition on sizes that a run checks where the example doesn't tell."""
    return a.node.expect_true() if isinstance(a, SymBool) else bool(a)


def guard_bool(a: Any) -> bool:
    """bool(a)."""
    return bool(a)


def guard_int(a: Any) -> int:
    """int(a)."""
    return int(a)


def guard_float(a: Any) -> float:
    """float(a)."""
    return float(a)


def guard_scalar(a: Any) -> Any:
    """The number itself, which the trace depends on. Raises AssertionError for anything else."""
    guard_scalar_type(a)
    return bool(a) if isinstance(a, BoolLike) else int(a) if isinstance(a, IntLike) else float(a)


# ---------------------------------------------------------------- values for the example


def hint_int(a: Any, fallback: int | None = None) -> int:
    """The size for the example."""
    return a.node.require_hint(fallback) if isinstance(a, SymInt) else int(a)


size_hint = hint_int


def has_hint(a: Any) -> bool:
    """Whether the example tells a number."""
    return a.node.has_hint() if is_symbolic_number(a) else True


has_guarding_hint = has_hint


def guarding_hint_or_throw(a: Any) -> Any:
    """The number for the example. GuardOnDataDependentSymNode where only a run tells it."""
    if not is_symbolic_number(a):
        return a
    if not a.node.has_hint():
        return _env(a).specialized(a.node)
    return a.node.value


def optimization_hint(a: Any, fallback: int | None = None) -> Any:
    """The number for the example, or what stands in for it."""
    if not is_symbolic_number(a):
        return a
    return a.node.value if a.node.has_hint() or fallback is None else fallback


# ---------------------------------------------------------------- symbols


def _expressions(val: Any) -> Iterator[Expr]:
    if isinstance(val, Expr):
        yield val
    elif is_symbolic_number(val):
        yield val.node.expr
    elif isinstance(val, torch.Tensor):
        found = kept(val)
        if found is not None:
            yield from (*sizes_of(val), *map(found.env.replace, found.strides), found.env.replace(found.offset))
    elif isinstance(val, (tuple, list)):
        for x in val:
            yield from _expressions(x)


def free_symbols(val: Any) -> set[Expr]:
    """The symbols in numbers, in the sizes of tensors, and in tuples and lists of them."""
    return {s for e in _expressions(val) for s in e.free_symbols}


def free_unbacked_symbols(val: Any) -> set[Expr]:
    """Those that only a run tells."""
    return {s for s in free_symbols(val) if s.name.startswith(("u", "zuf"))}


def has_free_symbols(val: Any) -> bool:
    """Whether there are symbols in it."""
    return bool(free_symbols(val))


def has_free_unbacked_symbols(val: Any) -> bool:
    """Whether there are symbols in it that only a run tells."""
    return bool(free_unbacked_symbols(val))


def is_symbolic(val: Any) -> bool:
    """Whether a number has symbols."""
    return is_symbolic_number(val) and val.node.is_symbolic()


has_symbolic_sizes_strides = has_free_symbols


def is_concrete_int(a: Any) -> bool:
    """Whether it is an int that has no symbols. Raises AssertionError unless it is a number."""
    guard_scalar_type(a)
    return isinstance(a, IntLike) and (isinstance(a, int) or a.node.expr.is_number)


def is_concrete_float(a: Any) -> bool:
    """Whether it is a float that has no symbols. Raises AssertionError unless it is a number."""
    guard_scalar_type(a)
    return isinstance(a, FloatLike) and (isinstance(a, float) or a.node.expr.is_number)


def is_concrete_bool(a: Any) -> bool:
    """Whether it is a bool that has no symbols. Raises AssertionError unless it is a number."""
    guard_scalar_type(a)
    return isinstance(a, BoolLike) and (isinstance(a, bool) or a.node.expr.kind in ("true", "false"))


def is_nested_int(s: Any) -> bool:
    """Whether it is a size that stands for the lengths of ragged rows."""
    return isinstance(s, SymInt) and bool(s.node.is_nested_int())


def is_accessor_node(node: Any) -> bool:
    """Whether a node reads a size, stride or offset of a tensor, as `meta["val"]` says."""
    if not isinstance(node.args[0] if node.args else None, torch.fx.Node):
        return False
    if not isinstance(node.args[0].meta.get("val"), torch.Tensor):
        return False
    if node.op == "call_method":
        return node.target in ("size", "stride", "storage_offset", "item")
    sizes = ("aten.sym_size", "aten.sym_stride", "aten.sym_storage_offset")
    return node.op == "call_function" and str(node.target).startswith(sizes)


# ---------------------------------------------------------------- conditions


def sym_eq(x: Any, y: Any) -> Any:
    """Whether two sizes, or tuples and lists of sizes, are equal. Raises AssertionError for other types."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and sym_and(True, *map(sym_eq, x, y))
    if isinstance(x, IntLike) and isinstance(y, IntLike):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


def _joined(conditions: Iterable[Any], stop: bool) -> Any:
    made: Any = not stop
    both: Callable[[Any, Any], Any] = operator.or_ if stop else operator.and_
    for c in conditions:
        if not isinstance(c, SymBool) and bool(c) is stop:
            return stop
        if isinstance(c, SymBool):
            made = c if not isinstance(made, SymBool) else both(made, c)
    return made


def sym_and(x: Any, *others: Any) -> Any:
    """Whether all hold."""
    return _joined([x, *others], False)


def sym_or(x: Any, *others: Any) -> Any:
    """Whether one holds."""
    return _joined([x, *others], True)


def canonicalize_bool_expr(expr: Any) -> Any:
    """The expression itself."""
    return expr


def constrain_range(a: Any, *, min: int | None, max: int | None = None) -> None:
    """Assert min <= a <= max. Raises ValueError for a plain number outside."""
    if is_symbolic_number(a):
        torch.sym_constrain_range(a, min=min, max=max)
    elif (min is not None and a < min) or (max is not None and a > max):
        raise ValueError(f"Invalid value {a} for range [{min}:{max}]")


def constrain_unify(a: Any, b: Any) -> None:
    """Assert that two sizes are equal. Raises AssertionError where they aren't."""
    equal = a == b
    if not (equal.node.expect_true() if isinstance(equal, SymBool) else equal):
        raise AssertionError(f"{a} != {b}")


def check_consistent(new: Any, old: Any) -> None:
    """Raise RuntimeError unless two tensors have the same shape, or two numbers are equal."""
    if isinstance(new, torch.Tensor):
        if not isinstance(old, torch.Tensor) or len(new.shape) != len(old.shape) or not bool(sym_eq(new.shape, old.shape)):
            raise RuntimeError(f"{getattr(old, 'shape', old)} != {new.shape} (old != new)")
    elif isinstance(new, (int, float, *SymTypes)) and bool(new != old):
        raise RuntimeError(f"{old} != {new} (old != new)")


# ---------------------------------------------------------------- graphs


def fx_placeholder_vals(gm: Any) -> list[Any]:
    """`meta["val"]` of the inputs of a graph."""
    return [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]


def fx_placeholder_targets(gm: Any) -> list[str]:
    """The names of the inputs of a graph."""
    return [node.target for node in gm.graph.find_nodes(op="placeholder")]


def is_symbol_binding_fx_node(node: Any) -> Expr | None:
    """The symbol that a node gives its value: an input, or a call that only a run tells; None for other nodes."""
    val = node.meta.get("val")
    if not isinstance(val, SymInt) or not val.node.expr.is_symbol:
        return None
    if node.op == "placeholder" or val.node.expr.name.startswith("u"):
        return val.node.expr
    return None


def find_symbol_binding_fx_nodes(graph: Any) -> dict[Expr, Any]:
    """By symbol the first node that gives it its value."""
    found: dict[Expr, Any] = {}
    for node in graph.nodes:
        symbol = is_symbol_binding_fx_node(node)
        if symbol is not None:
            found.setdefault(symbol, node)
    return found


def compute_unbacked_bindings(shape_env: Any, example_value: Any, *args: Any, **kwargs: Any) -> dict[Expr, Any] | None:
    """By symbol that only a run tells, which a result has, where it lies in it; None without an environment."""
    return None if shape_env is None else bindings_of(example_value, free_unbacked_symbols(example_value))


def rebind_unbacked(shape_env: Any, n: Any, result: Any) -> None:
    """Nothing has to be bound: a graph that runs again makes new symbols."""


globals().update(
    unsupported.all_of(
        "fx.experimental.symbolic_shapes.",
        "use ShapeEnv, StatelessSymbolicContext and torch.export.Dim",
        kinds="DimConstraints Constraint StatefulSymbolicContext SubclassSymbolicContext SymbolicContext EqualityConstraint "
        "DivideByKey InnerTensorKey PropagateUnbackedSymInts ShapeEnvSettings",
    )
)
