"""torch._inductor.decomposition: a table of decompositions to which programs add those of their own operators.

It begins as the decompositions into core operators. Programs read it (make_fx's `decomposition_table`); torch.compile's graphs
are not taken apart by it. Stands on table and registry; reached by the name of compat/aliases.txt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._decomp import registry
from flambeau._decomp.table import core_decompositions
from flambeau.utils import _pytree as pytree

decompositions: dict[Any, Callable[..., Any]] = core_decompositions()


def register_decomposition(ops: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: what computes operators (overloads, packets, a list of them) by others, in place of what this table had."""
    for operator in pytree.tree_leaves(ops):
        for overload in registry.overloads_of(operator):
            decompositions.pop(overload, None)
    return registry.register_decomposition(ops, decompositions)
