"""From a graph to a Python function: one line per node, of names that are made up here; nothing of a program's text is in it.

Constants, operators and called functions are handed over in the function's globals. The lines' source ranges are kept, for what
`tracebacks` says of an error. Stands on ir and expressions; used by run and recorded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from flambeau.dispatcher.schema import FunctionSchema
from flambeau.jit.execution import runtime
from flambeau.jit.execution.expressions import BUILTINS, expression
from flambeau.jit.execution.texts import show
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.source import SourceRange
from flambeau.jit.ir.types import ClassType, NamedTupleType
from flambeau.jit.ir.values import Value
from flambeau.jit.passes.loops import is_counting, is_infinite

__all__ = ["Generator", "LINES", "runner_of"]

#: Of each generated file: the function's name and the source ranges of its lines.
LINES: dict[str, tuple[str, dict[int, SourceRange]]] = {}
_numbers = itertools.count()


def runner_of(function: Function, looked_into: bool) -> Callable[..., Any]:
    """A Python function that does what a program's function does, with the inputs of the graph as its parameters.

    looked_into: whether modes, proxies and the like are to see the program's operators, which takes longer.
    """
    function.ensure_defined()
    made = function.runners.get(looked_into)
    if made is None:
        made = function.runners[looked_into] = Generator(function, looked_into).made()
    return made


class Generator:
    """Writes the Python of one function; looked_into: whether modes, proxies and the like are to see its operators."""

    def __init__(self, function: Function, looked_into: bool) -> None:
        self.function, self.looked_into = function, looked_into
        self.lines: list[str] = []
        self.ranges: dict[int, SourceRange] = {}
        self.scope: dict[str, Any] = {
            "__builtins__": {**BUILTINS, "range": range, "BaseException": BaseException},
            "runtime": runtime,
            "runner_of": self.runner_of,
            "show": show,
        }
        self.depth = 1
        self._objects: dict[int, str] = {}
        self._enters = False

    def runner_of(self, function: Function) -> Callable[..., Any]:
        """What runs a function that this one calls."""
        return runner_of(function, self.looked_into)

    def made(self) -> Callable[..., Any]:
        graph: Graph = self.function.graph
        self._enters = bool(graph.findAllNodes("prim::Enter"))
        parameters = ", ".join(map(_name, graph.inputs()))
        self.lines.append(f"def run({parameters}):")
        if self._enters:
            self.line("entered = []")
            self.line("try:")
            self.depth += 1
        self.block(graph.block())
        self.line(f"return {', '.join(map(self.read, graph.outputs())) or None}")
        if self._enters:
            self.depth -= 1
            self.line("except BaseException:")
            self.depth += 1
            self.line("runtime.leave(entered)")
            self.line("raise")
        filename = f"<torchscript {next(_numbers)} {self.function.name}>"
        LINES[filename] = self.function.name, self.ranges
        exec(compile("\n".join(self.lines), filename, "exec"), self.scope)
        made: Callable[..., Any] = self.scope["run"]
        return made

    # ---- lines
    def line(self, text: str, node: Node | None = None) -> None:
        self.lines.append("    " * self.depth + text)
        if node is not None and node._range is not None:
            self.ranges[len(self.lines)] = node._range

    def hand_over(self, value: Any, prefix: str = "k") -> str:
        """The name that an object of the compiler's has in the code."""
        name = self._objects.get(id(value))
        if name is None:
            name = self._objects[id(value)] = f"{prefix}{len(self._objects)}"
            self.scope[name] = value
        return name

    def read(self, value: Value) -> str:
        node = value.node()
        if node.kind() == "prim::Constant":
            constant = node.ivalue()
            if constant is None and isinstance(node.note, Function):
                return self.hand_over(node.note)
            if constant is None or isinstance(constant, (bool, int)):
                return f"({constant!r})"
            return self.hand_over(constant)
        return _name(value)

    def assign(self, targets: list[Value], sources: list[Value]) -> None:
        pairs = [(_name(t), self.read(s)) for t, s in zip(targets, sources)]
        pairs = [(t, s) for t, s in pairs if t != s]
        if pairs:
            self.line(f"{', '.join(t for t, _ in pairs)} = {', '.join(s for _, s in pairs)}")

    # ---- nodes
    def block(self, block: Block) -> None:
        before = len(self.lines)
        for node in block.nodes():
            self.node(node)
        if len(self.lines) == before:
            self.line("pass")

    def node(self, node: Node) -> None:
        method = getattr(self, "_" + node.kind().replace("::", "_"), None)
        if method is not None:
            method(node)
            return
        if not isinstance(node.note, FunctionSchema):
            raise NotImplementedError(f"{node.kind()} can't be run by flambeau")
        self.give(node, expression(node, self.read, self.hand_over, self.looked_into))

    def give(self, node: Node, expression: str) -> None:
        outputs = list(node.outputs())
        if not outputs:
            self.line(expression, node)
        elif len(outputs) == 1:
            self.line(f"{_name(outputs[0])} = {expression}", node)
        else:
            self.line(f"{', '.join(map(_name, outputs))} = {expression}", node)

    def inputs(self, node: Node) -> list[str]:
        return [self.read(value) for value in node.inputs()]

    def _prim_Constant(self, node: Node) -> None:
        pass

    def _prim_Uninitialized(self, node: Node) -> None:
        self.give(node, "None")

    def _prim_unchecked_cast(self, node: Node) -> None:
        self.give(node, self.inputs(node)[0])

    def _prim_EmptyListLiteral(self, node: Node) -> None:
        self.give(node, "[]")

    def _prim_ListConstruct(self, node: Node) -> None:
        self.give(node, f"[{', '.join(self.inputs(node))}]")

    def _prim_TupleConstruct(self, node: Node) -> None:
        kind = node.output().type()
        items = ", ".join(self.inputs(node))
        if isinstance(kind, NamedTupleType):
            self.give(node, f"{self.hand_over(runtime.named_tuple(kind), 'n')}({items})")
        else:
            self.give(node, f"({items},)" if items else "()")

    def _prim_DictConstruct(self, node: Node) -> None:
        inputs = self.inputs(node)
        pairs = ", ".join(f"{key}: {value}" for key, value in zip(inputs[::2], inputs[1::2]))
        self.give(node, "{" + pairs + "}")

    def _prim_TupleUnpack(self, node: Node) -> None:
        targets = "".join(f"{_name(value)}, " for value in node.outputs())
        if targets:
            self.line(f"{targets.rstrip()} = {self.inputs(node)[0]}", node)

    def _prim_ListUnpack(self, node: Node) -> None:
        targets = "".join(f"{_name(value)}, " for value in node.outputs())
        self.line(f"{targets.rstrip()} = runtime.unpack({self.inputs(node)[0]}, {node.outputsSize()})", node)

    def _prim_EnumName(self, node: Node) -> None:
        self.give(node, f"{self.inputs(node)[0]}.name")

    def _prim_EnumValue(self, node: Node) -> None:
        self.give(node, f"{self.inputs(node)[0]}.value")

    def _prim_TupleIndex(self, node: Node) -> None:
        value, index = self.inputs(node)
        self.give(node, f"{value}[{index}]")

    def _prim_TupleSlice(self, node: Node) -> None:
        self.give(node, f"{self.inputs(node)[0]}[{node.i('beg')}:{node.i('end')}]")

    def _prim_isinstance(self, node: Node) -> None:
        tests = self.hand_over(runtime.instance_test(node.ivalue("types")), "t")
        self.give(node, f"{tests}({self.inputs(node)[0]})")

    def _prim_Print(self, node: Node) -> None:
        self.line(f"show({', '.join(self.inputs(node))})", node)

    def _prim_If(self, node: Node) -> None:
        outputs = list(node.outputs())
        for word, block in zip((f"if {self.read(node.inputsAt(0))}:", "else:"), node.blocks()):
            values = list(block.outputs())
            if word == "else:" and not values and block.first() is block.returnNode():
                continue
            self.line(word)
            self.depth += 1
            self.block(block)
            self.assign(outputs, values)
            self.depth -= 1

    def _prim_Loop(self, node: Node) -> None:
        body = next(node.blocks())
        count, *carried = body.inputs()
        start = list(node.inputs())
        go_on, *following = body.outputs()
        self.assign(carried, start[2:])
        if is_counting(node):
            self.line(f"for {_name(count)} in range({self.read(start[0])}):")
            self.depth += 1
            self.block(body)
            self.assign(carried, following)
            self.depth -= 1
        else:
            more = f"c{_name(count)}"
            self.line(f"{more} = {self.read(start[1])}")
            if is_infinite(node) and not count.hasUses():
                self.line(f"while {more}:")
            else:
                self.line(f"{_name(count)} = 0")
                self.line(f"while {more} and {_name(count)} < {self.read(start[0])}:")
            self.depth += 1
            self.block(body)
            self.line(f"{more} = {self.read(go_on)}")
            self.assign(carried, following)
            if not (is_infinite(node) and not count.hasUses()):
                self.line(f"{_name(count)} += 1")
            self.depth -= 1
        self.assign(list(node.outputs()), carried)

    # ---- calls
    def _prim_CallFunction(self, node: Node) -> None:
        called, *inputs = node.inputs()
        function = called.node().note
        if isinstance(function, Function):
            name = self.hand_over(self.runner_of(function), "r")
            self.give(node, f"{name}({', '.join(map(self.read, inputs))})")
        else:
            self.give(node, f"runner_of({self.read(called)})({', '.join(map(self.read, inputs))})")

    def _prim_CallMethod(self, node: Node) -> None:
        owner = node.inputsAt(0).type()
        inputs = ", ".join(self.inputs(node))
        if isinstance(owner, ClassType):
            self.give(node, f"{self.hand_over(self.runner_of(owner.methods[node.s('name')]), 'r')}({inputs})")
        else:
            name = self.hand_over(node.s("name"))
            self.give(node, f"runner_of({self.inputs(node)[0]}.script_type.methods[{name}])({inputs})")

    def _prim_PythonOp(self, node: Node) -> None:
        call = runtime.returning(node.note.python, node.output().type())
        self.give(node, f"{self.hand_over(call, 'p')}({', '.join(self.inputs(node))})")

    def _prim_fork(self, node: Node, word: str = "fork") -> None:
        body = Function(f"{self.function.name}_{word}")
        body.set(node.g("Subgraph"), self.function.schema)
        inputs = ", ".join([self.hand_over(self.runner_of(body), "r"), *self.inputs(node)])
        self.give(node, f"runtime.{word}({inputs})")

    def _prim_awaitable(self, node: Node) -> None:
        self._prim_fork(node, "awaitable")

    # ---- objects
    def _prim_GetAttr(self, node: Node) -> None:
        place = runtime.place_of(node.inputsAt(0).type(), node.s("name"))
        self.give(node, f"{self.inputs(node)[0]}.{place}[{self.hand_over(node.s('name'))}]")

    def _prim_SetAttr(self, node: Node) -> None:
        place = runtime.place_of(node.inputsAt(0).type(), node.s("name"))
        obj, value = self.inputs(node)
        self.line(f"{obj}.{place}[{self.hand_over(node.s('name'))}] = {value}", node)

    def _prim_CreateObject(self, node: Node) -> None:
        self.give(node, f"runtime.ScriptObject({self.hand_over(node.output().type())})")

    def _prim_Enter(self, node: Node) -> None:
        obj = self.inputs(node)[0]
        owner: Any = node.inputsAt(0).type()
        self.give(node, f"{self.hand_over(self.runner_of(owner.methods['__enter__']), 'r')}({obj})")
        self.line(f"entered.append(({obj}, {self.hand_over(self.runner_of(owner.methods['__exit__']), 'r')}))")

    def _prim_Exit(self, node: Node) -> None:
        obj = self.inputs(node)[0]
        owner: Any = node.inputsAt(0).type()
        self.line("entered.pop()")
        self.give(node, f"{self.hand_over(self.runner_of(owner.methods['__exit__']), 'r')}({obj}, None, None, None)")


def _name(value: Value) -> str:
    return f"v{value.unique()}"
