"""Nodes of a graph, with the interface of torch._C.Node.

A node is an operator ("aten::add") or a word of the language ("prim::If") with inputs, outputs, attributes and blocks;
nodes of a block are linked in order. Stands on values, attributes and source; blocks and graphs stand on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flambeau.base.naming import PACKAGE
from flambeau.jit.ir.attributes import Attributed
from flambeau.jit.ir.source import SourceRange
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.ir.blocks import Block
    from flambeau.jit.ir.graph import Graph

__all__ = ["Node"]


class Node(Attributed):
    """An operator or a word of the language, with inputs, outputs, attributes and blocks."""

    __module__ = PACKAGE
    __slots__ = (
        "_blocks", "_graph", "_inputs", "_kind", "_next_node", "_outputs", "_prev_node", "_range", "note",
        "owning_block", "scope", "__weakref__",
    )  # fmt: skip

    def __init__(self, graph: Graph, kind: str, inputs: Iterable[Value] = (), outputs: int = 0) -> None:
        super().__init__()
        self._graph, self._kind = graph, kind
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._blocks: list[Block] = []
        self._prev_node: Node | None = None
        self._next_node: Node | None = None
        self._range: SourceRange | None = None
        self.owning_block: Block | None = None
        self.scope = ""
        self.note: Any = None  # what the compiler knows of the node: the schema that a call was matched to
        for value in inputs:
            self.addInput(value)
        for _ in range(outputs):
            self.addOutput()

    # ---- what it is
    def kind(self) -> str:
        """Its name, "aten::add"."""
        return self._kind

    def inputs(self) -> Iterator[Value]:
        """What it reads."""
        return iter(list(self._inputs))

    def outputs(self) -> Iterator[Value]:
        """What it gives."""
        return iter(list(self._outputs))

    def blocks(self) -> Iterator[Block]:
        """Its blocks."""
        return iter(list(self._blocks))

    def inputsSize(self) -> int:
        """How many values it reads."""
        return len(self._inputs)

    def outputsSize(self) -> int:
        """How many values it gives."""
        return len(self._outputs)

    def inputsAt(self, index: int) -> Value:
        """One of the values it reads."""
        return self._inputs[index]

    def outputsAt(self, index: int) -> Value:
        """One of the values it gives."""
        return self._outputs[index]

    def input(self) -> Value:
        """The only input. RuntimeError if there are none or several."""
        if len(self._inputs) != 1:
            raise RuntimeError(f"{self._kind} has {len(self._inputs)} inputs, not one")
        return self._inputs[0]

    def output(self) -> Value:
        """The only output. RuntimeError if there are none or several."""
        if len(self._outputs) != 1:
            raise RuntimeError(f"{self._kind} has {len(self._outputs)} outputs, not one")
        return self._outputs[0]

    def hasMultipleOutputs(self) -> bool:
        """Whether it gives more than one value."""
        return len(self._outputs) > 1

    def hasUses(self) -> bool:
        """Whether anything reads what it gives."""
        return any(value._users for value in self._outputs)

    def owningGraph(self) -> Graph:
        """The graph it belongs to."""
        return self._graph

    def owningBlock(self) -> Block | None:
        """The block it stands in."""
        return self.owning_block

    def next(self) -> Node:
        """The node behind it; a block's last one is followed by its return node."""
        assert self._next_node is not None
        return self._next_node

    def prev(self) -> Node:
        """The node in front of it."""
        assert self._prev_node is not None
        return self._prev_node

    def sourceRange(self) -> str:
        """The lines it comes from, as errors show them; empty if that isn't known."""
        return "" if self._range is None else self._range.highlight()

    def setSourceRange(self, where: SourceRange | None) -> Node:
        """Say where it comes from; returns the node."""
        self._range = where
        return self

    def scopeName(self) -> str:
        """The modules it was recorded in."""
        return self.scope

    def schema(self) -> str:
        """The schema of its operator; "(no schema)" for a word of the language."""
        return str(self.note) if self.note is not None else "(no schema)"

    def namedInput(self, name: str) -> Value:
        """The input that the schema calls so."""
        for i, argument in enumerate(self.note.arguments):
            if argument.name == name:
                return self._inputs[i]
        raise RuntimeError(f"{self._kind} has no argument {name}")

    # ---- inputs and outputs
    def addInput(self, value: Value) -> Value:
        """Read one more value."""
        self._inputs.append(value)
        value._users.append(self)
        return value

    def insertInput(self, index: int, value: Value) -> Value:
        """Read one more value, at a place."""
        self._inputs.insert(index, value)
        value._users.append(self)
        return value

    def replaceInput(self, index: int, value: Value) -> Value:
        """Read another value at a place; returns the one that was read."""
        before = self._inputs[index]
        before._users.remove(self)
        self._inputs[index] = value
        value._users.append(self)
        return before

    def replaceInputWith(self, before: Value, after: Value) -> None:
        """Read one value wherever another is read."""
        for index, value in enumerate(self._inputs):
            if value is before:
                self.replaceInput(index, after)

    def removeInput(self, index: int) -> None:
        """Read a value no more."""
        self._inputs.pop(index)._users.remove(self)

    def removeAllInputs(self) -> None:
        """Read nothing more."""
        while self._inputs:
            self._inputs.pop()._users.remove(self)

    def addOutput(self) -> Value:
        """Give one more value."""
        made = Value(self, len(self._outputs))
        self._outputs.append(made)
        return made

    def insertOutput(self, index: int) -> Value:
        """Give one more value, at a place."""
        made = Value(self, index)
        self._outputs.insert(index, made)
        for offset, value in enumerate(self._outputs):
            value._offset = offset
        return made

    def eraseOutput(self, index: int) -> None:
        """Give a value no more. RuntimeError while it is read."""
        value = self._outputs[index]
        if value._users:
            raise RuntimeError(f"{value.debugName()} is still read")
        value.setDebugName("")
        del self._outputs[index]
        for offset, other in enumerate(self._outputs):
            other._offset = offset

    def addBlock(self) -> Block:
        """One more block."""
        made = self._graph._block_of(self)
        self._blocks.append(made)
        return made

    def eraseBlock(self, index: int) -> None:
        """Take a block away with all that stands in it."""
        self._blocks.pop(index)._destroy()

    def replaceAllUsesWith(self, other: Node) -> None:
        """Read another node's outputs wherever this one's are read."""
        for mine, theirs in zip(self._outputs, other._outputs):
            mine.replaceAllUsesWith(theirs)

    # ---- where it stands
    def _unlink(self) -> None:
        if self._prev_node is not None and self._next_node is not None:
            self._prev_node._next_node, self._next_node._prev_node = self._next_node, self._prev_node
        self._prev_node = self._next_node = self.owning_block = None

    def insertBefore(self, other: Node) -> Node:
        """Put it in front of a node; returns the node."""
        before = other._prev_node
        assert before is not None
        before._next_node = other._prev_node = self
        self._prev_node, self._next_node, self.owning_block = before, other, other.owning_block
        return self

    def insertAfter(self, other: Node) -> Node:
        """Put it behind a node; returns the node."""
        return self.insertBefore(other.next())

    def moveBefore(self, other: Node) -> None:
        """Take it from its place and put it in front of a node."""
        self._unlink()
        self.insertBefore(other)

    def moveAfter(self, other: Node) -> None:
        """Take it from its place and put it behind a node."""
        following = other.next()
        if following is not self:
            self.moveBefore(following)

    def destroy(self) -> None:
        """Take it out of the graph. RuntimeError while what it gives is read."""
        while self._outputs:
            self.eraseOutput(len(self._outputs) - 1)
        while self._blocks:
            self.eraseBlock(len(self._blocks) - 1)
        self.removeAllInputs()
        self._unlink()

    # ---- looking
    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind in its blocks; None if there is none."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """The nodes of a kind in its blocks."""
        return [node for block in self._blocks for node in block.findAllNodes(kind, recurse)]

    def mustBeNone(self) -> bool:
        """Whether it can only give None."""
        from flambeau.dispatcher.schema_types import NoneType

        return self._kind == "prim::Constant" and isinstance(self._outputs[0]._type, NoneType)

    def __str__(self) -> str:
        from flambeau.jit.ir.printing import node_text

        return node_text(self, 0)

    __repr__ = __str__
