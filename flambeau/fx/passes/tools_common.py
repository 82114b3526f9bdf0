"""Small tools of the passes: targets of nodes, and orders of graphs."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

import flambeau as torch
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.names import _get_qualified_name, shown_type
from flambeau.fx.node import Node
from flambeau.nn import Module

__all__ = [
    "FxNetAccFusionsFinder",
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

Tensors = tuple[torch.Tensor] | list[torch.Tensor]
TensorOrTensors = torch.Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: Any) -> str:
    """The name under which an operator is shown."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return f"{k.__module__.replace('torch._ops', 'torch.ops') if k.__module__ else ''}.{k.__name__}"


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """What a node calls as a text: the class of a submodule, the name of a function or method."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}")
    if node.op == "call_module":
        module = submodules[str(node.target)]
        return shown_type(getattr(module, "_base_class_origin", type(module)))
    if node.op == "call_function":
        assert callable(node.target)
        return _get_qualified_name(node.target)
    return str(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """Whether a node's value is a tensor, as ShapeProp found."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, torch.Tensor)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Put the nodes of a module in an order in which each stands behind what it uses. Raises RuntimeError for a circle."""
    return _sorted(gm, False)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """legalize_graph, with the nodes as near to their places as can be."""
    return _sorted(gm, True)


def _sorted(gm: GraphModule, stable: bool) -> GraphModule:
    nodes = list(gm.graph.nodes)
    missing = {node: len(node.all_input_nodes) for node in nodes}
    place = {node: i for i, node in enumerate(nodes)}
    ready = collections.deque(node for node in nodes if not missing[node])
    done: list[Node] = []
    while ready:
        node = min(ready, key=place.__getitem__) if stable else ready[0]
        ready.remove(node)
        done.append(node)
        for user in node.users:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    if len(done) < len(nodes):
        raise RuntimeError(f"Input graph has cycles, unable to add {[node for node in missing if missing[node]]}")
    done.sort(key=lambda node: node.op == "output")
    graph = Graph(tracer_cls=gm.graph._tracer_cls)
    made: dict[Node, Node] = {}
    for node in done:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


class FxNetAccFusionsFinder:
    """The groups of a backend's nodes that stay together, because values that are no tensors pass between them."""

    def __init__(self, module: GraphModule, acc_nodes: NodeSet) -> None:
        self.module, self.acc_nodes = module, acc_nodes

    def __call__(self) -> dict[Node, NodeSet]:
        """For each node of a group the group, of which it is one."""
        found: dict[Node, NodeSet] = {}
        for node in self.module.graph.nodes:
            if node in self.acc_nodes and node not in found and not is_node_output_tensor(node):
                group = self._together(node)
                for other in [found[member] for member in group if member in found]:
                    group |= other
                found.update(dict.fromkeys(group, group))
        return {node: found[node] for node in self.module.graph.nodes if node in found}

    def _together(self, node: Node) -> NodeSet:
        group: NodeSet = set()
        waiting = [node]
        while waiting:
            member = waiting.pop()
            if member in group:
                continue
            group.add(member)
            if not is_node_output_tensor(member):
                waiting += [user for user in member.users if user in self.acc_nodes]
            waiting += [n for n in member.all_input_nodes if n in self.acc_nodes and not is_node_output_tensor(n)]
        return group | self._between(group)

    def _between(self, group: NodeSet) -> NodeSet:
        """The nodes on the ways from one of the group to another."""
        behind, before = set(group), set(group)
        for node in self.module.graph.nodes:
            if any(n in behind for n in node.all_input_nodes):
                behind.add(node)
        for node in reversed(self.module.graph.nodes):
            if any(user in before for user in node.users):
                before.add(node)
        return behind & before & self.acc_nodes
