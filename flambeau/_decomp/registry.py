"""Tables of decompositions: functions that compute an operator by others, by the operator's overload. Used by the whole room.

"post_autograd" has those that graphs without gradients are taken apart by, "pre_autograd" and "meta" are for programs to fill.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import flambeau.utils._pytree as pytree
from flambeau.dispatcher.aten.composites import body_of
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverload, OpOverloadPacket

__all__ = [
    "Composite",
    "decomposition_table",
    "global_decomposition_table",
    "pre_autograd_decomposition_table",
    "register_decomposition",
    "remove_decompositions",
]


class Composite:
    """What a table has for an operator that is made of others: called with its arguments, it calls the other ones."""

    __slots__ = ("operator",)

    def __init__(self, operator: Any) -> None:
        self.operator = operator

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rule = body_of(self.operator, graph=True)
        made = NotImplemented if rule is None else rule(*args, **kwargs)
        return self.operator(*args, **kwargs) if made is NotImplemented else made


TYPES = ("post_autograd", "pre_autograd", "meta")
global_decomposition_table: dict[str, dict[Any, Callable[..., Any]]] = defaultdict(dict)
decomposition_table = global_decomposition_table["post_autograd"]
pre_autograd_decomposition_table = global_decomposition_table["pre_autograd"]
meta_table = global_decomposition_table["meta"]


def overloads_of(operator: Any) -> list[Any]:
    """An operator's overloads; an overload or a higher-order operator itself."""
    if isinstance(operator, OpOverloadPacket):
        return [getattr(operator, name) for name in operator.overloads()]
    return [operator]


def register_decomposition(
    aten_op: Any, registry: dict[Any, Callable[..., Any]] | None = None, *, type: str = "post_autograd", unsafe: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: a function that computes operators by others.

    aten_op: an overload, a packet (all its overloads that return something), or a list of them. registry: a dict of one's own;
    otherwise that of `type`. TypeError for anything else, AssertionError for a type that there isn't, RuntimeError for an
    operator that is in the registry already.
    """
    if type not in TYPES:
        raise AssertionError(f"type must be one of {set(TYPES)}, got {type}")

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        table = global_decomposition_table[type] if registry is None else registry
        for operator in pytree.tree_leaves(aten_op):
            if not isinstance(operator, (OpOverload, OpOverloadPacket, HigherOrderOperator)):
                raise TypeError(f"Expected OpOverload or OpOverloadPacket, got {operator.__class__}")
            for overload in overloads_of(operator):
                if overload in table:
                    raise RuntimeError(f"duplicate registrations for {overload}")
                table[overload] = fn
        return fn

    return register


def remove_decompositions(decompositions: dict[Any, Callable[..., Any]], aten_ops: Iterable[Any]) -> None:
    """Take operators out of a table; those that it hasn't don't matter."""
    for operator in aten_ops:
        for overload in overloads_of(operator):
            decompositions.pop(overload, None)
