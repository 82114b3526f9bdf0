"""An ONNX model in memory: Model, Graph, Node, Value, and the sizes of values. Stands on `_types`; used by the whole room.

The names are those of the package onnx_ir, whose model PyTorch's ONNXProgram holds: `model.graph.inputs[0].shape[0]`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import flambeau as torch

__all__ = ["Graph", "Model", "Node", "SymbolicDim", "Value", "ValueType"]


class SymbolicDim:
    """A size that is known when the model runs. value: its name, or None where it has none."""

    def __init__(self, value: str | None) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, SymbolicDim) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return self.value or "?"

    def __repr__(self) -> str:
        return f"SymbolicDim({self.value})"


_SCALAR_NAMES = {
    torch.bool: "Bool", torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long",
    torch.float16: "Half", torch.float32: "Float", torch.float64: "Double", torch.bfloat16: "BFloat16",
    torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class ValueType:
    """A dtype and sizes, under the names that TorchScript's types have."""

    dtype: torch.dtype | None
    shape: Sequence[Any] | None

    def scalarType(self) -> str | None:
        """The name of the dtype: "Float"."""
        return None if self.dtype is None else _SCALAR_NAMES[self.dtype]

    def dim(self) -> int | None:
        """How many dimensions; None where that isn't known."""
        return None if self.shape is None else len(self.shape)

    def varyingSizes(self) -> list[int | None] | None:
        """The sizes, None for those that may change."""
        return None if self.shape is None else [n if isinstance(n, int) else None for n in self.shape]

    def sizes(self) -> list[int] | None:
        """The sizes, None unless all are fixed."""
        fixed = [n for n in self.shape or () if isinstance(n, int)]
        return fixed if self.shape is not None and len(fixed) == len(self.shape) else None

    def with_sizes(self, sizes: Sequence[int | None]) -> ValueType:
        """The same with other sizes."""
        return ValueType(self.dtype, [SymbolicDim(None) if n is None else n for n in sizes])

    def with_dtype(self, dtype: torch.dtype) -> ValueType:
        """The same with another dtype."""
        return ValueType(dtype, self.shape)


class Value:
    """What a node makes, an input, or a constant.

    name: its name in the file, given at the end where it has none; dtype: flambeau's, None where it isn't known; shape: a list of
    numbers and SymbolicDims, None where it isn't known; const_value: the elements of a constant; parameter: whether it is one of
    the model's parameters and buffers, which stay as they are; sequence: whether it is a sequence of tensors.
    """

    __slots__ = ("const_value", "dtype", "name", "node", "parameter", "sequence", "shape")

    def __init__(
        self,
        name: str | None = None,
        dtype: torch.dtype | None = None,
        shape: Sequence[Any] | None = None,
        const_value: np.ndarray | None = None,
        parameter: bool = False,
    ) -> None:
        self.name, self.dtype, self.const_value, self.parameter = name, dtype, const_value, parameter
        self.shape = None if shape is None else list(shape)
        self.node: Node | None = None
        self.sequence = False

    @property
    def rank(self) -> int:
        """How many dimensions it has. ValueError where that isn't known."""
        if self.shape is None:
            raise ValueError(f"The rank of {self} is not known")
        return len(self.shape)

    @property
    def constant(self) -> np.ndarray | None:
        """The elements of a constant that may become part of another: None for parameters."""
        return None if self.parameter else self.const_value

    def type(self) -> ValueType:
        """Its dtype and sizes, as symbolic functions ask for them."""
        return ValueType(self.dtype, self.shape)

    def setType(self, type: ValueType) -> Value:
        """Give it a dtype and sizes; the value itself."""
        self.dtype, self.shape = type.dtype, None if type.shape is None else list(type.shape)
        return self

    def setTypeAs(self, other: Value) -> Value:
        """Give it another's dtype and sizes; the value itself."""
        return self.setType(other.type())

    def producer(self) -> Node | None:
        """The node that makes it."""
        return self.node

    def __repr__(self) -> str:
        dtype = "?" if self.dtype is None else str(self.dtype).removeprefix("torch.")
        shape = "?" if self.shape is None else ",".join(map(str, self.shape))
        return f'%"{self.name or ""}"<{dtype},[{shape}]>'


@dataclasses.dataclass(eq=False)
class Node:
    """A call of an operator. attributes: numbers, texts, lists of them, arrays, graphs; metadata_props: where it came from."""

    op_type: str
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    domain: str = ""
    name: str | None = None
    metadata_props: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for value in self.outputs:
            value.node = self

    def graphs(self) -> list[Graph]:
        """The graphs that it runs: branches, the body of a loop."""
        return [x for x in self.attributes.values() if isinstance(x, Graph)]

    def reads(self) -> Iterator[Value]:
        """What it and the nodes of its graphs read."""
        yield from (x for x in self.inputs if x is not None)
        for graph in self.graphs():
            for node in graph.nodes:
                yield from node.reads()
            yield from graph.outputs

    def replace(self, values: dict[int, Value]) -> None:
        """Read other values, by the id of those that they replace."""
        self.inputs = [x if x is None else values.get(id(x), x) for x in self.inputs]
        for graph in self.graphs():
            for node in graph.nodes:
                node.replace(values)
            graph.outputs = [values.get(id(x), x) for x in graph.outputs]

    def __repr__(self) -> str:
        made = ", ".join(map(repr, self.outputs))
        given = ", ".join("" if x is None else f'%"{x.name or ""}"' for x in self.inputs)
        attributes = ", ".join(f"{k}={v!r}" for k, v in self.attributes.items() if not isinstance(v, Graph))
        return f"{made} = {self.domain or ''}::{self.op_type}({given}) {{{attributes}}}"


class Graph:
    """Nodes in the order in which they run; inputs, outputs, and the initializers by name: the parameters and large constants."""

    def __init__(self, name: str = "main_graph") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.initializers: dict[str, Value] = {}
        self.nodes: list[Node] = []

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def node(self, index: int | str) -> Node:
        """A node by its place or name. ValueError without one of the name."""
        if isinstance(index, int):
            return self.nodes[index]
        for node in self.nodes:
            if node.name == index:
                return node
        raise ValueError(f"Node with name '{index}' not found.")

    def values(self) -> Iterator[Value]:
        """Every value once: inputs, initializers, constants and what nodes make."""
        seen: set[int] = set()
        for value in self._values():
            if id(value) not in seen:
                seen.add(id(value))
                yield value

    def _values(self) -> Iterator[Value]:
        yield from self.inputs
        yield from self.initializers.values()
        for node in self.nodes:
            yield from (x for x in node.inputs if x is not None)
            for graph in node.graphs():
                yield from graph._values()
            yield from node.outputs
        yield from self.outputs

    def all_nodes(self) -> Iterator[Node]:
        """Every node, those of the graphs that nodes run too."""
        for node in self.nodes:
            for graph in node.graphs():
                yield from graph.all_nodes()
            yield node

    def __str__(self) -> str:
        given, made = ", ".join(map(repr, self.inputs)), ", ".join(f'%"{x.name}"' for x in self.outputs)
        lines = "\n".join(f"    {i} |  # {n.name}\n        {n!r}" for i, n in enumerate(self.nodes))
        head = f"graph(\n    name={self.name},\n    inputs=({given}),\n    outputs=({made}),\n)"
        return f"{head} {{\n{lines}\n    return {made}\n}}"


@dataclasses.dataclass
class Model:
    """A graph, the versions of the operator sets that it is written in, and who wrote it.

    functions: onnx's FunctionProtos that nodes of other domains call.
    """

    graph: Graph
    opset_imports: dict[str, int]
    ir_version: int = 10
    producer_name: str = "pytorch"
    producer_version: str = torch.__version__
    functions: list[Any] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"<\n    ir_version={self.ir_version},\n    opset_imports={self.opset_imports},\n    "
            f"producer_name={self.producer_name!r},\n    producer_version={self.producer_version!r},\n>\n{self.graph}"
        )
