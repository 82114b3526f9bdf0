"""Where patterns of a backend are in a graph, seen from the last node. Stands on fx's nodes; used by fuse and prepare.

A pattern is a class of modules, a function or the name of a method, or a tuple of one and the patterns of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flambeau.ao.quantization.utils import MatchAllNode, type_before_parametrizations
from flambeau.fx import Graph, Node
from flambeau.nn import Module

__all__ = ["Match", "find_matches", "sorted_by_size"]


@dataclass
class Match:
    """A place where a pattern is: `nodes` maps the shape of the pattern to nodes, `root` is the first node, `last` the last."""

    pattern: Any
    last: Node
    nodes: Any
    standalone: bool = False
    custom: bool = False
    flat: list[Node] = field(default_factory=list)

    @property
    def root(self) -> Node:
        """The node of the pattern that is called first."""
        return root_node(self.nodes)


def root_node(nodes: Any) -> Node:
    """The first node of a match: of a tuple, that of its last part that isn't matched by anything."""
    while not isinstance(nodes, Node):
        nodes = nodes[-1]
    return nodes


def default_root_node_getter(node_pattern: Any) -> Any:
    """The node with the weight in a match, where the backend doesn't say otherwise."""
    while not isinstance(node_pattern, Node):
        node_pattern = node_pattern[-1]
    return node_pattern


def pattern_size(pattern: Any) -> int:
    """How many nodes a pattern has."""
    return sum(map(pattern_size, pattern)) if isinstance(pattern, tuple) else 1


def sorted_by_size(table: dict[Any, Any]) -> dict[Any, Any]:
    """A table by pattern with the larger patterns first, else in its order."""
    return dict(sorted(table.items(), key=lambda item: -pattern_size(item[0])))


def _is_one(modules: dict[str, Any], node: Node, pattern: Any) -> bool:
    if isinstance(pattern, type) and issubclass(pattern, Module):
        return (
            node.op == "call_module"
            and node.target in modules
            and type_before_parametrizations(modules[str(node.target)]) is pattern
        )
    if isinstance(pattern, str):
        return node.op == "call_method" and node.target == pattern
    return callable(pattern) and node.op == "call_function" and node.target is pattern


def _is_match(modules: dict[str, Any], node: Any, pattern: Any, max_uses: float = float("inf")) -> bool:
    """Whether a pattern ends at a node; only its last node may be used by others."""
    if pattern is MatchAllNode or (isinstance(pattern, type) and issubclass(pattern, MatchAllNode)):
        return True
    own, arguments = (pattern[0], pattern[1:]) if isinstance(pattern, tuple) else (pattern, ())
    if isinstance(own, type) and issubclass(own, MatchAllNode):
        return True
    if not isinstance(node, Node) or len(node.users) > max_uses or not _is_one(modules, node, own):
        return False
    if own is getattr:
        return len(node.args) == 2 and node.args[1] == arguments[1]
    if not arguments:
        return True
    if len(arguments) != len(node.args) and not (len(arguments) == 1 and len(node.args) >= 1 and _takes_one(node)):
        return False
    return all(_is_match(modules, given, each, 1) for given, each in zip(node.args, arguments))


def _takes_one(node: Node) -> bool:
    """Whether the arguments after the first are numbers and flags."""
    return not any(isinstance(each, Node) for each in node.args[1:])


def _collect(node: Any, pattern: Any, modules: dict[str, Any]) -> Any:
    """The nodes of a match in the shape of the pattern."""
    if not isinstance(pattern, tuple):
        return node
    return (node, *(_collect(given, each, modules) for given, each in zip(node.args, pattern[1:])))


def _flat(nodes: Any, pattern: Any) -> Iterator[Node]:
    if isinstance(pattern, tuple):
        yield nodes[0]
        for given, each in zip(nodes[1:], pattern[1:]):
            yield from _flat(given, each)
    elif not (isinstance(pattern, type) and issubclass(pattern, MatchAllNode)) and isinstance(nodes, Node):
        yield nodes


def find_matches(
    graph: Graph,
    modules: dict[str, Any],
    patterns: list[Any],
    root_getters: dict[Any, Any] | None = None,
    standalone: tuple[Any, Any] = ((), ()),
    custom: tuple[type, ...] = (),
) -> dict[str, Match]:
    """The match of each node that is in one, by name; patterns are tried in order, nodes from the end."""
    found: dict[str, Match] = {}
    for node in reversed(graph.nodes):
        if node.name in found or node.op in ("placeholder", "output", "get_attr"):
            continue
        for pattern in patterns:
            if not _is_match(modules, node, pattern):
                continue
            nodes = _collect(node, pattern, modules)
            flat = list(_flat(nodes, pattern))
            if any(each.name in found for each in flat):
                continue
            match = Match(pattern, node, nodes, flat=flat)
            for each in flat:
                found[each.name] = match
            break
    names, classes = standalone
    for node in graph.nodes:
        if node.op != "call_module" or node.target not in modules:
            continue
        kind = type_before_parametrizations(modules[str(node.target)])
        if node.target in names or kind in classes:
            found[node.name] = Match(None, node, node, standalone=True, flat=[node])
        elif kind in custom:
            found[node.name] = Match(None, node, node, custom=True, flat=[node])
    return found
