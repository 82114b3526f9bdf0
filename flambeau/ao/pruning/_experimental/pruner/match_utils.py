"""Chains of calls in a graph. Stands on fx; used by base_structured_sparsifier."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.ao.quantization.utils import MatchAllNode
from flambeau.fx import Node
from flambeau.nn.utils import parametrize

__all__ = ["apply_match"]


def _match(modules: dict[str, Any], node: Any, current: Any) -> bool:
    """Whether a node is what one place of a pattern says: a class of modules, a function, a name, or anything."""
    if isinstance(current, type) and issubclass(current, MatchAllNode):
        return True
    if not isinstance(node, Node):
        return False
    if isinstance(current, type) and issubclass(current, nn.Module):
        return node.op == "call_module" and parametrize.type_before_parametrizations(modules[str(node.target)]) is current
    if callable(current):
        return node.op == "call_function" and node.target is current
    return isinstance(current, str) and node.target == current


def apply_match(modules: dict[str, Any], pattern: Any, node: Any, matched_node_pattern: list[Any]) -> list[Any] | None:
    """The nodes of a chain that begins at a node, along the first user of each; None if it isn't that of the pattern."""
    places = pattern if isinstance(pattern, tuple) else (pattern,)
    found = list(matched_node_pattern)
    for number, current in enumerate(places):
        if number:
            node = next(iter(node.users), None)
        if not _match(modules, node, current):
            return None
        found.append(node)
    return found
