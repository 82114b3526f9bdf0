"""Blocks of a graph, with the interface of torch._C.Block: nodes in a ring that the block's return node closes.

Stands on nodes and values; graphs stand on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flambeau.base.naming import PACKAGE
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.values import Value, meaningful

if TYPE_CHECKING:
    from flambeau.jit.ir.graph import Graph

__all__ = ["Block"]


class Block:
    """Nodes in order, with inputs and outputs."""

    __module__ = PACKAGE
    __slots__ = ("_graph", "_node", "_param", "_return")

    def __init__(self, graph: Graph, node: Node | None) -> None:
        self._graph, self._node = graph, node
        self._param, self._return = Node(graph, "prim::Param"), Node(graph, "prim::Return")
        self._return._prev_node = self._return._next_node = self._return
        self._param.owning_block = self._return.owning_block = self

    def inputs(self) -> Iterator[Value]:
        """What it takes."""
        return self._param.outputs()

    def outputs(self) -> Iterator[Value]:
        """What it gives."""
        return self._return.inputs()

    def nodes(self) -> Iterator[Node]:
        """Its nodes, in order; what is put behind the one at hand while going through them is seen."""
        node = self._return.next()
        while node is not self._return:
            following = node.next()
            yield node
            node = following

    def paramNode(self) -> Node:
        """The node whose outputs are the block's inputs."""
        return self._param

    def returnNode(self) -> Node:
        """The node whose inputs are the block's outputs."""
        return self._return

    def first(self) -> Node:
        """The first node; the return node of an empty block."""
        return self._return.next()

    def owningNode(self) -> Node | None:
        """The node it belongs to; None for a graph's own."""
        return self._node

    def owningGraph(self) -> Graph:
        """The graph it belongs to."""
        return self._graph

    def addInput(self, name: str = "") -> Value:
        """Take one more value."""
        made = self._param.addOutput()
        return made.setDebugName(name) if meaningful(name) else made

    def insertInput(self, index: int) -> Value:
        """Take one more value, at a place."""
        return self._param.insertOutput(index)

    def eraseInput(self, index: int) -> None:
        """Take a value no more."""
        self._param.eraseOutput(index)

    def registerOutput(self, value: Value) -> int:
        """Give one more value; returns its place."""
        self._return.addInput(value)
        return self._return.inputsSize() - 1

    def insertOutput(self, index: int, value: Value) -> None:
        """Give one more value, at a place."""
        self._return.insertInput(index, value)

    def eraseOutput(self, index: int) -> None:
        """Give a value no more."""
        self._return.removeInput(index)

    def replaceOutput(self, index: int, value: Value) -> None:
        """Give another value at a place."""
        self._return.replaceInput(index, value)

    def appendNode(self, node: Node) -> Node:
        """Put a node at the end."""
        return node.insertBefore(self._return)

    def addNode(self, kind: str, inputs: list[Value]) -> Node:
        """Make a node at the end."""
        return self.appendNode(Node(self._graph, kind, inputs))

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind; None if there is none."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """The nodes of a kind, in order."""
        found = []
        for node in self.nodes():
            if node._kind == kind:
                found.append(node)
            if recurse:
                found += node.findAllNodes(kind, True)
        return found

    def cloneFrom(self, other: Block, mapping: dict[Value, Value]) -> None:
        """Take copies of another block's inputs, nodes and outputs; `mapping` has values from outside and gets the copies."""
        for value in other.inputs():
            mapping[value] = self.addInput().copyMetadata(value)
        for node in other.nodes():
            made = self.appendNode(self._graph.createClone(node, mapping))
            for mine, theirs in zip(made._outputs, node._outputs):
                mine.copyMetadata(theirs)  # as PyTorch does, once more: names are numbered by it
        for value in other.outputs():
            self.registerOutput(mapping.get(value, value))

    def _destroy(self) -> None:
        self._return.removeAllInputs()
        for node in reversed(list(self.nodes())):
            node.destroy()
        while self._param._outputs:
            self._param.eraseOutput(len(self._param._outputs) - 1)
