"""The outputs of `if` and loops, in the order in which they are read; those that nobody reads come last.

Stands on ir; the last of the passes.
"""

from __future__ import annotations

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.values import Value

__all__ = ["canonicalize"]


def canonicalize(graph: Graph) -> None:
    """Sort the outputs of nodes with blocks."""
    _block(graph.block(), _numbered(graph.block()))


def _numbered(block: Block) -> dict[Node, int]:
    """The nodes in the order of the text, each block's return node behind its nodes."""
    order: dict[Node, int] = {}

    def visit(inner: Block) -> None:
        for node in [*inner.nodes(), inner.returnNode()]:
            order[node] = len(order)
            for each in node.blocks():
                visit(each)

    visit(block)
    return order


def _block(block: Block, order: dict[Node, int]) -> None:
    for node in reversed(list(block.nodes())):
        if node.kind() in ("prim::If", "prim::Loop"):
            _sort(node, order)
        for inner in node.blocks():
            _block(inner, order)


def _first_use(value: Value, order: dict[Node, int]) -> tuple[int, int]:
    return min(((order[use.user], use.offset) for use in value.uses()), default=(len(order), 0))


def _sort(node: Node, order: dict[Node, int]) -> None:
    outputs = list(node.outputs())
    wanted = sorted(range(len(outputs)), key=lambda i: _first_use(outputs[i], order))
    if wanted == list(range(len(outputs))):
        return
    _permute(node._outputs, wanted, 0)
    for offset, value in enumerate(node._outputs):
        value._offset = offset
    is_loop = node.kind() == "prim::Loop"
    if is_loop:
        _permute(node._inputs, wanted, 2)
    for block in node.blocks():
        _permute(block.returnNode()._inputs, wanted, int(is_loop))
        if is_loop:
            _permute(block.paramNode()._outputs, wanted, 1)
            for offset, value in enumerate(block.paramNode()._outputs):
                value._offset = offset


def _permute(values: list[Value], wanted: list[int], first: int) -> None:
    values[first:] = [values[first + i] for i in wanted]
