"""A function's graph as text, as PyTorch writes it: `x0 = torch.add(x, 1)`.

Long expressions are split over lines as PyTorch splits them; constants that have no text get a number in a table. Stands on
inlining
and words; used by `.code` and by what writes archives.
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from typing import Any

from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import OptionalType
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import ClassType, FunctionType
from flambeau.jit.ir.values import Value
from flambeau.jit.passes.loops import is_counting
from flambeau.jit.printing.inlining import in_place
from flambeau.jit.printing.words import Words

__all__ = ["ConstantTable", "Printer", "code_of"]

_RESERVED = frozenset(
    "_ as aten attribute CONSTANTS fork getattr inf nan infj nanj ops __torch__ torch print annotate unchecked_cast "
    "uninitialized "
    "range int float bool complex str NoneType Tensor number isinstance".split()
) | frozenset(keyword.kwlist)
_LONG = 40  # expressions that reach so far to the right get lines of their own


class ConstantTable:
    """The constants that a text refers to as CONSTANTS.c0 and so on."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def number(self, value: Any) -> int:
        """The number of a constant, which is new if it isn't there."""
        from flambeau.jit.ir.constants import same_constant

        for number, known in enumerate(self.values):
            if known is value or (type(known) is type(value) and same_constant(known, value)):
                return number
        self.values.append(value)
        return len(self.values) - 1


def code_of(function: Function, constants: ConstantTable | None = None, dependencies: list[Any] | None = None) -> str:
    """The text of a function or method. `dependencies` gets the classes and functions that it names."""
    printer = Printer(constants if constants is not None else ConstantTable(), dependencies if dependencies is not None else [])
    return printer.function(function)


class Printer:
    """Writes functions; names are unique within each."""

    def __init__(self, constants: ConstantTable, dependencies: list[Any]) -> None:
        self.words = Words(self, constants, dependencies)
        self.lines: list[str] = []
        self.level = 0
        self.names: dict[Value, str] = {}
        self.used: set[str] = set()
        self.counts: dict[str, int] = {}
        self.inlined: set[Node] = set()
        self.expressions: dict[Value, str] = {}
        self.split_uses: dict[Node, int] = {}

    # ---- functions
    def function(self, function: Function, level: int = 0, typed_self: bool = False) -> str:
        """The text of a function, indented by `level` steps; typed_self: with the type of self, as archives have it."""
        graph, schema = function.graph, function.schema
        self.names, self.used, self.counts, self.expressions, self.split_uses = {}, set(), {}, {}, {}
        self.inlined = in_place(graph.block())
        self.lines = ["  " * level + self._head(function.name, graph, schema, typed_self)]
        self.level = level + 1
        self.block(graph.block(), bool(list(graph.outputs())))
        self.line(f"return {', '.join(map(self.use, graph.outputs()))}")
        return "\n".join(self.lines) + "\n"

    def _head(self, name: str, graph: Graph, schema: FunctionSchema, typed_self: bool) -> str:
        inputs = list(graph.inputs())
        shown = []
        for argument, value in zip(schema.arguments, inputs):
            own = self.names[value] = self.fresh(identifier(argument.name))
            if isinstance(value.type(), ClassType) and not shown and argument.name == "self" and not typed_self:
                shown.append(own)
                continue
            text = f"{own}: {self.words.type(argument.type)}"
            if argument.has_default_value():
                text += f"={self.words.constant(argument.default_value, argument.type)}"
            shown.append(text)
        returns = self.words.type(schema.returns[0].type)
        separator = ",\n    "
        return f"def {name}({separator.join(shown)}) -> {returns}:"

    def line(self, text: str) -> None:
        """One line, indented."""
        self.lines.append("  " * self.level + text)

    # ---- names
    def fresh(self, candidate: str) -> str:
        """A name that nothing has."""
        name = candidate
        while name in self.used or name in _RESERVED:
            number = self.counts.get(candidate, 0)
            self.counts[candidate] = number + 1
            name = f"{candidate}{number}"
        self.used.add(name)
        return name

    def name_for(self, value: Value) -> str:
        """The name of a value from here on."""
        candidate = "_"
        if value.hasDebugName():
            base, point, digits = value.debugName().rpartition(".")
            candidate = identifier(base if point and digits.isdigit() else value.debugName())
        name = self.names[value] = self.fresh(candidate)
        return name

    def use(self, value: Value) -> str:
        """A value where it is read: its expression, its name, or the constant itself."""
        if value in self.expressions:
            return self.expressions[value]
        if value in self.names:
            return self.names[value]
        node = value.node()
        if node.kind() == "prim::Constant":
            return self.words.constant_node(node)
        return self.name_for(value)

    # ---- blocks
    def block(self, block: Block, followed: bool) -> None:
        """The lines of a block."""
        if not followed and block.first() is block.returnNode():
            self.line("pass")
        # Constants stand in front, the last to be read first: those that get lines get them in the order of their uses.
        for node in reversed([node for node in block.nodes() if node.kind() == "prim::Constant"]):
            if node.hasUses():
                self._constant(node)
        for node in block.nodes():
            if node.kind() != "prim::Constant":
                self.node(node)

    def assign(self, targets: Sequence[Value], sources: Sequence[Value]) -> None:
        """Several values at once."""
        if targets:
            self.line(f"{', '.join(map(self.use, targets))} = {', '.join(map(self.use, sources))}")

    def node(self, node: Node) -> None:
        """The lines of a node, or its expression for where it is read."""
        kind = node.kind()
        if kind == "prim::If":
            self._if(node)
        elif kind == "prim::Loop":
            self._loop(node)
        elif kind in ("prim::TupleUnpack", "prim::ListUnpack"):
            targets = "".join(f"{self.name_for(value)}, " for value in node.outputs())
            self.line(f"{targets}= {self.use(node.input())}" if targets else self.use(node.input()))
        elif kind == "prim::SetAttr":
            obj, value = node.inputs()
            self.line(f"{self.use(obj)}.{node.s('name')} = {self.use(value)}")
        elif kind in ("prim::fork", "prim::awaitable"):
            self._fork(node)
        elif kind == "prim::Enter":
            out = node.output()
            self.line(f"with {self.use(node.input())}{f' as {self.name_for(out)}' if out.hasUses() else ''}:")
            self.level += 1
        elif kind == "prim::Exit":
            if node.prev().kind() == "prim::Enter":
                self.line("pass")
            self.level -= 1
        else:
            self._expression(node)

    def _expression(self, node: Node) -> None:
        text = self.words.expression(node)
        if node in self.inlined:
            self.expressions[node.output()] = text
            if len(text) + 2 * self.level >= _LONG:
                self._split(node.output())
            return
        self._define(node, text)

    def _constant(self, node: Node) -> None:
        if not isinstance(node.output().type(), FunctionType) and not isinstance(node.ivalue(), str):
            return  # those of the table are numbered where they are read
        text = self.words.constant_node(node)
        if len(text) + 2 * self.level >= _LONG:
            self._define(node, text)

    def _define(self, node: Node, text: str) -> None:
        outputs = list(node.outputs())
        if not outputs:
            self.line(text)
            return
        for value in outputs:
            self.expressions.pop(value, None)
        self.line(f"{', '.join(self.name_for(value) for value in outputs)} = {text}")

    def _split(self, value: Value) -> None:
        """Give what is written in front of a long expression a line of its own, and it as well."""
        use = value.uses()[0]
        found: list[Value] = []
        self._collect(use.user, use.offset, found)
        for each in reversed(found):
            self._define(each.node(), self.expressions[each])

    def _collect(self, user: Node, offset: int, found: list[Value]) -> None:
        seen = self.split_uses.get(user)
        for index in range(offset, -1 if seen is None else seen, -1):
            value = user.inputsAt(index)
            if value in self.expressions:
                found.append(value)
        self.split_uses[user] = offset
        if seen is None and user in self.inlined:
            use = user.output().uses()[0]
            self._collect(use.user, use.offset - 1, found)

    def _if(self, node: Node) -> None:
        outputs = list(node.outputs())
        for value in outputs:
            self.name_for(value)
        condition = self.use(node.inputsAt(0))
        for word, block in zip((f"if {condition}:", "else:"), node.blocks()):
            self.line(word)
            self.level += 1
            self.block(block, bool(outputs))
            values = list(block.outputs())
            if word != "else:" and len(outputs) == 1 and self._needs_type(outputs[0], values[0]):
                # Without it, what is compiled of this text would take the branch's type for the variable's.
                self.line(f"{self.use(outputs[0])} : {self.words.type(outputs[0].type())} = {self.use(values[0])}")
            else:
                self.assign(outputs, values)
            self.level -= 1

    @staticmethod
    def _needs_type(target: Value, value: Value) -> bool:
        kind = target.type()
        return (isinstance(kind, OptionalType) or bool(kind.containedUnionTypes())) and value.type() != kind

    def _fork(self, node: Node) -> None:
        """The call that is forked, as a function in the function, which sees its variables."""
        body = node.g("Subgraph")
        word, own = ("fork", "__forked_function") if node.kind() == "prim::fork" else ("awaitable", "__awaitable_function")
        name = self.fresh(own)
        outer = self.inlined
        self.inlined = in_place(body.block())
        for inner, given in zip(body.inputs(), node.inputs()):
            self.expressions[inner] = self.use(given)
        self.line(f"def {name}():")
        self.level += 1
        self.block(body.block(), True)
        self.line(f"return {', '.join(map(self.use, body.outputs()))}")
        self.level -= 1
        self.inlined = outer
        self.line(f"{self.name_for(node.output())} = {word}({name})")

    def _loop(self, node: Node) -> None:
        body = next(node.blocks())
        count, *carried = body.inputs()
        outputs, start = list(node.outputs()), list(node.inputs())
        for value in outputs:
            self.name_for(value)
        for inner, outer in zip(carried, outputs):
            self.names[inner] = self.names[outer]
        for value, given in zip(outputs, start[2:]):
            kind = value.type()
            typed = isinstance(kind, OptionalType) or bool(kind.containedUnionTypes())
            self.line(f"{self.use(value)}{f': {self.words.type(kind)}' if typed else ''} = {self.use(given)}")
        name = self.name_for(count)
        counting = is_counting(node)
        if counting:
            self.line(f"for {name} in range({self.use(start[0])}):")
        else:
            self.line(f"{name} = {self.use(start[1])}")
            self.line(f"while {name}:")
        self.level += 1
        targets = carried if counting else [count, *carried]
        self.block(body, bool(targets))
        self.assign(targets, list(body.outputs())[1 if counting else 0 :])
        self.level -= 1


def identifier(name: str) -> str:
    """A name of a value as an identifier."""
    made = "".join(char if char.isalnum() or char == "_" else "_" for char in name)
    return f"_{made}" if made[:1].isdigit() else made
