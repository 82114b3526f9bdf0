"""Modules that torch.jit.script and its kin have handed back as they are, and what such a module has no program for.

Module.__getattr__ asks here before it says that there is no such attribute; `jit` enters the modules.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from flambeau.core.operator.unsupported import AbsentAttribute

#: Attributes of a compiled program that no function or module has here.
PROGRAM_ATTRIBUTES = frozenset(
    (
        "code", "code_with_constants", "get_debug_state", "graph", "graph_for", "inlined_graph", "save", "save_to_buffer",
        "schema",
    )
)  # fmt: skip
# By identity: a class of modules may define == without a hash.
_entered: WeakValueDictionary[int, Any] = WeakValueDictionary()


def handed_back(module: Any) -> None:
    """Remember that a module was to be compiled."""
    _entered[id(module)] = module


def objection(name: str) -> AbsentAttribute:
    """What asking for an attribute of a compiled program raises."""
    return AbsentAttribute(
        f"there is no `{name}`: flambeau has no TorchScript compiler, and this runs eagerly; save weights with "
        "torch.save(module.state_dict(), path), read the Python source in place of the graph"
    )


def lacks(module: Any, name: str) -> AttributeError:
    """What asking a module for an attribute that it doesn't have raises."""
    if name in PROGRAM_ATTRIBUTES and _entered.get(id(module)) is module:
        return objection(name)
    return AttributeError(f"'{type(module).__name__}' object has no attribute '{name}'")
