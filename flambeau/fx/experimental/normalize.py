"""Calls in a normal form: arguments by name with defaults filled in. Stands on fx.operator_schemas."""

from __future__ import annotations

import operator
from typing import Any

import flambeau as torch
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Transformer
from flambeau.fx.node import Argument, Node, Target
from flambeau.fx.operator_schemas import normalize_function, normalize_module
from flambeau.fx.proxy import Proxy

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """NormalizeArgs(module).transform(): functions of torch and modules of torch.nn are called with all arguments by name.

    normalize_to_only_use_kwargs=False leaves by position what was given so.
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """The new node's proxy."""
        result = super().run_node(n)
        if n.op != "output":
            self.node_map[result] = n
            result.node.meta = n.meta
            result.node.type = n.type
        return result

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any], *types: Any) -> Any:
        """The call in its normal form, where that is known."""
        new = normalize_function(target, args, kwargs, None, None, self.normalize_to_only_use_kwargs)  # type: ignore[arg-type]
        if new is not None:
            args, kwargs = new
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The call in its normal form, where that is known."""
        new = normalize_module(
            self.module,
            str(target),
            args,
            kwargs,
            self.normalize_to_only_use_kwargs,  # type: ignore[arg-type]
        )
        if new is not None:
            args, kwargs = new
        return super().call_module(target, args, kwargs)


class NormalizeOperators(Transformer):
    """NormalizeOperators(module).transform(): torch.add and its like become the Python operators of the same meaning."""

    binary_magic_method_remap = {
        torch.add: operator.add,
        torch.mul: operator.mul,
        torch.sub: operator.sub,
        torch.div: operator.truediv,
        torch.floor_divide: operator.floordiv,
        torch.remainder: operator.mod,
        torch.eq: operator.eq,
        torch.ne: operator.ne,
        torch.lt: operator.lt,
        torch.le: operator.le,
        torch.gt: operator.gt,
        torch.ge: operator.ge,
    }

    def __init__(self, module: GraphModule, *annotate: bool) -> None:
        super().__init__(module)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The operator, for two arguments and none by name."""
        if callable(target) and target in self.binary_magic_method_remap and len(args) == 2 and not kwargs:
            return super().call_function(self.binary_magic_method_remap[target], args, {})
        return super().call_function(target, args, kwargs)
