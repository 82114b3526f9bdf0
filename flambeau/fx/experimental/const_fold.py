"""What a module computes of its own parameters alone, computed once: `split_const_subgraphs(module)`.

Stands on passes.split_module; used by programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.fx._symbolic_trace import symbolic_trace
from flambeau.fx.attributes import _assign_attr, _get_attr
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.fx.passes.split_module import split_module
from flambeau.nn import Module, Parameter, ParameterList

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A module whose first call, or run_folding(), runs `const_subgraph_module`, and keeps what that gives as parameters."""

    def __init__(
        self,
        root: Module,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args)

    def run_folding(self) -> None:
        """Compute the parameters. AssertionError if they were."""
        name = self.fx_const_folded_attrs_name
        if self.const_subgraph_module is None or name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        made = self.const_subgraph_module()
        setattr(self, name, ParameterList(map(self._kept, made)) if isinstance(made, tuple) else self._kept(made))

    def _kept(self, value: Any) -> Parameter:
        if not isinstance(value, torch.Tensor):
            return Parameter(torch.Tensor([value]).to(device=self.device_for_folded_attrs), requires_grad=False)
        return Parameter(value.detach().clone(), requires_grad=value.requires_grad)


def get_unique_attr_name_in_module(mod_traced: Module, name: str) -> str:
    """A name like `name` that the module has no attribute of: with a number behind where it has."""
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        found = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if found is None else f"{found[1]}_{int(found[2]) + 1}"
    return name


def split_const_subgraphs(
    module: Module | GraphModule, skip_folding_node_fn: Callable[[Node], bool] | None = None, device_for_folded_attrs: str = "cpu"
) -> FoldedGraphModule:
    """The module, with what depends on no input in a module of its own that is run once.

    skip_folding_node_fn(node): whether a node is left where it is.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constant_nodes(traced, skip_folding_node_fn)
    if all(node.op == "get_attr" for node in constant):
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda node: 0 if node in constant else 1)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    call = next(node for node in split.graph.nodes if node.op == "call_module" and node.target == "submod_0")
    folded = split.submod_0
    _read_attributes(split, call, folded)
    result = folded.graph.output_node().args[0]
    several = isinstance(result, tuple)
    setattr(split, name, ParameterList() if several else Parameter())
    with split.graph.inserting_before(call):
        held = split.graph.get_attr(name)
    held.meta = dict(result.meta if isinstance(result, Node) else call.meta)
    call.replace_all_uses_with(held)
    split.graph.erase_node(call)
    _inline_module(split, "submod_1")
    for node in folded.graph.find_nodes(op="call_module"):
        _assign_attr(_get_attr(folded, str(node.target)), split, str(node.target))
    split.graph.lint()
    return FoldedGraphModule(split, split.graph, folded.graph, name, device_for_folded_attrs)


def _constant_nodes(module: GraphModule, skip: Callable[[Node], bool] | None) -> set[Node]:
    """The nodes that depend on no input, and have no effect."""
    found: set[Node] = set()
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output") or not set(node.all_input_nodes) <= found:
            continue
        if (skip is None or not skip(node)) and not node.is_impure():
            found.add(node)
    return found


def _read_attributes(split: GraphModule, call: Node, folded: GraphModule) -> None:
    """Have the folded part read the attributes that it is given."""
    for placeholder, given in zip(folded.graph.find_nodes(op="placeholder"), call.args):
        if not isinstance(given, Node) or given.op != "get_attr":
            raise AssertionError(f"Expected get_attr node, got {given}")
        path = str(given.target)
        _assign_attr(_get_attr(split, path), folded, path)
        with folded.graph.inserting_before(placeholder):
            read = folded.graph.get_attr(path)
        read.meta = dict(placeholder.meta)
        placeholder.replace_all_uses_with(read)
        folded.graph.erase_node(placeholder)
    call.args = ()
    for node in list(split.graph.find_nodes(op="get_attr")):
        if not node.users:
            split.graph.erase_node(node)
    folded.recompile()


def _inline_module(gm: GraphModule, inline_mod_name: str) -> None:
    """Put the nodes of a submodule in the place of its call."""
    inner = gm.get_submodule(inline_mod_name)
    if not isinstance(inner, GraphModule):
        raise AssertionError(f"Expected GraphModule, got {type(inner)}")
    call = next((n for n in gm.graph.nodes if n.op == "call_module" and n.target == inline_mod_name), None)
    if call is None:
        raise AssertionError(f"Could not find call to {inline_mod_name}")
    given = iter(call.args)
    copies: dict[Node, Any] = {}
    for node in inner.graph.nodes:
        if node.op == "placeholder":
            copies[node] = next(given, node.args[0] if node.args else None)
        elif node.op == "output":
            _replace_result(gm, call, map_arg(node.args[0], lambda n: copies[n]))
        else:
            with gm.graph.inserting_before(call):
                copies[node] = gm.graph.node_copy(node, lambda n: copies[n])
            if node.op in ("get_attr", "call_module"):
                _assign_attr(_get_attr(inner, str(node.target)), gm, str(node.target))
    gm.graph.eliminate_dead_code()


def _replace_result(gm: GraphModule, call: Node, result: Any) -> None:
    if isinstance(result, Node):
        call.replace_all_uses_with(result)
    else:
        for user in list(call.users):
            if user.op == "call_function" and user.args[0] is call and isinstance(user.args[1], int):
                user.replace_all_uses_with(result[user.args[1]])
                gm.graph.erase_node(user)
            else:
                user.args = tuple([result if a is call else a for a in user.args])
    gm.graph.erase_node(call)
