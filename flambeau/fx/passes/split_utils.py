"""Cutting a module in pieces by the attribute `tag` of its nodes. Stands on passes.utils.common."""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass, field
from typing import Any

from flambeau.fx.attributes import _assign_attr, _get_attr
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.fx.passes.tools_common import CALLABLE_NODE_OPS
from flambeau.fx.passes.utils.common import HolderModule, lift_subgraph_as_module

__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj: Any, name: str) -> Any:
    """The value at a dotted path; None if there is none."""
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Put a value at a dotted path."""
    if "." in attr:
        owner, _, attr = attr.rpartition(".")
        obj = _get_attr(obj, owner)
    setattr(obj, attr, value)


@dataclass
class Component:
    """One piece: its graph, what it takes and gives in the original graph, and the module made of it."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> Any:
    """A module with one submodule per tag, which holds the nodes whose `tag` it is; `tags` are in the order of the calls.

    return_fqn_mapping: also the names of attributes in the original by those in the pieces; return_tuple: pieces return
    tuples even of one value.
    """
    components = {tag: Component(Graph(), order, tag) for order, tag in enumerate(tags)}
    of_node: dict[Node, Component] = {}
    copies: dict[Node, Node] = {}
    outer = Graph()
    values: dict[Node, Node] = {}
    output = None
    for node in gm.graph.nodes:
        if node.op == "output":
            output = node
        elif node.op == "placeholder":
            values[node] = outer.placeholder(str(node.target), type_expr=node.type)
            values[node].meta = copy.copy(node.meta)
        elif node.op == "get_attr":
            continue
        else:
            if not hasattr(node, "tag"):
                raise AssertionError(f"Node {node} does not have a tag")
            _copy_to(components[node.tag], node, of_node, copies, values)
    if output is None:
        raise RuntimeError("Graph had no output node!")
    for used in output.all_input_nodes:
        if used in of_node and used not in of_node[used].orig_outputs:
            of_node[used].orig_outputs.append(used)
    mapping: dict[str, str] = {}
    root = HolderModule({})
    for tag in tags:
        component = components[tag]
        results = tuple(copies[node] for node in component.orig_outputs)
        several = return_tuple or len(results) != 1
        if results:
            component.graph.output(results if several else results[0])
        made, names = lift_subgraph_as_module(gm, component.graph, component.name)
        component.gm = made
        mapping.update({value: key for key, value in names.items()})
        root.add_module(component.name, made)
        called = outer.call_module(component.name, tuple(values[node] for node in component.orig_inputs))
        for place, node in enumerate(component.orig_outputs):
            values[node] = outer.call_function(operator.getitem, (called, place)) if several else called

    def result(node: Node) -> Node:
        if node not in values:
            values[node] = outer.get_attr(str(node.target))
            _assign_attr(_get_attr(gm, str(node.target)), root, str(node.target))
        return values[node]

    outer.output(map_arg(output.args[0], result))
    made = GraphModuleCls(root, outer)
    return (made, mapping) if return_fqn_mapping else made


def _copy_to(
    component: Component, node: Node, of_node: dict[Node, Component], copies: dict[Node, Node], values: dict[Node, Node]
) -> None:
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expected node op in {CALLABLE_NODE_OPS}, got {node.op}")

    def here(used: Node) -> Node:
        if used.op == "get_attr":
            if used not in component.getattr_maps:
                component.getattr_maps[used] = component.graph.get_attr(str(used.target), type_expr=used.type)
            return component.getattr_maps[used]
        if of_node.get(used) is component:
            return copies[used]
        if used not in component.orig_inputs:
            component.orig_inputs.append(used)
            made = component.graph.placeholder(used.name, type_expr=used.type)
            made.meta = copy.copy(used.meta)
            component.input_placeholders.append(made)
            if used in of_node and used not in of_node[used].orig_outputs:
                of_node[used].orig_outputs.append(used)
        return component.input_placeholders[component.orig_inputs.index(used)]

    of_node[node] = component
    copies[node] = component.graph.node_copy(node, here)


def move_non_tensor_nodes_on_boundary(subgraphs: list[Any]) -> None:
    """Raises NotImplementedError: it belongs to splitters for accelerators."""
    raise NotImplementedError(
        "torch.fx.passes.split_utils.move_non_tensor_nodes_on_boundary is not implemented in flambeau: use split_by_tags"
    )
