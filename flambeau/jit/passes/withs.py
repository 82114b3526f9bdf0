"""`with`: what stands between Enter and Exit becomes a block while exits are transformed, so that Exit is never jumped over.

Stands on ir; used by exits.
"""

from __future__ import annotations

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node

__all__ = ["exits_to_blocks", "from_blocks"]


def exits_to_blocks(graph: Graph) -> None:
    """Put the nodes between Enter and Exit into With nodes."""
    _to_blocks(graph.block())


def _to_blocks(block: Block) -> None:
    graph = block.owningGraph()
    entered: list[Node] = []
    for node in list(block.nodes()):
        for inner in node.blocks():
            _to_blocks(inner)
        if node.kind() == "prim::Enter":
            entered.append(node)
        elif node.kind() == "prim::Exit" and entered:
            enter = entered.pop()
            made = graph.create("prim::With", [enter.output()], 0).insertBefore(node)
            body, leave = made.addBlock(), made.addBlock()
            each = enter.next()
            while each is not made:
                following = each.next()
                each.moveBefore(body.returnNode())
                each = following
            node.moveBefore(leave.returnNode())


def from_blocks(graph: Graph) -> None:
    """Put the nodes of With nodes back."""
    _from_blocks(graph.block())


def _from_blocks(block: Block) -> None:
    for node in list(block.nodes()):
        for inner in node.blocks():
            _from_blocks(inner)
        if node.kind() != "prim::With":
            continue
        body, leave = node.blocks()
        for each in list(body.nodes()):
            each.moveBefore(node)
        for mine, inner_value in zip(list(node.outputs()), list(body.outputs())):
            mine.replaceAllUsesWith(inner_value)
        body.returnNode().removeAllInputs()
        for each in list(leave.nodes()):
            each.moveBefore(node)
        node.destroy()
