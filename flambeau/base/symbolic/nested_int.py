"""Sizes that stand for the lengths of ragged rows: `j1` in the shape (2, j1, 3) of a jagged nested tensor.

A nested int is known by the lengths that it stands for: two are equal if they stand for the same ones, and how two that differ
compare isn't known. Stands on `numbers`; used by ops.nested.
"""

from __future__ import annotations

import operator
from typing import Any, NoReturn

from flambeau.base.naming import public_module
from flambeau.base.symbolic.numbers import SymInt, SymNode

__all__ = ["NestedIntNode", "nested_int"]


class NestedIntNode(SymNode):
    """`coeff` times the lengths with the number `t_id`."""

    __module__ = public_module("nested._internal.nested_int")
    __slots__ = ("coeff", "t_id")

    def __init__(self, t_id: int, coeff: int) -> None:
        self.t_id, self.coeff, self.pytype, self.shape_env = t_id, coeff, int, None

    def is_nested_int(self) -> bool:
        """True."""
        return True

    def nested_int(self) -> int:  # type: ignore[override]
        """The number of the lengths."""
        return self.t_id

    def nested_int_coeff(self) -> int:
        """The factor."""
        return self.coeff

    def is_symbolic(self) -> bool:
        """False: no trace is needed to have one."""
        return False

    def has_hint(self) -> bool:
        """False: it has no value."""
        return False

    def maybe_as_int(self) -> None:
        """None."""

    def guard_int(self, file: Any = "", line: int = 0) -> NoReturn:
        """AttributeError: it has no value."""
        raise AttributeError("'NestedIntNode' object has no attribute 'int_'")

    def str(self) -> Any:
        """`j1`, or `3*j1`."""
        return f"j{self.t_id}" if self.coeff == 1 else f"{self.coeff}*j{self.t_id}"

    __repr__ = str

    def apply(self, name: Any, *args: Any) -> Any:
        """An operation of nested ints and ints. ValueError for a comparison whose answer isn't known, AttributeError for other
        operations."""
        nodes = [a.node if isinstance(a, SymInt) else a for a in args]
        if name == "mul":
            factors = [n for n in nodes if not isinstance(n, NestedIntNode)]
            if len(factors) != 1 or type(factors[0]) is not int:
                raise ValueError(f"unsupported: {nodes[0]} * {nodes[1]}")
            return SymInt(NestedIntNode(self.t_id, self.coeff * factors[0]))
        compare = {
            "eq": _eq,
            "ne": lambda a, b: not _eq(a, b),
            "ge": _ge,
            "le": lambda a, b: _ge(b, a),
            "lt": lambda a, b: not _ge(a, b),
            "gt": lambda a, b: not _ge(b, a),
        }.get(name)
        if compare is None:
            raise AttributeError(f"'NestedIntNode' object has no attribute {name!r}")
        return compare(*nodes)


def _eq(a: Any, b: Any) -> bool:
    return isinstance(a, NestedIntNode) and isinstance(b, NestedIntNode) and (a.t_id, a.coeff) == (b.t_id, b.coeff)


def _ge(a: Any, b: Any) -> bool:
    """a >= b: known of lengths of the same rows, and to be true of small numbers, for no row is taken to be shorter."""
    if isinstance(a, NestedIntNode) and isinstance(b, NestedIntNode):
        if a.t_id == b.t_id:
            return a.coeff >= b.coeff
    elif isinstance(a, NestedIntNode) and b <= 2:
        return True
    elif isinstance(b, NestedIntNode) and not isinstance(a, NestedIntNode) and a < 2:
        return False
    raise ValueError("ge: relation is indeterminate")


def nested_int(number: int, factor: int = 1) -> SymInt:
    """The size that stands for the lengths with this number."""
    return SymInt(NestedIntNode(number, factor))


def _hash(self: SymInt) -> int:
    if not self.node.is_nested_int():
        raise TypeError(f"unhashable type: non-nested {type(self).__name__}")
    return hash(operator.attrgetter("t_id", "coeff")(self.node))


SymInt.__hash__ = _hash  # type: ignore[method-assign, assignment]
