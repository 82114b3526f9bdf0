"""Values without memory: running a graph on tensors of device "meta" and keeping each in meta["val"].

In PyTorch these are fake tensors; flambeau's are meta tensors. Stands on fx.interpreter.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node
from flambeau.utils import _pytree as pytree

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """FakeTensorProp(module).propagate(*args) leaves in every node's meta["val"] a meta tensor of its shape and dtype."""

    def __init__(self, module: Any, mode: Any = None) -> None:
        super().__init__(module)

    def run_node(self, n: Node) -> Any:
        """The node's value, on device meta."""
        result = super().run_node(n)
        n.meta["val"] = result
        n.meta["type"] = type(result)
        return result

    def fetch_attr(self, target: str) -> Any:
        """The value at a dotted path; a tensor as a meta tensor, a module on meta tensors."""
        value = super().fetch_attr(target)
        if isinstance(value, torch.Tensor):
            return value.to("meta")
        if isinstance(value, torch.nn.Module):
            state = {name: tensor.to("meta") for name, tensor in [*value.named_parameters(), *value.named_buffers()]}
            return lambda *args, **kwargs: torch.func.functional_call(value, state, args, kwargs)
        return value

    def propagate(self, *args: Any) -> Any:
        """Run the module on meta tensors like the arguments; returns what it returns."""
        return self.propagate_dont_convert_inputs(
            *pytree.tree_map(lambda a: a.to("meta") if isinstance(a, torch.Tensor) else a, args)
        )

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the module on the arguments as they are."""
        return super().run(*args)
