"""Putting nodes that belong together into a submodule, which takes their place in the graph.

Stands on passes.utils.common and passes.tools_common; used by passes.infra.partitioner.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.tools_common import legalize_graph
from flambeau.fx.passes.utils.common import lift_subgraph_as_module

__all__ = ["erase_nodes", "fuse_as_graphmodule", "fuse_by_partitions", "insert_subgm", "topo_sort", "validate_partition"]


def topo_sort(nodes: Sequence[Node]) -> list[Node]:
    """The nodes in an order in which each stands behind those of them that it uses. Raises AssertionError for a circle."""
    waiting = {node: sum(n in set(nodes) for n in node.all_input_nodes) for node in nodes}
    ready = [node for node in nodes if not waiting[node]]
    order: list[Node] = []
    while ready:
        node = ready.pop(0)
        order.append(node)
        for user in node.users:
            if user in waiting:
                waiting[user] -= 1
                if not waiting[user]:
                    ready.append(user)
    if len(order) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return order


def validate_partition(partition: Sequence[Node]) -> bool:
    """Whether the nodes can be one: nothing that they give comes back to them through others."""
    own = set(partition)
    seen: set[Node] = set()
    waiting = [user for node in partition for user in node.users if user not in own]
    while waiting:
        node = waiting.pop()
        if node in own:
            return False
        if node not in seen:
            seen.add(node)
            waiting += list(node.users)
    return True


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: Sequence[Node],
    module_name: str,
    partition_lookup_table: Mapping[Node, Any] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """A module of some nodes of `gm`, with the nodes whose values it takes, and those whose values it returns."""
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    own = set(nodes)
    graph = Graph()
    inputs: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}

    def value(node: Node) -> Node:
        if node in own:
            return copies[node]
        if node not in inputs:
            inputs[node] = graph.placeholder(node.name, type_expr=node.type)
            inputs[node].meta = node.meta.copy()
        return inputs[node]

    for node in nodes:
        copies[node] = graph.node_copy(node, value)
    outputs = tuple(node for node in nodes if any(user not in own for user in node.users))
    results = tuple(copies[node] for node in outputs)
    graph.output(results if always_return_tuple or len(results) != 1 else results[0])
    graph.lint()
    made, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return made, tuple(inputs), outputs


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Put a module from fuse_as_graphmodule into the graph; what used the original nodes uses its results."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    place = insertion_point or max(orig_outputs)
    with gm.graph.inserting_after(place):
        called = gm.graph.call_module(name, args=orig_inputs)
    returned = sub_gm.graph.output_node().args[0]
    if isinstance(returned, Node):
        orig_outputs[0].replace_all_uses_with(called, propagate_meta=True)
        return gm
    where = called
    for i, node in enumerate(orig_outputs):
        with gm.graph.inserting_after(where):
            item = gm.graph.call_function(operator.getitem, (called, i))
        where = item
        node.replace_all_uses_with(item, propagate_meta=True)
    return gm


def erase_nodes(gm: GraphModule, nodes: Sequence[Node]) -> None:
    """Take nodes out of the graph, the last first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule, partitions: Sequence[Mapping[Node, Any]], prefix: str = "fused_", always_return_tuple: bool = False
) -> GraphModule:
    """Put each partition, a dict whose keys are nodes, into a submodule `<prefix><number>`."""
    for number, partition in enumerate(partitions):
        nodes = topo_sort(sorted(partition))
        made, inputs, outputs = fuse_as_graphmodule(gm, nodes, f"{prefix}{number}", always_return_tuple=always_return_tuple)
        insert_subgm(gm, made, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    return legalize_graph(gm)
