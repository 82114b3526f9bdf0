"""Calls of functions and methods become their bodies.

Stands on ir; used for operators that are programs, for inlined_graph, and by what freezes modules.
"""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.values import Value

__all__ = ["inline", "insert_graph"]


def insert_graph(graph: Graph, body: Graph, inputs: Sequence[Value]) -> list[Value]:
    """Copies of another graph's nodes where the next one goes; returns what it gives."""
    mapping = dict(zip(body.inputs(), inputs))
    for node in body.nodes():
        graph.insertNode(graph.createClone(node, mapping))
    return [mapping.get(value, value) for value in body.outputs()]


def inline(graph: Graph) -> None:
    """Put bodies in the place of all calls, theirs too."""
    _block(graph, graph.block())


def _block(graph: Graph, block: Block) -> None:
    for node in list(block.nodes()):
        kind = node.kind()
        if kind == "prim::CallFunction":
            called = node.inputsAt(0).node()
            function = called.note
            if function is not None and function._define is None and function._graph is None:
                continue
            _replace(graph, node, function.graph, list(node.inputs())[1:])
            if not called.output().hasUses() and called.owning_block is not None:
                called.destroy()
        elif kind == "prim::CallMethod":
            owner = node.inputsAt(0).type()
            function = getattr(owner, "methods", {}).get(node.s("name"))
            if function is None or getattr(function, "is_declaration", False):
                continue
            _replace(graph, node, function.graph, list(node.inputs()))
        else:
            for inner in node.blocks():
                _block(graph, inner)


def _replace(graph: Graph, node: Node, body: Graph, inputs: Sequence[Value]) -> None:
    copy = body.copy()
    inline(copy)
    with graph.insert_point_guard(node):
        results = insert_graph(graph, copy, inputs)
    for mine, theirs in zip(list(node.outputs()), results):
        if mine.hasDebugName() and not theirs.hasDebugName():
            theirs.setDebugName(mine.debugName())
        mine.replaceAllUsesWith(theirs)
    node.destroy()
