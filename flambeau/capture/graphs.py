"""The graph behind the results of a call, as code that makes it again behind the tensors of a replay.

Nodes are those that the call itself makes: same classes, edges and saved values, so that whatever a program does with a graph is
as without capture. What nodes save of the call's memory are further outputs of its program. Stands on core.autograd; used by
results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MemberDescriptorType
from typing import Any

from flambeau.base.layout import Layout
from flambeau.capture.backwards import Backward, starting, starts
from flambeau.capture.kinds import IMMUTABLE, is_a, is_record
from flambeau.core.autograd.node import NO_EDGE, AccumulateGrad, Node, next_sequence
from flambeau.core.autograd.saved_tensors import PACKED
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Graph", "NoGraph"]

_COMMON = ("edges", "inputs", "saved", "versions", "sequence", "extras", "__weakref__")
#: What else some classes of nodes have; never a tensor.
_CONSTANTS = ("counts", "output_count", "recipe")


class NoGraph(Exception):
    """args[0]: what of a graph can't be made again."""


class Graph:
    """Collects the nodes behind tensors that were made in a call; `finish` gives the function that makes them.

    outer: tensors of the environment, by identity; constant: those of them that are the same in every call; place: gives a
    tensor that a replay is to give, or its argument, a place among what is given; first: the number of the call's first node.
    """

    def __init__(
        self, outer: dict[int, Tensor], constant: Callable[[Any], bool], place: Callable[[Tensor], int], first: int
    ) -> None:
        self.outer, self.is_constant, self.place, self.first = outer, constant, place, first
        self.ends: dict[tuple[int, int], list[Tensor]] = {}  # by node and output: tensors that have it
        for x in outer.values():
            if x._node is not None:
                self.ends.setdefault((id(x._node), x._index), []).append(x)
        self.outer_nodes = {node for node, _ in self.ends}
        self.nodes: dict[int, Node] = {}
        self.results: list[Node] = []  # those of tensors that the call returns
        self.backwards: list[Backward] = []
        self.tensors: dict[int, Tensor] = {}  # those made in the call that are behind nodes, or have one
        self.scope: dict[str, Any] = {"new": object.__new__, "next_sequence": next_sequence, "NO_EDGE": NO_EDGE}

    def tensor(self, value: Tensor) -> None:
        """A result that the graph made again has to hold, with the nodes behind it."""
        pending: list[Any] = [value]
        if value._node is not None and id(value._node) not in self.outer_nodes and value._node not in self.results:
            self.results.append(value._node)
        while pending:
            each = pending.pop()
            if is_a(each, Node):
                pending += self._parts_of_node(each)
            elif is_a(each, Tensor) and id(each) not in self.outer and id(each) not in self.tensors:
                self.tensors[id(each)] = each
                self.place(each)
                if each.__dict__ or type(each) is not Tensor:
                    raise NoGraph("a tensor of a class of its own, or with attributes, is saved for the gradient")
                if getattr(each, "_grad", None) is not None or getattr(each, "_resting", None) is not None:
                    raise NoGraph("a tensor that was made in the call has a gradient")
                pending += [each._node, getattr(each, "_root", None)]

    def _parts_of_node(self, node: Node) -> list[Any]:
        if id(node) in self.nodes or id(node) in self.outer_nodes:
            return []
        cls = type(node)
        if cls is AccumulateGrad:
            raise NoGraph("a tensor that was made in the call wants a gradient")
        if node.sequence < self.first:
            raise NoGraph("a graph from before the call is found otherwise than by a tensor")
        if hasattr(node, "__dict__") or node.extras is not None or not _slots(cls) <= {*_COMMON, *_CONSTANTS}:
            raise NoGraph(f"{node.name()} is a node of its own kind, or has hooks")
        if PACKED in node.versions:
            raise NoGraph("tensors are saved by hooks")
        self.nodes[id(node)] = node
        return [*[target for target, _ in node.edges], *_flat(node.saved or ())]

    # ---- the code
    def finish(self) -> Callable[[Sequence[Any]], None] | None:
        """make(given): puts the graph behind the tensors that a replay gave. None where there is nothing to make."""
        if not any(x._node is not None or getattr(x, "_root", None) is not None for x in self.tensors.values()):
            return None
        lines = []
        self.order = sorted(self.nodes.values(), key=lambda node: node.sequence)
        self.made: dict[int, str] = {}
        self.behind = starts(self.results, self.order)
        for i, node in enumerate(self.order):
            lines += self._node(f"n{i}", node)
            self.made[id(node)] = f"n{i}"
        for x in self.tensors.values():
            lines += self._place_in_graph(x)
        body = "".join(f"    {line}\n" for line in lines)
        exec(compile(f"def make(given):\n{body}", "<flambeau graph of a captured call>", "exec"), self.scope)
        return self.scope["make"]  # type: ignore[no-any-return]

    def _constant(self, value: Any) -> str:
        if value is None or type(value) in (int, bool):
            return repr(value)
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def _named(self, x: Tensor) -> str:
        if id(x) in self.outer and self.is_constant(x):
            known = next((name for name, value in self.scope.items() if value is x), None)
            return known or self._constant(x)
        return f"given[{self.place(x)}]"

    def _target(self, node: Node, index: int) -> tuple[str, str]:
        """Where a node is found, and its output."""
        if id(node) in self.outer_nodes:
            having = self.ends.get((id(node), index), [])
            if len(having) != 1:
                raise NoGraph("a graph from before the call is found otherwise than by one tensor")
            return f"{self._named(having[0])}._node", f"{self._named(having[0])}._index"
        if id(node) not in self.made:
            raise NoGraph("a node stands behind a later one")
        return self.made[id(node)], str(index)

    def _node(self, name: str, node: Node) -> list[str]:
        edges = []
        for target, index in node.edges:
            edges.append("NO_EDGE" if target is None else "({}, {})".format(*self._target(target, index)))
        behind = self.behind.get(id(node))
        lines = [
            f"{name} = new({self._constant(type(node) if behind is None else starting(type(node)))})",
            f"{name}.edges = ({''.join(f'{edge}, ' for edge in edges)})",
            f"{name}.inputs = {self._constant(node.inputs)}",
            f"{name}.sequence = next_sequence()",
            f"{name}.extras = None",
            f"{name}.saved = {self._value(node.saved)}",
            f"{name}.versions = {self._versions(node)}",
        ]
        for other in _slots(type(node)) - set(_COMMON):
            if type(getattr(type(node), other)) is MemberDescriptorType and hasattr(node, other):  # not one of the class
                lines.append(f"{name}.{other} = {self._constant(getattr(node, other))}")
        if behind is not None:
            self.backwards.append(Backward(node, behind))
            lines.append(f"{name}.backward = {self._constant(self.backwards[-1])}")
            lines.append(f"{name}.behind = ({''.join(f'{self.made[id(each)]}, ' for each in behind)})")
        return lines

    def _value(self, value: Any) -> str:
        """The text of a saved value."""
        cls = type(value)
        if is_a(value, Tensor):
            return self._named(value)
        if is_a(value, Node):
            if id(value) in self.outer_nodes:
                raise NoGraph("a node from before the call is saved for the gradient")
            return self._target(value, 0)[0]
        if cls is tuple or cls is list or (is_a(value, tuple) and is_record(cls)):
            inside = "".join(f"{self._value(each)}, " for each in value)
            named = "" if cls is tuple or cls is list else f"{self._constant(cls)}._make"
            return f"[{inside}]" if cls is list else f"{named}(({inside}))"
        if cls in IMMUTABLE or cls is Layout or is_a(value, type):
            return self._constant(value)
        raise NoGraph(f"a {cls.__qualname__} is saved for the gradient")

    def _versions(self, node: Node) -> str:
        """The versions that saved tensors had."""
        texts = []
        for i, version in enumerate(node.versions):
            value: Any = node.saved[i] if node.saved is not None and i < len(node.saved) else None
            texts.append(repr(version) if version is None or not is_a(value, Tensor) else self._version(value, version))
        return f"({''.join(f'{text}, ' for text in texts)})"

    def _version(self, x: Tensor, version: int) -> str:
        """A count of writes to a tensor's memory: to that from before the call it is counted from what it is after the call."""
        outside = next((each for each in self.outer.values() if each._storage is x._storage), None)
        if outside is None:
            return repr(version)
        return f"{self._named(outside)}._storage.writes{version - outside._storage.writes:+d}"

    def _place_in_graph(self, x: Tensor) -> list[str]:
        name, lines = self._named(x), []
        if x._node is not None:
            node, index = self._target(x._node, x._index)
            lines.append(f"{name}._node = {node}")
            if index != "0":
                lines.append(f"{name}._index = {index}")
        root, creation = getattr(x, "_root", None), getattr(x, "_creation", None)
        if root is not None:
            lines.append(f"{name}._root = {self._named(root)}")
        if creation is not None:
            kind, version = creation
            lines.append(f"{name}._creation = ({kind!r}, {self._version(x, version)})")
        return lines


def _slots(cls: type) -> set[str]:
    return {name for base in cls.__mro__ for name in base.__dict__.get("__slots__", ())}


def _flat(values: Sequence[Any]) -> list[Any]:
    """The values in tuples and lists, and in those among them."""
    found: list[Any] = []
    for each in values:
        found += _flat(each) if is_a(each, (tuple, list)) else [each]
    return found
