"""torch._decomp: operators as functions of others, the core ones of aten above all.

`core_aten_decompositions()` is the table by which exported programs are taken apart. Stands on registry, on the rules in
`decompositions` and `composites`, on table, and on references; used by torch.export and by programs that pass tables to make_fx.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau._decomp import inductor as inductor
from flambeau._decomp import references
from flambeau._decomp.registry import (
    TYPES,
    decomposition_table,
    global_decomposition_table,
    meta_table,
    overloads_of,
    pre_autograd_decomposition_table,
    register_decomposition,
    remove_decompositions,
)
from flambeau._decomp.table import CustomDecompTable, core_decompositions
from flambeau.dispatcher.overloads import OpOverload, OpOverloadPacket

__all__ = [
    "core_aten_decompositions",
    "decomposition_table",
    "get_decompositions",
    "global_decomposition_table",
    "meta_table",
    "pre_autograd_decomposition_table",
    "register_decomposition",
    "remove_decompositions",
]

references.register()
_core_aten_decompositions_post_autograd = core_decompositions


def core_aten_decompositions() -> CustomDecompTable:
    """A table of one's own that takes everything apart into aten's core operators: torch.export.default_decompositions()."""
    return CustomDecompTable()


def get_decompositions(
    aten_ops: Sequence[OpOverload | OpOverloadPacket], type: str = "post_autograd"
) -> dict[Any, Callable[..., Any]]:
    """The decompositions of these operators that are registered, by overload."""
    if type not in TYPES:
        raise AssertionError(f"type must be one of {set(TYPES)}, got {type}")
    table = global_decomposition_table[type]
    return {overload: table[overload] for operator in aten_ops for overload in overloads_of(operator) if overload in table}
