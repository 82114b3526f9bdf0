"""torch.fx.experimental.sym_node: the node of a symbolic number, and the functions that compute with such numbers, by name."""

from __future__ import annotations

from typing import Any

from flambeau.base.symbolic.numbers import FUNCTIONS, SymBool, SymFloat, SymInt, SymNode
from flambeau.core.symbolic_numbers import sym_sqrt

__all__ = ["SymNode", "magic_methods", "method_to_operator", "sym_sqrt", "to_node"]

SymTypes = (SymInt, SymFloat, SymBool)
#: The operations of symbolic numbers, by name.
magic_methods = dict(FUNCTIONS)


def method_to_operator(method: str) -> Any:
    """The function that a graph calls for an operation. KeyError for one that there isn't."""
    return FUNCTIONS[method]


def to_node(self: SymNode, num: Any) -> Any:
    """The node of a number, beside that of another one; NotImplemented for what is no number."""
    if isinstance(num, SymTypes):
        return num.node
    return SymNode(num, self.shape_env, type(num), num) if isinstance(num, (bool, int, float)) else NotImplemented
