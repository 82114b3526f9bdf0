"""What a trace knows while it runs: the graph, which value of it every tensor is, and where new nodes go.

Stands on jit.ir; used by recorder, running, programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.core.tensor.storage import begin_epoch
from flambeau.dispatcher import builtin_schemas
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import DictType, IntType, ListType, StringType, TensorType, TracedNumber, TupleType, Type
from flambeau.jit.ir.constants import type_of_value
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.shaped import number_tensor, shaped
from flambeau.jit.ir.values import Value
from flambeau.jit.tracing.warnings import CONTAINER_ADVICE, warn

__all__ = ["Place", "TracingState", "check_inputs"]

_TENSOR = TensorType()
UNTRACEABLE = " cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors can be traced"


class Place:
    """A line of the program that is traced."""

    __slots__ = ("file", "line")

    def __init__(self, file: str, line: int) -> None:
        self.file, self.line = file, line

    def file_line_col(self) -> tuple[str, int, int]:
        """(file, line from 1, 0)."""
        return self.file, self.line, 0

    def highlight(self) -> str:
        """The file and the line."""
        return f"{self.file}({self.line})\n"


class TracingState:
    """One trace. graph: what is written. names(tensor): what the program calls a tensor, or ""."""

    def __init__(self, strict: bool = True) -> None:
        self.graph, self.strict = Graph(), strict
        self.names: Callable[[Any], str] = lambda tensor: ""
        self.where: Callable[[], Any] = lambda: None
        self.scopes: list[str] = []
        self._values: dict[int, tuple[Any, Value]] = {}
        self._epoch = begin_epoch()
        self._data: dict[int, Any] = {}  # storages of what is made of numbers

    # ---- which value a tensor is

    def known(self, x: Any) -> Value | None:
        """The value that a tensor or module is; None for one that the trace has not seen."""
        found = self._values.get(id(x))
        return None if found is None else found[1]

    def set(self, x: Any, value: Value) -> None:
        """From now on a tensor is this value."""
        self._values[id(x)] = (x, value)

    def value(self, x: Any) -> Value:
        """The value of a tensor or of a constant. RuntimeError for a foreign tensor that requires grad."""
        if isinstance(x, torch.Tensor):
            found = self.known(x)
            if found is not None:
                if not found.hasDebugName():
                    found.setDebugName(self.names(x))
                return found
            return self.foreign(x)
        if isinstance(x, TracedNumber):
            return self.number(x)
        return self.constant(x)

    def foreign(self, x: Any) -> Value:
        """The constant that a tensor from outside becomes."""
        memory = x._storage
        if memory.epoch >= self._epoch and id(memory) not in self._data:
            raise NotImplementedError(
                f"torch.jit.trace: a tensor of shape {tuple(x.shape)} was made by a function that is not implemented in "
                "flambeau as an operator of a graph: its value would be a constant. Make it before, or write it by other "
                "operators"
            )
        if x.requires_grad:
            raise RuntimeError(
                "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, or detaching "
                f"the gradient\nTensor:\n{x.detach()}"
            )
        made = self.tensor_constant(x)
        self.set(x, made)
        return made

    def of_data(self, x: torch.Tensor) -> None:
        """Say that a tensor is made of Python's or NumPy's numbers, and so may be a constant."""
        self._data[id(x._storage)] = x._storage

    def tensor_constant(self, x: Any) -> Value:
        """A constant with the values of a tensor."""
        return self.constant(x).setType(shaped(x))

    def constant(self, x: Any, kind: Type | None = None) -> Value:
        """A constant."""
        return self.graph.insertConstant(x, self.where(), kind)

    def number(self, x: TracedNumber, name: str = "aten::Int", overload: str = "Tensor", kind: Type | None = None) -> Value:
        """The number that a tensor stands for, worked out right behind the tensor."""
        tensor = self.value(x.tensor)
        node = self.graph.create(name, [tensor])
        node.note = builtin_schemas.schema_of(name, overload)
        node.output().setType(kind or IntType())
        node.insertAfter(tensor.node()) if tensor.node().kind() != "prim::Param" else self.graph.prependNode(node)
        return node.output()

    def tensor_of_number(self, value: Value, kind: Type) -> Value:
        """The tensor that a number of the graph becomes."""
        node = self.graph.insertNode(self.graph.create("prim::NumToTensor", [value]))
        node.note = builtin_schemas.schema_of("prim::NumToTensor", "Scalar")
        return node.output().setType(number_tensor(kind))

    # ---- nodes

    def node(self, kind: str, inputs: list[Value], schema: FunctionSchema | str, outputs: int = 1) -> Node:
        """An operator's node where the next one goes; schema: of its overload, or the overload's name."""
        made = self.graph.create(kind, inputs, outputs)
        made.setSourceRange(self.where())
        made.note = builtin_schemas.schema_of(kind, schema) if isinstance(schema, str) else schema
        return self.graph.insertNode(made)

    def list_of(self, values: list[Value], element: Type) -> Value:
        """A list."""
        made = self.graph.insertNode(self.graph.create("prim::ListConstruct", values))
        return made.output().setType(ListType(element))

    # ---- inputs

    def input(self, x: Any, value: Value) -> Any:
        """Say that an argument is this value, its items what is taken out of it; what the function is to be called with.

        RuntimeError for what can't be traced.
        """
        if isinstance(x, torch.Tensor):
            value.setType(shaped(x))
            if self.known(x) is not None:
                x = x.view(x.shape) if not x.is_leaf or not x.requires_grad else x
            self.set(x, value)
            return x
        value.setType(_container_type(x))
        if isinstance(x, dict):
            made = {}
            for key, item in x.items():
                overload = "Dict_str" if isinstance(key, str) else "Dict_int"
                node = self.node("aten::__getitem__", [value, self.constant(key)], overload)
                made[key] = self.input(item, node.output())
            return made
        kind = "prim::TupleUnpack" if isinstance(x, tuple) else "prim::ListUnpack"
        node = self.graph.insertNode(self.graph.create(kind, [value], len(x)))
        items = [self.input(item, output) for item, output in zip(x, node.outputs())]
        if isinstance(x, list):
            return items
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)

    # ---- results

    def output(self, x: Any, index: int = 1) -> Value:
        """The value of a result. RuntimeError for one that the graph doesn't make."""
        if isinstance(x, torch.Tensor):
            found = self.known(x)
            if found is None:
                raise RuntimeError(
                    f"output {index} ({_printed(x)}) of traced region did not have observable data dependence with trace inputs; "
                    "this probably indicates your program cannot be understood by the tracer."
                )
            return found
        if isinstance(x, tuple):
            values = [self.output(item, index) for item in x]
            node = self.graph.insertNode(self.graph.create("prim::TupleConstruct", values))
            return node.output().setType(TupleType([value.type() for value in values]))
        if isinstance(x, list) and x and all(isinstance(item, torch.Tensor) for item in x):
            if self.strict:
                warn("Encountering a list at the output of the tracer", CONTAINER_ADVICE)
            return self.list_of([self.output(item, index) for item in x], _TENSOR)
        if isinstance(x, dict) and x:
            if self.strict:
                raise RuntimeError("Encountering a dict at the output of the tracer" + CONTAINER_ADVICE)
            keys = [self.value(key) for key in x]
            values = [self.output(item, index) for item in x.values()]
            if not all(isinstance(key, str) for key in x) and not all(isinstance(key, int) for key in x):
                raise RuntimeError("output of traced region has keys that are neither texts nor integers")
            pairs = [v for pair in zip(keys, values) for v in pair]
            node = self.graph.insertNode(self.graph.create("prim::DictConstruct", pairs))
            kind = StringType() if isinstance(next(iter(x)), str) else IntType()
            return node.output().setType(DictType(kind, _unshaped(values[0].type())))
        if x is None:
            raise RuntimeError(
                "The traced function didn't return any values! Side-effects are not captured in traces, so it would be a no-op."
            )
        raise RuntimeError("Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions")

    # ---- modules

    def enter(self, scope: str) -> None:
        """What follows is of a submodule."""
        node = self.graph.insertNode(self.graph.create("prim::TracedModuleForward", (), 0)).s_("scope", scope)
        self.scopes.append(scope)
        self.graph.setInsertPoint(node.addBlock())

    def leave(self) -> None:
        """What follows is of the module around."""
        self.scopes.pop()
        block = self.graph.insertPoint().owningBlock()
        assert block is not None
        owner = block.owningNode()
        assert owner is not None
        self.graph.setInsertPoint(owner.next())


def _unshaped(kind: Type) -> Type:
    return _TENSOR if isinstance(kind, TensorType) else kind


def _container_type(x: Any) -> Type:
    """The type of an argument. RuntimeError for what can't be traced."""
    if isinstance(x, torch.Tensor):
        return shaped(x)
    if isinstance(x, tuple):
        return TupleType([_container_type(item) for item in x])
    if isinstance(x, list) and x and all(isinstance(item, torch.Tensor) for item in x):
        return ListType(_TENSOR)
    if isinstance(x, list) and x and all(isinstance(item, (list, tuple, dict)) for item in x):
        return ListType(_plain_type(x[0]))
    if isinstance(x, dict) and x and all(isinstance(key, (str, int)) for key in x):
        return DictType(type_of_value(next(iter(x))) or StringType(), _plain_type(next(iter(x.values()))))
    raise RuntimeError(f"Type '{type(x).__name__}'{UNTRACEABLE}")


def check_inputs(inputs: tuple[Any, ...]) -> None:
    """RuntimeError for arguments that can't be traced, with the type of all."""
    try:
        _container_type(inputs)
    except RuntimeError:
        raise RuntimeError(f"Type '{_type_shown(inputs)}'{UNTRACEABLE}") from None


def _plain_type(x: Any) -> Type:
    return _TENSOR if isinstance(x, torch.Tensor) else _container_type(x)


def _type_shown(x: Any) -> str:
    found = type_of_value(x)
    return str(found) if found is not None else type(x).__name__


def _printed(x: Any) -> str:
    return f" {x.detach()}"
