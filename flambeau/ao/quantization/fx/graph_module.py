"""Graph modules that are fused, observed or quantized, and what convert has to know of prepare. Stands on fx."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from flambeau.fx import Graph, GraphModule

__all__ = ["FusedGraphModule", "ObservedGraphModule", "ObservedGraphModuleAttrs", "ObservedStandaloneGraphModule"]

KEY = "_observed_graph_module_attrs"


@dataclass
class ObservedGraphModuleAttrs:
    """What prepare found out, kept in a graph module's `meta`."""

    node_name_to_qconfig: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, type]]
    prepare_custom_config: Any
    equalization_node_name_to_qconfig: dict[str, Any]
    qconfig_mapping: Any
    is_qat: bool
    observed_node_names: set[str]
    is_observed_standalone_module: bool = False
    standalone_module_input_quantized_idxs: list[int] | None = field(default=None)
    standalone_module_output_quantized_idxs: list[int] | None = field(default=None)


def _is_observed_module(module: Any) -> bool:
    """Whether a module was prepared."""
    return hasattr(module, "meta") and KEY in module.meta


def _is_observed_standalone_module(module: Any) -> bool:
    """Whether a module was prepared by itself, inside another."""
    return _is_observed_module(module) and module.meta[KEY].is_observed_standalone_module


def _get_observed_graph_module_attr(model: Any, name: str) -> Any:
    """What prepare found out under this name; None for a module that wasn't prepared."""
    return getattr(model.meta[KEY], name) if _is_observed_module(model) else None


class _Keeping(GraphModule):
    """A graph module with attributes of the model that stay with its copies."""

    def __init__(self, root: Any, graph: Graph, preserved_attr_names: set[str]) -> None:
        self.preserved_attr_names = set(preserved_attr_names)
        preserved = {name: getattr(root, name) for name in self.preserved_attr_names if hasattr(root, name)}
        super().__init__(root, graph)
        for name, value in preserved.items():
            setattr(self, name, value)

    def __deepcopy__(self, memo: Any) -> Any:
        plain = GraphModule.__new__(GraphModule)
        plain.__dict__ = copy.deepcopy(self.__dict__, memo)
        return type(self)(plain, copy.deepcopy(self.graph), copy.deepcopy(self.preserved_attr_names))


class FusedGraphModule(_Keeping):
    """What fuse_fx gives."""


class ObservedGraphModule(_Keeping):
    """A prepared graph module."""


class ObservedStandaloneGraphModule(ObservedGraphModule):
    """A prepared graph module inside another."""
