"""Nodes by what they were made of: the modules and functions in `meta["source_fn_stack"]`.."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The nodes that one call of a module or function made: what they take, what others take of them, their parameters."""

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """For each wanted source that is found its partitions; with filter_fn only those all of whose nodes it accepts."""
    groups: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        stack = node.meta.get("source_fn_stack")
        if stack and stack[-1][1] in wanted_sources:
            name, source = stack[-1]
        elif "torch_fn" in node.meta and node.meta["torch_fn"][1].split(".")[-1] in wanted_sources:
            name, path = node.meta["torch_fn"]
            source = path.split(".")[-1]
        else:
            continue
        groups.setdefault(source, {}).setdefault(name, []).append(node)
    found = {source: [_partition(nodes, source) for nodes in named.values()] for source, named in groups.items()}
    if filter_fn is None:
        return found
    return {s: [p for p in parts if all(map(filter_fn, p.nodes))] for s, parts in found.items()}


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    inputs = dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in nodes)
    return SourcePartition(
        nodes,
        source,
        list(inputs),
        [node for node in nodes if any(user not in nodes for user in node.users)],
        [node for node in nodes if node.op == "get_attr"],
    )


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second takes something of the first."""
    return any(user in subgraph2.nodes for node in subgraph1.nodes for user in node.users)
