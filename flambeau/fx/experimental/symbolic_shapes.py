"""torch.fx.experimental.symbolic_shapes: questions about sizes that may be symbolic; in flambeau every size is a number.

So a question is answered by the value, and nothing is ever guarded on.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.core.operator import unsupported

__all__ = [
    "GuardOnDataDependentSymNode",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_or_false",
    "guard_or_true",
    "guard_size_oblivious",
    "hint_int",
    "is_concrete_bool",
    "is_concrete_float",
    "is_concrete_int",
    "statically_known_false",
    "statically_known_true",
    "sym_and",
    "sym_eq",
    "sym_or",
]

_ADVICE = "sizes are Python numbers here; use int, float and bool"


class GuardOnDataDependentSymNode(RuntimeError):
    """A question that only the values of a run answer: torch.export raises it where a program branches on a tensor."""


class PendingUnbackedSymbolNotFound(RuntimeError):
    """A symbolic size that no result has; never raised here."""


class ConstraintViolationError(RuntimeError):
    """A size that a constraint forbids; never raised here."""


def guard_or_false(a: Any) -> bool:
    """The truth of a condition on sizes."""
    return bool(a)


def guard_or_true(a: Any) -> bool:
    """The truth of a condition on sizes."""
    return bool(a)


def statically_known_true(x: Any) -> bool:
    """Whether a condition on sizes holds."""
    return bool(x)


def statically_known_false(x: Any) -> bool:
    """Whether a condition on sizes doesn't hold."""
    return not x


definitely_true, definitely_false = statically_known_true, statically_known_false


def guard_size_oblivious(expr: Any) -> bool:
    """The truth of a condition on sizes."""
    return bool(expr)


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
    """The number itself. Raises AssertionError for anything else."""
    if not isinstance(a, (bool, int, float)):
        raise AssertionError(f"unrecognized scalar {a}")
    return a


def hint_int(a: Any, fallback: int | None = None) -> int:
    """The size."""
    return int(a)


size_hint = hint_int


def has_hint(a: Any) -> bool:
    """True: sizes are numbers."""
    return True


def has_free_symbols(val: Any) -> bool:
    """False: sizes are numbers."""
    return False


has_free_unbacked_symbols = has_symbolic_sizes_strides = is_symbolic = has_free_symbols


def free_symbols(val: Any) -> set[Any]:
    """The symbols in sizes: none."""
    return set()


free_unbacked_symbols = free_symbols


def is_concrete_int(a: Any) -> bool:
    """Whether it is an int. Raises AssertionError unless it is a number."""
    return isinstance(guard_scalar(a), int)


def is_concrete_float(a: Any) -> bool:
    """Whether it is a float. Raises AssertionError unless it is a number."""
    return isinstance(guard_scalar(a), float)


def is_concrete_bool(a: Any) -> bool:
    """Whether it is a bool. Raises AssertionError unless it is a number."""
    return isinstance(guard_scalar(a), bool)


def sym_eq(x: Any, y: Any) -> bool:
    """Whether two sizes, or tuples and lists of sizes, are equal. Raises AssertionError for other types."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and all(map(sym_eq, x, y))
    if isinstance(x, int) and isinstance(y, int):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


def sym_and(x: Any, *others: Any) -> bool:
    """Whether all hold."""
    return all([x, *others])


def sym_or(x: Any, *others: Any) -> bool:
    """Whether one holds."""
    return any([x, *others])


def canonicalize_bool_expr(expr: Any) -> Any:
    """The expression itself."""
    return expr


def constrain_range(a: Any, *, min: int | None, max: int | None = None) -> None:
    """Raise ValueError unless min <= a <= max."""
    if (min is not None and a < min) or (max is not None and a > max):
        raise ValueError(f"Invalid value {a} for range [{min}:{max}]")


def constrain_unify(a: Any, b: Any) -> None:
    """Raise AssertionError unless two sizes are equal."""
    if a != b:
        raise AssertionError(f"{a} != {b}")


globals().update(
    unsupported.all_of(
        "fx.experimental.symbolic_shapes.",
        _ADVICE,
        kinds="ShapeEnv DimDynamic DimConstraints Constraint RelaxedUnspecConstraint StrictMinMaxConstraint "
        "StatelessSymbolicContext StatefulSymbolicContext SubclassSymbolicContext SymbolicContext EqualityConstraint "
        "CallMethodKey ConvertIntKey DivideByKey InnerTensorKey PropagateUnbackedSymInts ShapeEnvSettings",
    )
)
SymTypes = (torch.SymInt, torch.SymFloat, torch.SymBool)
py_sym_types = SymTypes
IntLike, FloatLike, BoolLike = (int, torch.SymInt), (float, torch.SymFloat), (bool, torch.SymBool)


def guarding_hint_or_throw(a: Any) -> Any:
    """The number itself."""
    return a


def optimization_hint(a: Any, fallback: int | None = None) -> Any:
    """The number itself."""
    return a


def has_guarding_hint(a: Any) -> bool:
    """True: every size is known."""
    return True


has_static_value = has_guarding_hint


def expect_true(a: Any, skip: int = 0) -> bool:
    """bool(a); what is to happen where it is False is the caller's."""
    return bool(a)


def is_nested_int(s: Any) -> bool:
    """False: there are no sizes that stand for lengths of ragged rows."""
    return False


def check_consistent(new: Any, old: Any) -> None:
    """Raise RuntimeError unless two tensors have the same shape, or two numbers are equal."""
    if isinstance(new, torch.Tensor):
        if not isinstance(old, torch.Tensor) or new.shape != old.shape:
            raise RuntimeError(f"{getattr(old, 'shape', old)} != {new.shape} (old != new)")
    elif isinstance(new, (int, float)) and new != old:
        raise RuntimeError(f"{old} != {new} (old != new)")


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


def fx_placeholder_vals(gm: Any) -> list[Any]:
    """`meta["val"]` of the inputs of a graph."""
    return [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]


def fx_placeholder_targets(gm: Any) -> list[str]:
    """The names of the inputs of a graph."""
    return [node.target for node in gm.graph.find_nodes(op="placeholder")]


def find_symbol_binding_fx_nodes(graph: Any) -> dict[Any, Any]:
    """{}: no node gives a symbol its value."""
    return {}


def is_symbol_binding_fx_node(node: Any) -> None:
    """None: no node gives a symbol its value."""


def compute_unbacked_bindings(shape_env: Any, example_value: Any, *args: Any, **kwargs: Any) -> None:
    """None: no result has sizes that aren't known."""


def rebind_unbacked(shape_env: Any, n: Any, result: Any) -> None:
    """Nothing has to be bound: no result has sizes that aren't known."""
