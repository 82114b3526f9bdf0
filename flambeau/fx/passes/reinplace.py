"""torch.fx.passes.reinplace: a graph of operators that write nothing, with writes where nobody can tell.

An operator is exchanged for the one that writes to its first argument if that argument's memory isn't read afterwards, by
itself or by a view. An operator that gives a tensor with a part exchanged (`select_scatter`) becomes a write of that part,
or nothing where the part is in its place already. Which values share memory, and where they lie in it, is seen by running
the graph on tensors without values. Stands on fx and on fake tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flambeau as torch
from flambeau._subclasses.fake_tensor import FakeTensorMode
from flambeau.base.memory_order import overlaps_itself
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.core.tensor.storage import root
from flambeau.dispatcher.overloads import OpOverload
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.utils import _pytree as pytree

__all__ = ["reinplace"]

aten = torch.ops.aten
#: Views whose part an operator exchanges.
_VIEW_OF = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
    aten.diagonal_scatter.default: aten.diagonal.default,
    aten.as_strided_scatter.default: aten.as_strided.default,
}
#: Names with an underscore at their end that do something else.
_OTHER = frozenset(("resize", "set", "resize_as", "detach", "requires_grad"))


def reinplace(gm: GraphModule, *sample_args: Any) -> GraphModule:
    """The module, whose graph is changed: operators write in place where it makes no difference, never to its inputs.

    sample_args: inputs like those that it will have.
    """
    _Reinplacing(gm, sample_args).run()
    gm.recompile()
    return gm


def _is_view(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.is_view


class _Reinplacing:
    def __init__(self, gm: GraphModule, inputs: Any) -> None:
        self.gm, self.graph = gm, gm.graph
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.values: dict[Node, Any] = {}
        self.merged: dict[int, int] = {}  # from memory to that which takes its place
        self._simulate(inputs)
        self.position = {node: i for i, node in enumerate(self.graph.nodes)}
        self.readers: dict[int, list[tuple[Node, Node]]] = {}  # by memory: who reads what
        for node in self.graph.nodes:
            for used in node.all_input_nodes:
                for memory in self._memories(used):
                    self.readers.setdefault(memory, []).append((node, used))
        self.inputs = {m for node in self.graph.nodes if node.op in ("placeholder", "get_attr") for m in self._memories(node)}

    # ---- what is where

    def _simulate(self, inputs: Any) -> None:
        """Run the graph on tensors without values."""
        flat = iter(pytree.tree_leaves(inputs))
        for node in self.graph.nodes:
            if node.op == "placeholder":
                value = next(flat, None)
            elif node.op == "get_attr":
                value = self.gm
                for name in str(node.target).split("."):
                    value = getattr(value, name)
            elif node.op == "call_function":
                value = self._call(node)
            elif node.op == "output":
                continue
            else:
                raise NotImplementedError(f"reinplace of a graph with {node.op} is not implemented in flambeau: use make_fx")
            self.values[node] = self._fake(value) if node.op in ("placeholder", "get_attr") else value

    def _fake(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.mode.from_tensor(value)
        return int(value) if is_symbolic_number(value) else value

    def _call(self, node: Node) -> Any:
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: self.values[n])
        with self.mode, torch.no_grad():
            return node.target(*args, **kwargs)  # type: ignore[operator]

    def _memories(self, node: Node) -> Iterator[int]:
        """The memory, or several, that a node's value lies in."""
        for x in pytree.tree_leaves(self.values.get(node)):
            if isinstance(x, torch.Tensor):
                memory = id(root(x._storage))
                while memory in self.merged:
                    memory = self.merged[memory]
                yield memory

    def _read_after(self, node: Node, memory: int) -> Iterator[tuple[Node, Node]]:
        """Who reads some memory, and by which value, after a node; views read nothing by themselves."""
        for reader, used in self.readers.get(memory, ()):
            if self.position[reader] > self.position[node] and not _is_view(reader):
                yield reader, used

    # ---- the walk

    def run(self) -> None:
        """Change the graph."""
        for node in list(self.graph.nodes):
            if node.op != "call_function" or not isinstance(node.target, OpOverload) or not node.args:
                continue
            first = node.args[0]
            if not isinstance(first, Node) or not isinstance(self.values.get(first), torch.Tensor):
                continue
            if node.target in _VIEW_OF:
                self._scatter(node, first)
            else:
                self._in_place(node, first)

    def _scatter(self, node: Node, base: Node) -> None:
        (memory,) = self._memories(base)
        if memory in self.inputs or any(True for _ in self._read_after(node, memory)):
            return
        part = node.args[1]
        view = _VIEW_OF[node.target]  # type: ignore[index]
        rest, named = node.args[2:], dict(node.kwargs)
        if not isinstance(part, Node) or not self._is_there(part, base, view, rest, named, memory):
            with self.graph.inserting_before(node):
                shown = self.graph.call_function(view, (base, *rest), named)
                self.graph.call_function(aten.copy_.default, (shown, part))
        self._stand_for(node, base, memory)
        self.graph.erase_node(node)

    def _is_there(self, part: Node, base: Node, view: Any, rest: Any, named: Any, memory: int) -> bool:
        """Whether a value lies where a view of `base` shows."""
        return memory in self._memories(part) and self._same_place(self.values[part], base, view, rest, named)

    def _same_place(self, value: Any, base: Node, view: Any, rest: Any, named: Any) -> bool:
        rest, named = map_arg((rest, named), lambda n: self.values[n])
        with self.mode, torch.no_grad():
            shown = view(self.values[base], *rest, **named)
        return _place(shown) == _place(value)

    def _in_place(self, node: Node, first: Node) -> None:
        variant = _variant(node.target)
        if variant is None:
            return
        (memory,) = self._memories(first)
        value, target = self.values.get(node), self.values[first]
        if memory in self.inputs or not isinstance(value, torch.Tensor):
            return
        if value.shape != target.shape or value.dtype is not target.dtype or overlaps_itself(*_place(target)[:2]):
            return
        others = [n for n in node.all_input_nodes if n is not first and memory in self._memories(n)]
        if any(_place(self.values[n]) != _place(target) for n in others):
            return
        if not all(self._puts_back(reader, used, node, target, memory) for reader, used in self._read_after(node, memory)):
            return
        node.target = variant
        node.replace_all_uses_with(first, delete_user_cb=lambda user: user is not node)
        self._stand_for(node, first, memory)

    def _puts_back(self, reader: Node, used: Node, node: Node, target: Any, memory: int) -> bool:
        """Whether a later reader of memory does nothing but put what a node gives into it, at the place where that will be."""
        view = _VIEW_OF.get(reader.target)  # type: ignore[arg-type]
        if view is None or reader.args[0] is not used or not isinstance(reader.args[1], Node):
            return False
        shown = self._through_views(reader.args[1], node, target)
        return shown is not None and self._same_place(shown, used, view, reader.args[2:], dict(reader.kwargs))

    def _through_views(self, shown: Node, node: Node, value: Any) -> Any:
        """What a node that is a view of another one, of views of it, shows if that other one's value is this; None for others."""
        if shown is node:
            return value
        if not _is_view(shown) or not isinstance(shown.args[0], Node):
            return None
        behind = self._through_views(shown.args[0], node, value)
        if behind is None:
            return None
        rest, named = map_arg((shown.args[1:], shown.kwargs), lambda n: self.values[n])
        with self.mode, torch.no_grad():
            made = shown.target(behind, *rest, **named)  # type: ignore[operator]
        return made if isinstance(made, torch.Tensor) else None

    def _stand_for(self, node: Node, first: Node, memory: int) -> None:
        """Have a node's value be that of another one, and its views views of that."""
        (own,) = self._memories(node)
        if node.users:
            node.replace_all_uses_with(first)
        self.values[node] = self.values[first]
        if own != memory:
            self.merged[own] = memory
            moved = self.readers.pop(own, [])
            self.readers.setdefault(memory, []).extend([(r, first if used is node else used) for r, used in moved])
        for later in list(self.graph.nodes):
            if later in self.position and self.position[later] > self.position[node] and _is_view(later):
                if any(memory in self._memories(n) for n in later.all_input_nodes):
                    self.values[later] = self._call(later)


def _place(x: Any) -> tuple[Any, Any, int]:
    """Where a tensor lies in its memory."""
    return tuple(x._layout.shape), tuple(x._layout.strides), x._offset


def _variant(operator: Any) -> Any:
    """The operator that writes to its first argument what this one gives; None without."""
    name = operator.overloadpacket.__name__
    if operator.is_view or operator._schema.is_mutable or name in _OTHER or len(operator._schema.returns) != 1:
        return None
    packet = getattr(getattr(torch.ops, operator.namespace), f"{name}_", None)
    if packet is None or operator._overloadname not in packet.overloads():
        return None
    found = getattr(packet, operator._overloadname)
    wanted = [str(a.real_type) for a in operator._schema.arguments]
    return found if [str(a.real_type) for a in found._schema.arguments] == wanted else None
