"""Which attributes a program reads and changes, and constants in the place of those that it only reads.

Stands on ir; used by entry. A graph is looked at with all calls written out, so that every object that it names is known: the
module, what lies in it, and so on.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.jit.execution.runtime import place_of
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.constants import can_be_constant
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import ClassType, unshaped
from flambeau.jit.ir.values import Value
from flambeau.jit.passes.effects import written

__all__ = ["Attributes"]

_PARTS = frozenset(
    """prim::ListConstruct prim::DictConstruct prim::TupleConstruct prim::TupleUnpack prim::TupleIndex prim::TupleSlice
    prim::ListUnpack prim::unchecked_cast prim::unchecked_unwrap_optional""".split()
)


class Attributes:
    """What graphs do with the attributes of a module and of all that is in it."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.objects: dict[Value, Any] = {}  # values that are modules or objects of classes
        self.read: dict[Value, tuple[int, str]] = {}
        self.changed: set[tuple[int, str]] = set()
        self._sources: dict[Value, set[tuple[int, str]]] = {}

    def look(self, graph: Graph) -> None:
        """Note what a graph, whose first input is the module, reads and changes."""
        self.objects[next(iter(graph.inputs()))] = self.module
        self._look(graph.block())

    def _look(self, block: Block) -> None:
        for node in block.nodes():
            kind = node.kind()
            if kind == "prim::GetAttr":
                self._get(node)
            elif kind == "prim::SetAttr":
                owner = self.objects.get(node.inputsAt(0))
                self.changed.add((id(owner), node.s("name")))
            else:
                self._pass_on(node)
            for value in written(node):
                self.changed |= self._sources.get(value, set())
            for inner in node.blocks():
                self._enter(node, inner)
                self._look(inner)
            self._leave(node)

    def _get(self, node: Node) -> None:
        owner = self.objects.get(node.inputsAt(0))
        if owner is None:
            return
        key = id(owner), node.s("name")
        self.read[node.output()] = key
        self._sources[node.output()] = {key} | self._sources.get(node.inputsAt(0), set())
        found = value_of(owner, node.s("name"))
        if hasattr(found, "script_type"):
            self.objects[node.output()] = found

    def _pass_on(self, node: Node) -> None:
        """What a node gives may be what it takes, or a part of it."""
        schema = node.note
        views = node.kind() in _PARTS
        if hasattr(schema, "returns"):
            views = views or any(made.alias_info is not None for made in schema.returns)
        if views or node.kind() in ("prim::PythonOp", "prim::CallFunction", "prim::CallMethod"):
            sources = set().union(*(self._sources.get(value, set()) for value in node.inputs()))
            if not views:
                self.changed |= sources
            for value in node.outputs():
                self._sources[value] = sources

    def _enter(self, node: Node, block: Block) -> None:
        if node.kind() == "prim::Loop":
            for given, taken in zip(list(node.inputs())[2:], list(block.inputs())[1:]):
                self._sources[taken] = self._sources.get(given, set())

    def _leave(self, node: Node) -> None:
        for block in node.blocks():
            given = list(block.outputs())[1:] if node.kind() == "prim::Loop" else list(block.outputs())
            for mine, theirs in zip(node.outputs(), given):
                self._sources[mine] = self._sources.get(mine, set()) | self._sources.get(theirs, set())

    # ---- constants

    def fold(self, graph: Graph, kept: set[tuple[int, str]]) -> None:
        """Constants for what a graph reads and no graph changes, but for attributes that are kept."""
        self._fold(graph, graph.block(), kept, {})

    def _fold(self, graph: Graph, block: Block, kept: set[tuple[int, str]], made: dict[tuple[int, str], Value]) -> None:
        for node in list(block.nodes()):
            for inner in node.blocks():
                self._fold(graph, inner, kept, made)
            key = self.read.get(node.output()) if node.kind() == "prim::GetAttr" else None
            if key is None or key in self.changed or key in kept:
                continue
            value = value_of(self.objects[node.inputsAt(0)], key[1])
            value = detached(value)
            if hasattr(value, "script_type") or not can_be_constant(value):
                continue
            if key not in made:
                with graph.insert_point_guard(graph.block().first()):
                    made[key] = graph.insertConstant(value, None, unshaped(node.output().type()))
                made[key].setDebugName(f"self.{key[1]}")
            node.output().replaceAllUsesWith(made[key])


def value_of(owner: Any, name: str) -> Any:
    """The value of an attribute of a module or an object."""
    kind: ClassType = owner.script_type
    return getattr(owner, place_of(kind, name)).get(name)


def detached(value: Any) -> Any:
    """A value whose tensors belong to no gradient."""
    if isinstance(value, Tensor):
        return value.detach()  # type: ignore[attr-defined]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(detached(item) for item in value)
    if isinstance(value, dict):
        return {key: detached(item) for key, item in value.items()}
    return value
