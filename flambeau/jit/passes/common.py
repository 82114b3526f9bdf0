"""Nodes that give the same are one: torch._C._jit_pass_cse.

Stands on effects and aliases: what may change, or has effects, stays.
"""

from __future__ import annotations

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.constants import same_constant
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.passes.aliases import Aliases
from flambeau.jit.passes.constants import NONDETERMINISTIC
from flambeau.jit.passes.effects import has_side_effects, written

__all__ = ["eliminate_common"]


def eliminate_common(graph: Graph) -> bool:
    """Read one node's results where another gives the same; whether there were such."""
    aliases = Aliases(graph)
    changed: set[int] = set()
    _written(graph.block(), aliases, changed)
    outside = {group for value in graph.outputs() for group in aliases.groups(value)}
    return _block(graph.block(), [], aliases, changed, changed | outside)


def _written(block: Block, aliases: Aliases, changed: set[int]) -> None:
    """The groups of values that some node writes to."""
    for node in block.nodes():
        for value in written(node):
            changed |= aliases.groups(value)
        for inner in node.blocks():
            _written(inner, aliases, changed)


def _block(block: Block, seen: list[Node], aliases: Aliases, changed: set[int], kept: set[int]) -> bool:
    """changed: the groups that are written to; kept: these, and those that the caller gets, each as an object of its own."""
    found = False
    seen = list(seen)
    for node in list(block.nodes()):
        for inner in node.blocks():
            found |= _block(inner, seen, aliases, changed, kept)
        if node._blocks or node.kind() in NONDETERMINISTIC or node.kind() == "prim::GetAttr" or has_side_effects(node):
            continue
        if any(aliases.groups(value) & kept for value in node.outputs()):
            continue
        if any(aliases.groups(value) & changed for value in node.inputs()):
            continue
        same = next((other for other in seen if _same(node, other)), None)
        if same is None:
            seen.append(node)
            continue
        node.replaceAllUsesWith(same)
        node.destroy()
        found = True
    return found


def _same(a: Node, b: Node) -> bool:
    if a.kind() != b.kind() or a._inputs != b._inputs or a.attributes.keys() != b.attributes.keys():
        return False
    if [value.type() for value in a.outputs()] != [value.type() for value in b.outputs()]:
        return False
    return all(
        kind == b.attributes[name][0] and kind != "g" and same_constant(value, b.attributes[name][1])
        for name, (kind, value) in a.attributes.items()
    )
