"""Graphs of a compiled program, with the interface of torch._C.Graph: Graph, Block, Node, Value.

A node is an operator ("aten::add") or a word of the language ("prim::If") with inputs, outputs, attributes and blocks;
nodes of a block are linked in order, the block's return node closes the ring. Values are named as PyTorch names them: a number
that counts all values ever made, or the name of a variable, of which the last to take it has it plain and older ones are
numbered. Stands on source and the types; used by all of jit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.base.naming import PACKAGE
from flambeau.dispatcher.schema_types import TensorType, Type
from flambeau.jit.ir.source import SourceRange

__all__ = ["Block", "Graph", "Node", "Use", "Value", "meaningful"]

_TENSOR = TensorType()


def meaningful(name: str) -> bool:
    """Whether a name says something: not empty, not one underscore, and not an underscore with a number."""
    return bool(name) and name != "_" and not (name[0] == "_" and name[1:].isdigit())


class Use:
    """A place where a value is read: the node, and which of its inputs."""

    __slots__ = ("offset", "user")

    def __init__(self, user: Node, offset: int) -> None:
        self.user, self.offset = user, offset


class Value:
    """What a node gives, or a block takes."""

    __module__ = PACKAGE
    __slots__ = ("_name", "_node", "_offset", "_type", "_unique", "_users")

    def __init__(self, node: Node, offset: int) -> None:
        self._node, self._offset = node, offset
        self._unique = node._graph._next()
        self._name = ""
        self._type: Type = _TENSOR
        self._users: list[Node] = []

    def node(self) -> Node:
        """The node that gives it."""
        return self._node

    def type(self) -> Type:
        """Its type."""
        return self._type

    def setType(self, kind: Type) -> Value:
        """Give it a type; returns the value."""
        self._type = kind
        return self

    def unique(self) -> int:
        """Its number in the graph."""
        return self._unique

    def offset(self) -> int:
        """Which of the outputs of its node it is."""
        return self._offset

    def debugName(self) -> str:
        """The name it is printed by, without the percent sign."""
        return self._name or str(self._unique)

    def hasDebugName(self) -> bool:
        """Whether it has a name that is not its number."""
        return bool(self._name)

    def setDebugName(self, name: str) -> Value:
        """Name it; whoever has the name is renamed to it with a number. Raises RuntimeError for a name that is a number."""
        if name.isdigit():
            raise RuntimeError(f"name is not a valid identifier: '{name}'")
        names = self._node._graph._names
        if self._name:
            names.pop(self._name, None)
        if not name:
            self._name = ""
            return self
        holder = names.get(name)
        if holder is not None and holder is not self:
            base, _, digits = name.rpartition(".")
            suffix = 1
            if base and digits.isdigit():
                suffix = int(digits)
            else:
                base = name
            suffixes = self._node._graph._suffixes
            suffix = max(suffix, suffixes.get(base, 0) + 1)
            while f"{base}.{suffix}" in names:
                suffix += 1
            suffixes[base] = suffix + 1
            holder.setDebugName(f"{base}.{suffix}")
        names[name] = self
        self._name = name
        return self

    def copyMetadata(self, other: Value) -> Value:
        """Take the type and the name of another value."""
        self._type = other._type
        if other._name:
            self.setDebugName(other._name)
        return self

    def uses(self) -> list[Use]:
        """Where it is read, once for each place."""
        found = []
        for user in dict.fromkeys(self._users):
            found += [Use(user, i) for i, value in enumerate(user._inputs) if value is self]
        return found

    def hasUses(self) -> bool:
        """Whether it is read anywhere."""
        return bool(self._users)

    def replaceAllUsesWith(self, other: Value) -> None:
        """Read another value wherever this one is read."""
        for user in dict.fromkeys(self._users):
            user._inputs = [other if value is self else value for value in user._inputs]
        other._users += self._users
        self._users = []

    def requires_grad(self) -> bool:
        """False: gradients are worked out when a graph runs."""
        return False

    def isCompleteTensor(self) -> bool:
        """False: shapes are not part of types here."""
        return False

    def toIValue(self) -> Any:
        """The value of a constant; None for anything else."""
        return self._node.ivalue() if self._node.kind() == "prim::Constant" else None

    def __repr__(self) -> str:
        return f"{self.debugName()} defined in ({str(self._node).rstrip()})"


class Node:
    """An operator or a word of the language, with inputs, outputs, attributes and blocks."""

    __module__ = PACKAGE
    __slots__ = (
        "_blocks", "_graph", "_inputs", "_kind", "_next_node", "_outputs", "_prev_node", "_range", "attributes", "note",
        "owning_block", "scope", "__weakref__",
    )  # fmt: skip

    def __init__(self, graph: Graph, kind: str, inputs: Iterable[Value] = (), outputs: int = 0) -> None:
        self._graph, self._kind = graph, kind
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._blocks: list[Block] = []
        self._prev_node: Node | None = None
        self._next_node: Node | None = None
        self._range: SourceRange | None = None
        self.attributes: dict[str, tuple[str, Any]] = {}
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

    # ---- attributes
    def ivalue(self, name: str = "value") -> Any:
        """The value of an attribute; None if there is none of the name."""
        found = self.attributes.get(name)
        return None if found is None else found[1]

    def set(self, name: str, kind: str, value: Any) -> Node:
        """Give it an attribute of a kind: i, f, s, c, t, is, fs, ss, ival, g, ty."""
        self.attributes[name] = (kind, value)
        return self

    def attributeNames(self) -> list[str]:
        """The names of its attributes."""
        return list(self.attributes)

    def hasAttributes(self) -> bool:
        """Whether it has any."""
        return bool(self.attributes)

    def hasAttribute(self, name: str) -> bool:
        """Whether it has one of the name."""
        return name in self.attributes

    def kindOf(self, name: str) -> str:
        """The kind of an attribute. RuntimeError if there is none of the name."""
        return self._attribute(name)[0]

    def removeAttribute(self, name: str) -> Node:
        """Take an attribute away; returns the node."""
        del self.attributes[name]
        return self

    def _attribute(self, name: str, *kinds: str) -> tuple[str, Any]:
        found = self.attributes.get(name)
        if found is None:
            raise RuntimeError(f"required keyword attribute '{name}' is undefined")
        if kinds and found[0] not in kinds:
            raise RuntimeError(f"required keyword attribute '{name}' has the wrong type")
        return found

    def i(self, name: str) -> int:
        """An integer attribute."""
        return int(self._attribute(name, "i")[1])

    def f(self, name: str) -> float:
        """A float attribute."""
        return float(self._attribute(name, "f")[1])

    def c(self, name: str) -> complex:
        """A complex attribute."""
        return complex(self._attribute(name, "c")[1])

    def s(self, name: str) -> str:
        """A text attribute."""
        return str(self._attribute(name, "s")[1])

    def t(self, name: str) -> Any:
        """A tensor attribute."""
        return self._attribute(name, "t")[1]

    def ival(self, name: str) -> Any:
        """An attribute that is any value."""
        return self._attribute(name, "ival")[1]

    def g(self, name: str) -> Graph:
        """An attribute that is a graph."""
        graph: Graph = self._attribute(name, "g")[1]
        return graph

    def i_(self, name: str, value: int) -> Node:
        """Set an integer attribute."""
        return self.set(name, "i", value)

    def f_(self, name: str, value: float) -> Node:
        """Set a float attribute."""
        return self.set(name, "f", value)

    def s_(self, name: str, value: str) -> Node:
        """Set a text attribute."""
        return self.set(name, "s", value)

    def t_(self, name: str, value: Any) -> Node:
        """Set a tensor attribute."""
        return self.set(name, "t", value)

    def is_(self, name: str, value: list[int]) -> Node:
        """Set an attribute that is a list of integers."""
        return self.set(name, "is", value)

    def g_(self, name: str, value: Graph) -> Node:
        """Set an attribute that is a graph."""
        return self.set(name, "g", value)

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
        made = Block(self._graph, self)
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

    def createClone(
        self, node: Node, mapping: dict[Value, Value] | Callable[[Value], Value], copy_blocks: bool = True
    ) -> Node:
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
