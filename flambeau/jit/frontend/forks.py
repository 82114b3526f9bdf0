"""torch.jit.fork: a call as a graph of its own, whose result is a Future.

Stands on values and ir; used by forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flambeau.dispatcher.schema_types import FutureType
from flambeau.jit.frontend.matching import Kwargs
from flambeau.jit.frontend.values import SugaredValue
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.source import SourceRange
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["fork"]


def fork(e: Emitter, where: SourceRange, callee: SugaredValue, args: Sequence[Value], kwargs: Kwargs) -> Value:
    """The Future of a call."""
    graph = e.graph
    closure = graph.create("prim::Closure", 0)
    block = closure.addBlock()
    with graph.insert_point_guard(block):
        result = callee.call(where, e, args, kwargs, 1).as_value(where, e)
        block.registerOutput(result)
    body, captured = _apart(block)
    kind = result.type()
    closure.destroy()
    node = graph.create("prim::fork", captured).set("Subgraph", "g", body).setSourceRange(where)
    return graph.insertNode(node).output().setType(FutureType(kind))


def _apart(block: Block) -> tuple[Graph, list[Value]]:
    """The nodes of a block as a graph, whose inputs stand for the values that they read from outside."""
    body = Graph()
    mapping: dict[Value, Value] = {}
    captured: list[Value] = []
    inside = {value for node in block.nodes() for value in node.outputs()}
    for node in [*block.nodes(), block.returnNode()]:
        for value in node.inputs():
            if value not in inside and value not in mapping:
                mapping[value] = body.addInput().copyMetadata(value)
                captured.append(value)
    body.block()._graph = body
    for node in block.nodes():
        body.appendNode(body.createClone(node, mapping))
    for value in block.outputs():
        body.registerOutput(mapping[value])
    return body, captured
