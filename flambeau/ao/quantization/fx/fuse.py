"""Modules and functions that follow each other become one fused module. Stands on match_utils; used by quantize_fx."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from flambeau.ao.quantization.backend_config.utils import (
    get_fuser_method_mapping,
    get_fusion_pattern_to_extra_inputs_getter,
    get_fusion_pattern_to_root_node_getter,
)
from flambeau.ao.quantization.fx.custom_config import FuseCustomConfig
from flambeau.ao.quantization.fx.match_utils import default_root_node_getter, find_matches, sorted_by_size
from flambeau.ao.quantization.utils import MatchAllNode, _parent_name
from flambeau.fx import GraphModule, Node

__all__ = ["fuse"]

_MODULE_OF = {nn.functional.relu: nn.ReLU, nn.functional.tanh: nn.Tanh}


def _functions() -> dict[Any, Any]:
    import flambeau as torch

    return {**_MODULE_OF, torch.relu: nn.ReLU, torch.tanh: nn.Tanh, nn.functional.leaky_relu: nn.LeakyReLU}


def _as_module(node: Any, modules: dict[str, Any]) -> Any:
    """The module of a node; of a function, a module that computes the same."""
    if node.op == "call_module":
        return modules[str(node.target)]
    if node.op == "call_function" and node.target in _functions():
        kind = _functions()[node.target]
        if kind is nn.LeakyReLU:
            return kind(node.kwargs.get("negative_slope", node.args[1] if len(node.args) > 1 else 0.01))
        return kind()
    return MatchAllNode


def _modules_in_order(nodes: Any, modules: dict[str, Any]) -> Any:
    """The modules of a match in the order of a backend's fuser methods: the first called first."""
    if isinstance(nodes, Node):
        return _as_module(nodes, modules)
    return tuple(_modules_in_order(each, modules) for each in nodes)


def _linear(shape: Any) -> list[Any] | None:
    """(c, (b, a)) as [a, b, c]; None for a pattern of another shape."""
    if not isinstance(shape, tuple):
        return [shape]
    if len(shape) != 2:
        return None
    first = _linear(shape[1])
    return None if first is None or isinstance(shape[0], tuple) else [*first, shape[0]]


def fuse(model: GraphModule, is_qat: bool, fuse_custom_config: Any = None, backend_config: Any = None) -> GraphModule:
    """The graph module with fused modules, as the backend describes them; modules are changed in place."""
    if isinstance(fuse_custom_config, dict):
        fuse_custom_config = FuseCustomConfig.from_dict(fuse_custom_config)
    if isinstance(backend_config, dict):
        backend_config = BackendConfig.from_dict(backend_config)
    backend = get_native_backend_config() if backend_config is None else backend_config
    methods = sorted_by_size(get_fuser_method_mapping(backend))
    roots, extras = get_fusion_pattern_to_root_node_getter(backend), get_fusion_pattern_to_extra_inputs_getter(backend)
    modules = dict(model.named_modules())
    found = find_matches(model.graph, modules, list(methods))
    done: set[int] = set()
    for node in list(model.graph.nodes):
        match = found.get(node.name)
        if match is None or id(match) in done:
            continue
        done.add(id(match))
        root = roots.get(match.pattern, default_root_node_getter)(match.nodes)
        extra = extras[match.pattern](match.nodes) if match.pattern in extras else []
        if root.op != "call_module":
            continue
        shape = _modules_in_order(match.nodes, modules)
        line = _linear(shape)
        arguments = line if line is not None else shape
        if line is not None and len({m.training for m in line if isinstance(m, nn.Module) and type(m) is not nn.ReLU}) > 1:
            raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
        for each in arguments:
            if isinstance(each, nn.Module):
                each.training = modules[str(root.target)].training
        fused = methods[match.pattern](is_qat, *arguments)
        name = str(root.target)
        parent, own = _parent_name(name)
        setattr(modules[parent], own, fused)
        modules[name] = fused
        root.args = (*root.args, *extra)
        match.last.replace_all_uses_with(root)
        if match.last is not root:
            _move_after_inputs(root, extra)
        for each in match.flat:
            if each is not root:
                model.graph.erase_node(each)
    return GraphModule(model, model.graph)


def _move_after_inputs(root: Node, extra: list[Any]) -> None:
    """A fused module that takes more inputs is called after the last of them."""
    order = {node: position for position, node in enumerate(root.graph.nodes)}
    later = [each for each in extra if isinstance(each, Node) and order[each] > order[root]]
    if later:
        max(later, key=order.__getitem__).append(root)
