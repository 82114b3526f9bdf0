"""Cutting a module in pieces by a function of its nodes: each piece becomes a submodule, and a new graph calls them.

Stands on fx.graph_module and passes.pieces.
"""

from __future__ import annotations

import logging
import operator
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau.fx.attributes import _get_attr
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.nn import Module

__all__ = ["Partition", "split_module"]

log = logging.getLogger(__name__)


class Partition:
    """The nodes of one piece, what it takes and gives, and the pieces that it depends on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n "
            f"partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module whose submodules `submod_<k>` hold the nodes for which split_callback(node) is k.

    qualname_map gets the names of attributes in the pieces by those in root_m; keep_original_order: pieces are called in the
    order of their first nodes, not by what they need of each other; keep_original_node_name, keep_original_input_name: what
    nodes and inputs of pieces are called; partition_affix: stands between submod_ and the number; tuple_return: pieces return
    tuples even of one value. Raises RuntimeError where pieces need each other in a circle.
    """
    names = f"{partition_affix}_" if partition_affix else ""
    partitions: dict[str, Partition] = OrderedDict()
    of_node: dict[Node, str] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = f"{names}{split_callback(node)}"
        partitions.setdefault(name, Partition(name)).node_names.append(node.name)
        of_node[node] = name
    for node in m.graph.nodes:
        _note_uses(node, partitions, of_node)
    order = list(partitions) if keep_original_order else _in_order_of_need(partitions)
    by_name = {node.name: node for node in m.graph.nodes}
    for partition in partitions.values():
        for name in partition.inputs:
            given = by_name[name]
            made = partition.graph.placeholder(name if keep_original_input_name else f"arg_{len(partition.environment)}")
            made.type = given.type
            made.meta = given.meta.copy()
            partition.environment[given] = made
    for node in m.graph.nodes:
        if node in of_node:
            _copy_node(m, node, partitions[of_node[node]], bool(keep_original_node_name), qualname_map)
    return _stitch(m, partitions, order, bool(keep_original_order), tuple_return, by_name)


def _note_uses(node: Node, partitions: dict[str, Partition], of_node: dict[Node, str]) -> None:
    here = of_node.get(node)
    for used in node.all_input_nodes:
        there = of_node.get(used)
        if here == there:
            continue
        if there is not None:
            partitions[there].outputs.setdefault(used.name)
        if here is not None:
            partitions[here].inputs.setdefault(used.name)
            if there is not None:
                partitions[there].dependents.setdefault(here)
                partitions[here].dependencies.setdefault(there)


def _in_order_of_need(partitions: dict[str, Partition]) -> list[str]:
    """Pieces behind all that they need. Raises RuntimeError where there is no such order."""
    order: list[str] = []
    missing = {name: set(partition.dependencies) for name, partition in partitions.items()}
    ready = [name for name, needs in missing.items() if not needs]
    while ready:
        name = ready.pop(0)
        order.append(name)
        for dependent in partitions[name].dependents:
            missing[dependent].discard(name)
            if not missing[dependent]:
                ready.append(dependent)
    if len(order) != len(partitions):
        raise RuntimeError("cycle exists between partitions!")
    return order


def _copy_node(m: GraphModule, node: Node, partition: Partition, keep_name: bool, qualname_map: dict[str, str] | None) -> None:
    environment = partition.environment
    args = map_arg(node.args, lambda n: environment[n])
    kwargs = map_arg(node.kwargs, lambda n: environment[n])
    target: Any = node.target
    if node.op == "call_module":
        target = str(node.target).replace(".", "_")
        partition.targets[target] = _get_attr(m, str(node.target))
        if qualname_map is not None:
            qualname_map[f"{partition.submod_name}.{target}"] = str(node.target)
    made = partition.graph.create_node(node.op, target, args, kwargs, name=node.name if keep_name else None, type_expr=node.type)
    made.meta = node.meta.copy()
    environment[node] = made


def _stitch(
    m: GraphModule,
    partitions: dict[str, Partition],
    order: list[str],
    as_written: bool,
    tuple_return: bool,
    by_name: dict[str, Node],
) -> GraphModule:
    """The module that calls the pieces in order."""
    graph = Graph()
    values: dict[Node, Node] = {}
    attributes: dict[str, Any] = {}

    def bring(node: Node) -> None:
        """An input or attribute of the whole module."""
        if node.op == "placeholder":
            default = {"default_value": node.args[0]} if node.args else {}
            values[node] = graph.placeholder(str(node.target), type_expr=node.type, **default)
        else:
            values[node] = graph.get_attr(str(node.target))
            attributes[str(node.target)] = _get_attr(m, str(node.target))
        values[node].meta = node.meta.copy()

    for node in m.graph.nodes:
        if node.op == "placeholder" or (node.op == "get_attr" and not as_written):
            bring(node)
    for name in order:
        partition = partitions[name]
        results = [partition.environment[by_name[n]] for n in partition.outputs]
        several = tuple_return or len(results) != 1
        if results:
            partition.graph.output(tuple(results) if several else results[0])
        attributes[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        for given in partition.inputs:
            if by_name[given] not in values:
                bring(by_name[given])
        called = graph.call_module(partition.submod_name, tuple(values[by_name[given]] for given in partition.inputs))
        for place, given in enumerate(partition.outputs):
            values[by_name[given]] = graph.call_function(operator.getitem, (called, place)) if several else called
    for node in m.graph.nodes:
        if node.op == "output":
            for used in node.all_input_nodes:
                if used not in values:
                    bring(used)
            graph.output(map_arg(node.args[0], lambda n: values[n]), type_expr=node.type)
    made = GraphModule(attributes, graph)
    made.meta = m.meta.copy()
    return made
