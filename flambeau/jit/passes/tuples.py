"""Tuples that are made and taken apart again go.

Stands on ir; runs after normalize.
"""

from __future__ import annotations

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node

__all__ = ["lower_simple"]


def lower_simple(graph: Graph) -> None:
    """Read a tuple's items where they were before it was made."""
    _block(graph.block())


def _block(block: Block) -> None:
    for node in list(block.nodes()):
        if node.owning_block is None:
            continue
        _node(node)
        for inner in node.blocks():
            _block(inner)


def _node(node: Node) -> None:
    kind = node.kind()
    if kind not in ("prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice"):
        return
    source = node.inputsAt(0).node()
    if source.kind() != "prim::TupleConstruct":
        return
    parts = list(source.inputs())
    if kind == "prim::TupleUnpack":
        for mine, part in zip(node.outputs(), parts):
            mine.replaceAllUsesWith(part)
    elif kind == "prim::TupleIndex":
        index = node.inputsAt(1).toIValue()
        if isinstance(index, int):
            node.output().replaceAllUsesWith(parts[index])
    else:
        made = node.owningGraph().create("prim::TupleConstruct", parts[node.i("beg") : node.i("end")]).insertBefore(node)
        made.output().setType(node.output().type())
        node.output().replaceAllUsesWith(made.output())
