"""Replacing every place where a graph does what a pattern does by what a replacement does.

Stands on passes.utils.matcher_utils.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from flambeau.fx._symbolic_trace import symbolic_trace
from flambeau.fx.attributes import _has_attr
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from flambeau.nn import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

Pattern = Callable[..., Any] | Graph | GraphModule
Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """One place where the pattern was: its last node, and the graph's nodes by the pattern's."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """One place where the pattern was, and the nodes that are there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Put `replacement` wherever `gm` does what `pattern` does; both take the same inputs, and return as much.

    Matches go by data flow, not by names, don't overlap, and are replaced in the graph's order. Returns the matches.
    """
    return [Match(anchor=m.anchor, nodes_map=m.nodes_map) for m in _replace_pattern(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None = None,
    match_filters: list[Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """replace_pattern for the matches for which all filters(match, graph, pattern) hold.

    replacement_callback(match, graph, pattern) gives the replacement of each match; ignore_literals as in SubgraphMatcher.
    """
    return _replace_pattern(gm, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match)


def _graph_of(pattern: Pattern) -> Graph:
    if isinstance(pattern, GraphModule):
        return pattern.graph
    return pattern if isinstance(pattern, Graph) else symbolic_trace(pattern).graph


def _replace_pattern(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None = None,
    match_filters: list[Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    filters = match_filters or []
    matches = [
        match for match in matcher.match(graph, node_name_match) if all(holds(match, graph, pattern_graph) for holds in filters)
    ]
    common = _graph_of(replacement) if replacement is not None else None
    if common is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    replaced: dict[Node, Node] = {}
    done = []
    for match in matches:
        new = common if common is not None else replacement_callback(match, graph, pattern_graph)  # type: ignore[misc]
        done.append(_replace_one(graph, pattern_graph, match, new, replaced))
    gm.recompile()
    if isinstance(replacement, Module):
        _replace_attributes(gm, replacement)
    return done


def _replace_one(
    graph: Graph, pattern_graph: Graph, match: InternalMatch, new: Graph, replaced: dict[Node, Node]
) -> ReplacedPatterns:
    inputs = [n for n in new.nodes if n.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(
            f"Length mismatch: {len(match.placeholder_nodes)} placeholder nodes in match, {len(inputs)} in replacement"
        )
    values: dict[Node, Any] = {}
    for place, (own, given) in enumerate(zip(inputs, match.placeholder_nodes)):
        if isinstance(given, Node):
            current = replaced.get(given, given)
            if current is not given:  # an earlier match made it
                match.placeholder_nodes[place] = current
                for key, value in match.nodes_map.items():
                    if value is given:
                        match.nodes_map[key] = current
            values[own] = current
        else:
            values[own] = given
    with graph.inserting_before(_insert_point(match)):
        made: Any = graph.graph_copy(new, values)
    results = (made,) if isinstance(made, Node) else tuple(made)
    given_nodes = match.placeholder_nodes
    new_nodes = [n for n in values.values() if isinstance(n, Node) and not any(n is given for given in given_nodes)]
    if len(match.returning_nodes) != len(results):
        raise AssertionError(f"Length mismatch: {len(match.returning_nodes)} returning nodes, {len(results)} copied")
    for old, result in zip(match.returning_nodes, results):
        old.replace_all_uses_with(result)
        replaced[old] = result
    for node in reversed(pattern_graph.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(anchor=match.anchors[0], nodes_map=match.nodes_map, replacements=new_nodes)


def _insert_point(match: InternalMatch) -> Node:
    """In front of the first user of what the match returns, but behind all that it takes."""
    users = [user for node in match.returning_nodes for user in node.users]
    if not users or any(node in match.placeholder_nodes for node in match.returning_nodes):
        raise AssertionError("The insert point can't be None")
    first = min(users)
    taken = [node for node in match.placeholder_nodes if isinstance(node, Node)]
    last = max(taken) if taken else None
    return last.next if last is not None and last > first else first


def _replace_attributes(gm: GraphModule, replacement: Module) -> None:
    """Take what the replacement's nodes name, and the module lacks, from the replacement."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        path = str(node.target)
        if _has_attr(gm, path):
            continue
        if not _has_attr(replacement, path):
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {path}, but the referenced '
                "attribute does not exist in the replacement GraphModule"
            )
        prefix, _, name = path.rpartition(".")
        value = copy.deepcopy(getattr(replacement.get_submodule(prefix), name))
        owner: Any = gm
        for part in prefix.split(".") if prefix else ():
            if not hasattr(owner, part):
                setattr(owner, part, Module())
            owner = getattr(owner, part)
        setattr(owner, name, value)
    gm.graph.lint()
