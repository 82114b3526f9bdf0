"""Which values may be, or hold, the same changeable object: groups of values, and what comes from outside the graph.

Coarse and safe: what an operator gives may be a part of what it takes unless its schema says it is fresh. Stands on effects;
used by dead_code and constants.
"""

from __future__ import annotations

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.values import Value
from flambeau.jit.passes.effects import is_mutable

__all__ = ["Aliases"]

_CONTAINERS = frozenset("prim::ListConstruct prim::DictConstruct prim::TupleConstruct".split())
_PASSES_ON = frozenset(
    "prim::TupleUnpack prim::TupleIndex prim::TupleSlice prim::ListUnpack prim::unchecked_cast prim::GetAttr "
    "prim::unchecked_unwrap_optional".split()
)


class Aliases:
    """Groups of values that may share memory."""

    def __init__(self, graph: Graph) -> None:
        self._parent: dict[Value, Value] = {}
        self._outside: set[Value] = set()
        for value in graph.inputs():
            self._outside.add(value)
        self._block(graph.block())

    def _find(self, value: Value) -> Value:
        root = value
        while root in self._parent:
            root = self._parent[root]
        while value is not root:
            following = self._parent[value]
            self._parent[value] = root
            value = following
        return root

    def _join(self, a: Value, b: Value) -> None:
        if not (is_mutable(a.type()) and is_mutable(b.type())):
            return
        x, y = self._find(a), self._find(b)
        if x is not y:
            self._parent[x] = y

    def groups(self, value: Value) -> set[int]:
        """The group that a value belongs to."""
        return {id(self._find(value))} if is_mutable(value.type()) else set()

    reachable = groups

    def is_outside(self, value: Value) -> bool:
        """Whether a value may be one that the caller has."""
        root = self._find(value)
        return any(self._find(each) is root for each in self._outside if is_mutable(each.type()))

    def _block(self, block: Block) -> None:
        for node in block.nodes():
            self._node(node)

    def _node(self, node: Node) -> None:
        kind = node.kind()
        for inner in node.blocks():
            self._block(inner)
        if kind == "prim::If":
            for inner in node.blocks():
                for mine, theirs in zip(node.outputs(), inner.outputs()):
                    self._join(mine, theirs)
        elif kind == "prim::Loop":
            body = next(node.blocks())
            carried = list(body.inputs())[1:]
            for given, taken, out, result in zip(list(node.inputs())[2:], carried, list(body.outputs())[1:], node.outputs()):
                for other in (taken, out, result):
                    self._join(given, other)
        elif kind in _CONTAINERS or kind in _PASSES_ON:
            for out in node.outputs():
                for value in node.inputs():
                    self._join(out, value)
        elif kind in ("prim::CallFunction", "prim::CallMethod", "prim::PythonOp", "prim::fork", "prim::Enter", "aten::wait"):
            everything = [*node.inputs(), *node.outputs()]
            for value in everything[1:]:
                self._join(everything[0], value)
            self._outside.update(node.outputs())
        elif kind == "prim::SetAttr":
            self._join(*node.inputs())
        elif node.note is not None and hasattr(node.note, "arguments"):
            self._operator(node)

    def _operator(self, node: Node) -> None:
        schema = node.note
        marked: dict[str, list[Value]] = {}
        everything: list[Value] = []
        for argument, value in zip(schema.arguments, node.inputs()):
            if argument.alias_info is not None:
                for name in argument.alias_info.before_set | argument.alias_info.after_set:
                    (everything if name == "*" else marked.setdefault(name, [])).append(value)
        containers = [value for argument, value in zip(schema.arguments, node.inputs()) if argument.is_write]
        for result, value in zip(schema.returns, node.outputs()):
            if result.alias_info is None:
                continue
            for name in result.alias_info.before_set:
                sources = list(node.inputs()) if name == "*" else marked.get(name, [])
                for source in sources:
                    self._join(value, source)
        # What is put into a container belongs to it.
        for container in containers:
            for value in everything:
                self._join(container, value)
            for argument, value in zip(schema.arguments, node.inputs()):
                if value is not container and argument.type.written in ("t", "t1", "tVal", "t[]"):
                    self._join(container, value)
