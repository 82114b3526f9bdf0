"""What is known of a graph's tensors, from its inputs on: sizes, dtypes, strides, devices, as far as types say them.

Every node whose inputs are known is run on tensors of the device meta, which have no data. Sizes that aren't known are tried
out: the node runs with two sets of numbers in their places; what is equal to one of them in both runs is that size, what stays
the same is known, and anything else is a new unknown. Stands on the executor's operators; used by torch._C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import flambeau as torch
from flambeau.dispatcher.schema_types import ListType, TensorType, TupleType
from flambeau.dispatcher.shaped_types import ShapedTensorType, new_symbol
from flambeau.jit.execution.operators import python_of
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import is_tensor
from flambeau.jit.ir.values import Value

__all__ = ["describe_inputs", "propagate_shapes"]

_UNKNOWN: Any = object()
#: Numbers that stand for unknown sizes: of either run others, none a multiple of another.
_TRIALS = ((37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83), (89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149))


def describe_inputs(graph: Graph, tensors: Iterable[Any], requires_grad: bool = False) -> None:
    """Give the inputs that are tensors the types of these."""
    given = iter(tensors)
    for value in graph.inputs():
        tensor = next(given, None) if is_tensor(value.type()) else None
        if tensor is not None:
            value.setType(
                ShapedTensorType(
                    tensor.dtype, tensor.shape, tensor.stride(), requires_grad and tensor.requires_grad, tensor.device
                )
            )


def propagate_shapes(graph: Graph, what: frozenset[str]) -> bool:
    """Say of every tensor what follows from the inputs' types; whether anything was added.

    what: of "sizes", "dtype", "strides" and "device". What isn't asked for and isn't known of an input is assumed.
    """
    return _Propagation(what).run(graph)


class _Propagation:
    def __init__(self, what: frozenset[str]) -> None:
        self.what = what
        self.symbols: dict[int, int] = {}  # the place of an unknown size among the numbers tried
        self.values: dict[Value, tuple[Any, Any]] = {}  # what a value is in either run
        self.changed = False

    def run(self, graph: Graph) -> bool:
        with torch.no_grad():
            self.block(graph.block())
        return self.changed

    def block(self, block: Block) -> None:
        for value in block.inputs():
            self.values[value] = self.of_type(value)
        for node in block.nodes():
            self.node(node)

    # ---- values
    def of_type(self, value: Value) -> tuple[Any, Any]:
        """What is known of a value by its type."""
        kind = value.type()
        if not isinstance(kind, TensorType):
            return _UNKNOWN, _UNKNOWN
        sizes = kind.symbolic_sizes()
        dtype = kind.dtype() or (torch.float32 if "dtype" not in self.what else None)
        if sizes is None or dtype is None:
            return _UNKNOWN, _UNKNOWN
        for size in sizes:
            if size < 0:
                self.symbols.setdefault(size, len(self.symbols))
        if len(self.symbols) > len(_TRIALS[0]):
            return _UNKNOWN, _UNKNOWN
        strides = kind.strides()
        made = []
        for trial in _TRIALS:
            shape = [trial[self.symbols[size]] if size < 0 else size for size in sizes]
            made.append(
                torch.empty(shape, dtype=dtype, device="meta") if strides is None
                else torch.empty_strided(shape, strides, dtype=dtype, device="meta")
            )  # fmt: skip
        return made[0], made[1]

    def node(self, node: Node) -> None:
        kind = node.kind()
        if kind == "prim::Constant":
            constant = node.ivalue()
            if isinstance(constant, torch.Tensor):
                constant = constant.to("meta")
            self.values[node.output()] = (constant, constant)
            return
        for inner in node.blocks():
            self.block(inner)
        if kind == "prim::If":
            self.joined(node)
            return
        run = None if node._blocks else _answer(node)
        results = [[_UNKNOWN] * node.outputsSize()] * 2
        inputs = [self.values.get(value, (_UNKNOWN, _UNKNOWN)) for value in node.inputs()]
        if run is not None and all(pair[0] is not _UNKNOWN for pair in inputs):
            results = [self.ran(run, node, [pair[at] for pair in inputs]) for at in (0, 1)]
        for place, value in enumerate(node.outputs()):
            one, other = (found[place] for found in results)
            if one is _UNKNOWN or other is _UNKNOWN:
                self.values[value] = self.of_type(value)
            else:
                self.values[value] = one, other
                self.describe(value, one, other)

    def ran(self, run: Callable[..., Any], node: Node, inputs: list[Any]) -> list[Any]:
        count = node.outputsSize()
        try:
            made = run(*inputs)
        except Exception:  # nothing can be said of a call that fails on these sizes, or that needs the data
            return [_UNKNOWN] * count
        found = [made] if count == 1 else list(made) if isinstance(made, (tuple, list)) else []
        return found if len(found) == count else [_UNKNOWN] * count

    def joined(self, node: Node) -> None:
        """The results of an `if` are what both branches have in common."""
        branches = [list(block.outputs()) for block in node.blocks()]
        for value, one, other in zip(node.outputs(), *branches):
            kinds = [one.type(), other.type()]
            sizes = [kind.symbolic_sizes() if isinstance(kind, TensorType) else None for kind in kinds]
            if sizes[0] is not None and sizes[1] is not None and len(sizes[0]) == len(sizes[1]):
                same = [a if a == b else new_symbol() for a, b in zip(*sizes)]
                dtype = kinds[0].dtype() if kinds[0].dtype() is kinds[1].dtype() else None  # type: ignore[attr-defined]
                self.note(value, ShapedTensorType(dtype, same))
            self.values[value] = self.of_type(value)

    # ---- types
    def describe(self, value: Value, one: Any, other: Any) -> None:
        """Say in a value's type what is known of it."""
        kind = value.type()
        if isinstance(kind, TensorType) and isinstance(one, torch.Tensor):
            known = {"sizes": kind.symbolic_sizes(), "strides": kind.strides(), "kind": kind.dtype(), "place": kind.device()}
            if "sizes" in self.what:
                known["sizes"] = [self.size(a, b) for a, b in zip(one.shape, other.shape)]
            if "dtype" in self.what:
                known["kind"] = one.dtype
            if "strides" in self.what and one.shape == other.shape:
                known["strides"] = list(one.stride())
            if "device" in self.what:
                known["place"] = torch.device("cpu")
            self.note(value, ShapedTensorType(**known))
        elif isinstance(kind, (ListType, TupleType)):
            return

    def size(self, a: int, b: int) -> int:
        if a == b:
            return int(a)
        for symbol, place in self.symbols.items():
            if (a, b) == (_TRIALS[0][place], _TRIALS[1][place]):
                return symbol
        return new_symbol()

    def note(self, value: Value, kind: ShapedTensorType) -> None:
        if value.type().written != kind.written:
            value.setType(kind)
            self.changed = True


def _answer(node: Node) -> Callable[..., Any] | None:
    if node.kind() in ("prim::ListConstruct", "prim::TupleConstruct"):
        made: type = list if node.kind() == "prim::ListConstruct" else tuple
        return lambda *parts: made(parts)
    if node.kind() in ("prim::ListUnpack", "prim::TupleUnpack"):
        return lambda parts: parts[0] if len(parts) == 1 else parts
    return python_of(node)
