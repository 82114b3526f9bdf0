"""Graphs of the same program look alike: values are named by their numbers, in order. torch._C._jit_pass_canonicalize.

Stands on ir.
"""

from __future__ import annotations

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.values import Value

__all__ = ["canonicalized"]


def canonicalized(graph: Graph, keep_unique_names: bool = True) -> Graph:
    """A copy whose values are numbered in order; those with names of their own keep these, unless told otherwise."""
    made = Graph()
    _copy(made, made.block(), graph.block(), {}, keep_unique_names)
    return made


def _name(copy: Value, original: Value, keep: bool) -> Value:
    copy.setType(original.type())
    return copy.setDebugName(original.debugName()) if keep and original.hasDebugName() else copy


def _copy(graph: Graph, into: Block, block: Block, known: dict[Value, Value], keep: bool) -> None:
    for value in block.inputs():
        known[value] = _name(into.addInput(), value, keep)
    for node in block.nodes():
        copy = into.appendNode(graph.create(node.kind(), [known[value] for value in node.inputs()], 0))
        copy.attributes = {
            name: (kind, canonicalized(value, keep) if kind == "g" else value) for name, (kind, value) in node.attributes.items()
        }
        copy._range, copy.note, copy.scope = node._range, node.note, node.scope
        for value in node.outputs():
            known[value] = _name(copy.addOutput(), value, keep)
        for inner in node.blocks():
            _copy(graph, copy.addBlock(), inner, known, True)  # in blocks, PyTorch keeps names
    for value in block.outputs():
        into.registerOutput(known[value])
