"""The graph of a compiled program, with the interface of torch._C.Graph: a block of nodes, and where the next node goes.

Stands on blocks, nodes and values; used by all of jit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.base.naming import PACKAGE
from flambeau.dispatcher.schema_types import Type
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.source import SourceRange
from flambeau.jit.ir.values import Value

__all__ = ["Graph"]


class Graph:
    """A program: a block of nodes, and where the next node goes."""

    __module__ = PACKAGE

    def __init__(self) -> None:
        self._count = 0
        self._names: dict[str, Value] = {}
        self._suffixes: dict[str, int] = {}
        self._block = Block(self, None)
        self._insert_before = self._block._return

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def _block_of(self, node: Node) -> Block:
        return Block(self, node)

    def block(self) -> Block:
        """The graph's own block."""
        return self._block

    def inputs(self) -> Iterator[Value]:
        """What the program takes."""
        return self._block.inputs()

    def outputs(self) -> Iterator[Value]:
        """What the program gives."""
        return self._block.outputs()

    def nodes(self) -> Iterator[Node]:
        """The nodes of its block."""
        return self._block.nodes()

    def param_node(self) -> Node:
        """The node whose outputs are the inputs."""
        return self._block._param

    def return_node(self) -> Node:
        """The node whose inputs are the outputs."""
        return self._block._return

    def addInput(self, name: str = "") -> Value:
        """One more input."""
        return self._block.addInput(name)

    def eraseInput(self, index: int) -> None:
        """Take an input away."""
        self._block.eraseInput(index)

    def registerOutput(self, value: Value) -> int:
        """One more output; returns its place."""
        return self._block.registerOutput(value)

    def makeMultiOutputIntoTuple(self) -> None:
        """Give several outputs as one tuple."""
        from flambeau.dispatcher.schema_types import TupleType

        values = list(self.outputs())
        if len(values) <= 1:
            return
        made = self._block.addNode("prim::TupleConstruct", values)
        kind = TupleType([value.type() for value in values])
        self._block._return.removeAllInputs()
        self.registerOutput(made.addOutput().setType(kind))

    # ---- making nodes
    def create(self, kind: str, inputs: Iterable[Value] | int = (), outputs: int = 1) -> Node:
        """A node that stands nowhere yet."""
        if isinstance(inputs, int):
            inputs, outputs = (), inputs
        return Node(self, kind, inputs, outputs)

    def insertNode(self, node: Node) -> Node:
        """Put a node where the next one goes."""
        return node.insertBefore(self._insert_before)

    def appendNode(self, node: Node) -> Node:
        """Put a node at the end."""
        return self._block.appendNode(node)

    def prependNode(self, node: Node) -> Node:
        """Put a node at the beginning."""
        return node.insertBefore(self._block.first())

    def createClone(self, node: Node, mapping: dict[Value, Value] | Callable[[Value], Value], copy_blocks: bool = True) -> Node:
        """A copy of a node that reads the values that `mapping` has for those it reads."""
        table: dict[Value, Value] = {} if callable(mapping) else mapping
        read = mapping if callable(mapping) else lambda value: table.get(value, value)
        made = Node(self, node._kind, [read(value) for value in node._inputs])
        made.attributes = dict(node.attributes)
        made._range, made.note, made.scope = node._range, node.note, node.scope
        for value in node._outputs:
            table[value] = made.addOutput().copyMetadata(value)
        if copy_blocks:
            for block in node._blocks:
                made.addBlock().cloneFrom(block, table)
        return made

    def insertPoint(self) -> Node:
        """The node that the next one goes in front of."""
        return self._insert_before

    def setInsertPoint(self, place: Node | Block) -> None:
        """Where the next node goes: in front of a node, or at the end of a block."""
        self._insert_before = place._return if isinstance(place, Block) else place

    def insert_point_guard(self, place: Node | Block) -> _At:
        """Context: meanwhile the next node goes there."""
        return _At(self, place)

    def insertConstant(self, value: Any, where: SourceRange | None = None, kind: Type | None = None) -> Value:
        """A constant where the next node goes."""
        from flambeau.jit.ir.constants import constant_node

        node = constant_node(self, value, kind)
        node._range = where
        return self.insertNode(node).output()

    # ---- looking, copying
    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind; None if there is none."""
        return self._block.findNode(kind, recurse)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """The nodes of a kind, in order."""
        return self._block.findAllNodes(kind, recurse)

    def copy(self) -> Graph:
        """A graph like it."""
        made = Graph()
        made._block.cloneFrom(self._block, {})
        return made

    def lint(self) -> None:
        """RuntimeError if a node reads a value that is not there yet."""
        from flambeau.jit.ir.lint import check

        check(self)

    def __str__(self) -> str:
        from flambeau.jit.ir.printing import graph_text

        return graph_text(self)

    def str(self, print_source_ranges: bool = True) -> str:
        """The text, with or without the places in the source."""
        from flambeau.jit.ir.printing import graph_text

        return graph_text(self, print_source_ranges)

    __repr__ = __str__


class _At:
    """Context: the next nodes go somewhere else."""

    __slots__ = ("before", "graph", "place")

    def __init__(self, graph: Graph, place: Node | Block) -> None:
        self.graph, self.place = graph, place

    def __enter__(self) -> None:
        self.before = self.graph._insert_before
        self.graph.setInsertPoint(self.place)

    def __exit__(self, *exception: object) -> None:
        self.graph._insert_before = self.before
