"""Loops that count and may also stop early are written as loops that only have a condition.

Stands on ir; runs after exits.
"""

from __future__ import annotations

import sys

from flambeau.jit.frontend.matching import emit_builtin
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import INT

__all__ = ["canonicalize_modified", "is_counting", "is_infinite"]


def is_infinite(node: Node) -> bool:
    """Whether a loop's count never ends it."""
    return node.inputsAt(0).toIValue() == sys.maxsize


def _always(node: Node) -> bool:
    return node.inputsAt(1).toIValue() is True and next(next(node.blocks()).outputs()).toIValue() is True


def is_counting(node: Node) -> bool:
    """Whether a loop ends by its count alone, as `for` does."""
    return _always(node) and not is_infinite(node)


def canonicalize_modified(graph: Graph) -> None:
    """Rewrite loops that have both a count and a condition."""
    _block(graph.block())


def _block(block: Block) -> None:
    for node in list(block.nodes()):
        for inner in node.blocks():
            _block(inner)
        if node.kind() == "prim::Loop" and not is_infinite(node) and not _always(node):
            _rewrite(node)


def _rewrite(node: Node) -> None:
    graph = node.owningGraph()
    body = next(node.blocks())
    count = node.inputsAt(0)
    with graph.insert_point_guard(node):
        zero, one = graph.insertConstant(0), graph.insertConstant(1)
        condition = emit_builtin(graph, None, "aten::gt", [count, zero])
        if node.inputsAt(1).toIValue() is not True:
            condition = emit_builtin(graph, None, "aten::__and__", [condition, node.inputsAt(1)])
        node.replaceInput(1, condition)
        node.replaceInput(0, graph.insertConstant(sys.maxsize))
    node.addInput(zero)
    node.addOutput().setType(INT)
    step = body.addInput().setType(INT)
    count_in_body = next(body.inputs())
    count_in_body.replaceAllUsesWith(step)
    count_in_body.setDebugName("")
    with graph.insert_point_guard(body):
        following = emit_builtin(graph, None, "aten::add", [step, one])
        more = emit_builtin(graph, None, "aten::lt", [following, count])
        go_on = emit_builtin(graph, None, "aten::__and__", [more, next(body.outputs())])
    body.replaceOutput(0, go_on)
    body.registerOutput(following)
