"""Optimisations over traced modules for inference: convolutions that take in the batch norms behind them.

Stands on nn.utils.fusion and fx.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import flambeau as torch
from flambeau.fx._symbolic_trace import Tracer, symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Transformer
from flambeau.fx.node import Node
from flambeau.nn import Module
from flambeau.nn.utils.fusion import fuse_conv_bn_eval

__all__ = [
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]

_PATTERNS = (
    (torch.nn.Conv1d, torch.nn.BatchNorm1d),
    (torch.nn.Conv2d, torch.nn.BatchNorm2d),
    (torch.nn.Conv3d, torch.nn.BatchNorm3d),
)


def _parent_name(target: str) -> tuple[str, str]:
    """A dotted path as that of the owner and the name in it."""
    owner, _, name = target.rpartition(".")
    return owner, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node calls a module of the second type on what a call of one of the first type gave."""
    if not node.args:
        return False
    for expected, current in zip(pattern, (node.args[0], node)):
        if not isinstance(current, Node) or current.op != "call_module" or not isinstance(current.target, str):
            return False
        if type(modules.get(current.target)) is not expected:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """Put another module in the place of the one that a node calls."""
    owner, name = _parent_name(str(node.target))
    modules[str(node.target)] = new_module
    setattr(modules[owner], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """The model with each batch norm taken in by the convolution before it; for inference only.

    inplace: change the model itself; no_trace: it is a GraphModule already. Raises AssertionError in training mode.
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    new_graph = copy.deepcopy(traced.graph)
    for pattern in _PATTERNS:
        for node in new_graph.nodes:
            if not matches_module_pattern(pattern, node, modules):
                continue
            if len(node.args[0].users) > 1:  # others need what the convolution gives
                continue
            norm = modules[str(node.target)]
            if not norm.track_running_stats:
                continue
            fused = fuse_conv_bn_eval(modules[str(node.args[0].target)], norm)
            replace_node_module(node.args[0], modules, fused)
            node.replace_all_uses_with(node.args[0])
            new_graph.erase_node(node)
    return GraphModule(traced, new_graph)


def remove_dropout(model: Module) -> Module:
    """The model without its Dropout modules."""

    class DropoutRemover(Transformer):
        def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if isinstance(self.submodules[target], torch.nn.Dropout):
                if len(args) != 1:
                    raise AssertionError("Dropout should have exactly one argument")
                return args[0]
            return super().call_module(target, args, kwargs)

    return DropoutRemover(symbolic_trace(model)).transform()


def extract_subgraph(orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """A module of some nodes of a graph that takes the values of `inputs` and returns those of `outputs`."""
    graph = Graph()
    values: dict[Node, Node] = {}
    for node in inputs:
        values[node] = graph.placeholder(node.name)
    for node in nodes:
        values[node] = graph.node_copy(node, lambda n: values[n])
    graph.output([values[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(model: Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer) -> Module:
    """fuse and remove_dropout, as far as pass_config ({"conv_bn_fuse": True, "remove_dropout": True, ...}) asks for them.

    PyTorch's third step, its MKL-DNN layouts, doesn't exist: flambeau has one kind of kernels.
    """
    wanted = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if wanted["conv_bn_fuse"]:
        model = fuse(model)
    if wanted["remove_dropout"]:
        model = remove_dropout(model)
    return model
