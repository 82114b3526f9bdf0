"""Whether a graph is well formed: what Graph.lint checks. Stands on fx.node."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

import flambeau as torch
from flambeau.fx.node import Node, map_arg

if TYPE_CHECKING:
    from flambeau.fx.graph import Graph


def lint(graph: Graph) -> None:
    """Raise RuntimeError for the first thing that is wrong with a graph."""
    seen_names: set[str] = set()
    seen: set[Node] = set()
    for node in graph.nodes:
        if node.op not in ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output"):
            raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
        if node.graph is not graph:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
        map_arg((node.args, node.kwargs), functools.partial(_check_use, graph, node, seen))
        seen.add(node)
        if node.name in seen_names:
            raise RuntimeError(f"Node redefined name {node.name}!")
        seen_names.add(node.name)
    if graph.owning_module is not None:
        for node in graph.nodes:
            _check_target(graph.owning_module, node)


def _check_use(graph: Graph, by: Node, seen: set[Node], used: Node) -> Node:
    if used.graph is not graph:
        raise RuntimeError(
            f"Argument '{used}' of Node '{by}' does not belong to this Graph, but was used as an argument! If you are "
            "copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n"
            f"{graph}"
        )
    if used not in seen:
        raise RuntimeError(
            f"Argument '{used}' of Node '{by}' was used before it has been defined! Please check that Nodes in the graph "
            f"are topologically ordered\n{graph}"
        )
    return used


def _check_target(module: Any, node: Node) -> None:
    if node.op == "call_function":
        if not callable(node.target):
            raise ValueError(
                f"Node {node} target {node.target} has type {torch.typename(node.target)} but a Callable is expected"
            )
        return
    if not isinstance(node.target, str):
        raise ValueError(f"Node {node} target {node.target} has type {torch.typename(node.target)} but a str is expected")
    if node.op not in ("get_attr", "call_module"):
        return
    reached: Any = module
    parts = node.target.split(".")
    for i, part in enumerate(parts):
        if not hasattr(reached, part):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of {'.'.join(parts[:i])}"
            )
        value = getattr(reached, part)
        if i == len(parts) - 1:
            kinds = (torch.nn.Module, torch.nn.Parameter)
            if node.op == "call_module" and not isinstance(value, torch.nn.Module):
                raise RuntimeError(
                    f"Node {node} target {node.target} {part} of {'.'.join(parts[:i])} does not reference an nn.Module"
                )
            if node.op == "get_attr" and not isinstance(value, kinds) and part not in reached._buffers:
                warnings.warn(
                    f"Node {node} target {node.target} {part} of {'.'.join(parts[:i])} does not reference an nn.Module, "
                    "nn.Parameter, or buffer, which is what 'get_attr' Nodes typically target",
                    stacklevel=4,
                )
        reached = value
