"""References as decompositions: operators of aten that torch._refs writes in primitive operators, by their overloads.

They take the places in the table that no decomposition into aten's core operators has. Stands on torch._refs; used by
torch._decomp.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import _refs
from flambeau._decomp.registry import decomposition_table
from flambeau.dispatcher import builtin_schemas

__all__ = ["register"]

_ROOMS = ((_refs, ""), (_refs.nn.functional, ""), (_refs.special, "special_"), (_refs.special, ""))
#: References that leave out what an overload of the operator says, or that the operator is made without.
_NOT = frozenset(["empty", "full_like", "scalar_tensor", "conj_physical", "float_power", "square", "true_divide", "isfinite"])


def _suits(schema: Any) -> bool:
    """Whether a reference answers an overload: it makes a tensor of its own, and `out` is one tensor."""
    writes = [a for a in schema.arguments if a.is_write]
    return all(a.is_out for a in writes) and len(writes) <= 1 and "Dimname" not in str(schema)


def register() -> None:
    """Put the references that are made of primitive operators into the table."""
    for room, prefix in _ROOMS:
        for name in room.__all__:
            packet = f"aten::{prefix}{name}"
            overloads = builtin_schemas.overloads_of(packet)
            if name in _NOT or not overloads:
                continue
            found = getattr(room, name, None)
            if found is None or not getattr(found, "is_reference", False):
                continue
            for overload in overloads:
                if builtin_schemas.is_script(packet, overload):
                    continue
                if name.endswith("_") or _suits(builtin_schemas.schema_of(packet, overload)):
                    decomposition_table.setdefault(getattr(getattr(torch.ops.aten, prefix + name), overload), found)
