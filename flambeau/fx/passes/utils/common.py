"""Modules of subgraphs, and comparing graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flambeau as torch
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
from flambeau.nn import Module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module with the given submodules."""

    def __init__(self, d: Mapping[str, Module]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A module for a graph of nodes copied from `gm`, and the names of its attributes by those in `gm`."""
    holder = HolderModule({})
    names: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        *prefix, field = target.split(".")
        source: Any = gm
        destination: Any = holder
        for part in prefix:
            source = getattr(source, part)
            if not hasattr(destination, part):
                destination.add_module(part, HolderModule({}))
            destination = getattr(destination, part)
        value = getattr(source, field)
        if node.op == "get_attr" and isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            destination.register_buffer(field, value)
        else:
            setattr(destination, field, value)
        names[f"{comp_name}.{target}" if comp_name else target] = target
    return GraphModule(holder, subgraph, class_name), names


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs do the same."""
    return len(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right)) > 0
