"""A tracer that knows from which module each node came. Stands on fx; used by quantize_fx."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.ao.nn.intrinsic import _FusedModule
from flambeau.fx import Node, Tracer
from flambeau.fx.proxy import Scope

__all__ = ["QuantizationTracer"]


class ScopeContextManager:
    """Holds a scope to that of a module while the module is traced."""

    def __init__(self, scope: Scope, current_module: Any, current_module_path: str) -> None:
        self.scope, self.previous = scope, (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_module_path, type(current_module)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self.scope.module_path, self.scope.module_type = self.previous


class QuantizationTracer(Tracer):
    """Keeps modules that a backend has as they are, and looks into all others but those that are skipped.

    `node_name_to_scope` has the path and class of the module in which each node was made; a leaf is in itself.
    """

    def __init__(self, skipped_module_names: list[str], skipped_module_classes: list[Any]) -> None:
        super().__init__()
        self.skipped_module_names, self.skipped_module_classes = skipped_module_names, skipped_module_classes
        self.scope = Scope("", None)
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self.record_stack_traces = True

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether a module stays a call."""
        place = type(m).__module__
        own = place.startswith(("torch.nn", "torch.ao.nn", "flambeau.nn", "flambeau.ao.nn")) and not isinstance(m, nn.Sequential)
        return (
            own
            or module_qualified_name in self.skipped_module_names
            or type(m) in self.skipped_module_classes
            or isinstance(m, _FusedModule)
        )

    def call_module(self, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
        """Trace a module within its scope."""
        with ScopeContextManager(self.scope, m, self.path_of_module(m)):
            return super().call_module(m, forward, args, kwargs)

    def create_node(self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None) -> Node:
        """A node, with its scope."""
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        return node
