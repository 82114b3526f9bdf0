"""Looking through the nodes of a graph, splitting a graph at some of them, and putting a part back.

Stands on fx.passes.split_module; `torch._export.utils` is the name for programs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.fx.passes.split_module import split_module

__all__ = ["node_inline_", "nodes_count", "nodes_filter", "nodes_first", "nodes_map", "sequential_split"]


def nodes_filter(nodes: Iterable[Node], node_call_back: Callable[[Node], Any]) -> list[Node]:
    """The nodes for which it holds."""
    return [node for node in nodes if node_call_back(node)]


def nodes_first(nodes: Iterable[Node], node_call_back: Callable[[Node], Any] | None = None) -> Node | None:
    """The first node for which it holds, or of all; None without one."""
    return next((node for node in nodes if node_call_back is None or node_call_back(node)), None)


def nodes_count(nodes: Iterable[Node], node_call_back: Callable[[Node], Any]) -> int:
    """For how many nodes it holds."""
    return len(nodes_filter(nodes, node_call_back))


def nodes_map(nodes: Iterable[Node], node_call_back: Callable[[Node], Any]) -> Iterable[Node]:
    """Call it with each node in turn; the nodes themselves."""
    for node in nodes:
        node_call_back(node)
    return nodes


def sequential_split(gm: GraphModule, node_call_back: Callable[[Node], Any]) -> GraphModule:
    """A module whose submodules `submod_<k>` are the stretches of a graph; each begins at a node for which it holds."""
    at = 0
    part: dict[Node, int] = {}
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "output", "get_attr"):
            at += bool(node_call_back(node))
            part[node] = at
    return split_module(gm, gm, lambda node: part[node], keep_original_order=True, keep_original_node_name=True)


def node_inline_(call_mod_node: Node) -> GraphModule | None:
    """Put the nodes of the graph module that a node calls in its place. AssertionError for another node."""
    if call_mod_node.op != "call_module":
        raise AssertionError(f"a call of a module was expected, not {call_mod_node.op} of {call_mod_node.target}")
    graph, name = call_mod_node.graph, str(call_mod_node.target)
    parent = graph.owning_module
    called = parent.get_submodule(name)
    given = iter(call_mod_node.args)
    inner: dict[Node, Any] = {}
    with graph.inserting_before(call_mod_node):
        for node in called.graph.nodes:
            if node.op == "placeholder":
                inner[node] = next(given)
            elif node.op == "output":
                _put(call_mod_node, map_arg(node.args[0], inner.__getitem__))
            else:
                inner[node] = graph.node_copy(node, inner.__getitem__)
    graph.erase_node(call_mod_node)
    parent.delete_submodule(name)
    parent.recompile()
    return parent  # type: ignore[no-any-return]


def _put(node: Node, results: Any) -> None:
    """Results in the place of what a node gives, or of the parts that are taken of it."""
    if isinstance(results, Node):
        node.replace_all_uses_with(results)
        return
    for user in list(node.users):
        if user.target is not operator.getitem:
            raise AssertionError(f"{user.name} uses several results of {node.name} together")
        user.replace_all_uses_with(results[user.args[1]])
        user.graph.erase_node(user)
