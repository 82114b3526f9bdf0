"""A graph's order: every value that a node reads is given in front of it, in its block or one around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flambeau.jit.ir.blocks import Block
    from flambeau.jit.ir.graph import Graph
    from flambeau.jit.ir.values import Value

__all__ = ["check"]


def check(graph: Graph) -> None:
    """RuntimeError for a graph in which a value is read where it is not there."""
    _check(graph.block(), set())


def _check(block: Block, known: set[Value]) -> None:
    known = known | set(block.inputs())
    for node in [*block.nodes(), block.returnNode()]:
        for value in node.inputs():
            if value not in known:
                raise RuntimeError(f"{node.kind()} reads %{value.debugName()}, which is not there yet")
        for inner in node.blocks():
            _check(inner, known)
        known |= set(node.outputs())
