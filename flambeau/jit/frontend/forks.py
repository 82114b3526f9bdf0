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
from flambeau.jit.passes.pipeline import finish

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["fork"]


def fork(
    e: Emitter,
    where: SourceRange,
    callee: SugaredValue,
    args: Sequence[Value],
    kwargs: Kwargs,
    kind: str = "prim::fork",
    name: str = "Future",
) -> Value:
    """The Future of a call, or its Await: what it is called, and the kind of its node."""
    graph = e.graph
    closure = graph.create("prim::Closure", 0)
    block = closure.addBlock()
    with graph.insert_point_guard(block):
        result = callee.call(where, e, args, kwargs, 1).as_value(where, e)
        block.registerOutput(result)
    _hoist(block, _stored(block), graph)
    body, captured = _apart(block)
    made = result.type()
    closure.destroy()
    finish(body)
    node = graph.create(kind, captured).set("Subgraph", "g", body).setSourceRange(where)
    return graph.insertNode(node).output().setType(FutureType(made, name))


def _stored(block: Block) -> set[str]:
    """The variables that nodes of a block set."""
    return {node.s("name") for node in block.findAllNodes("prim::Store")}


def _hoist(block: Block, own: set[str], graph: Graph) -> None:
    """Read the variables from outside in front of the call."""
    for node in block.findAllNodes("prim::Load"):
        if node.s("name") not in own:
            node.moveBefore(graph.insertPoint())


def _apart(block: Block) -> tuple[Graph, list[Value]]:
    """The nodes of a block as a graph, whose inputs stand for the values that they read from outside."""
    body = Graph()
    mapping: dict[Value, Value] = {}
    captured: list[Value] = []

    def capture(inner: Block, inside: set[Value]) -> None:
        inside = inside | set(inner.inputs()) | {value for node in inner.nodes() for value in node.outputs()}
        for node in [*inner.nodes(), inner.returnNode()]:
            for value in node.inputs():
                if value not in inside and value not in mapping:
                    mapping[value] = body.addInput().copyMetadata(value)
                    captured.append(value)
            for each in node.blocks():
                capture(each, inside)

    capture(block, set())
    for node in block.nodes():
        body.appendNode(body.createClone(node, mapping))
    for value in block.outputs():
        body.registerOutput(mapping[value])
    return body, captured
