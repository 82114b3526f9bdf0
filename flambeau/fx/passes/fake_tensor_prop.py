"""Values without memory: running a graph on fake tensors and keeping each in meta["val"].

Stands on fx.interpreter and _subclasses.fake_tensor.
"""

from __future__ import annotations

import contextlib
from typing import Any

import flambeau as torch
from flambeau._subclasses.fake_tensor import FakeTensorMode
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """FakeTensorProp(module).propagate(*args) leaves in every node's meta["val"] a fake tensor of its shape and dtype.

    mode: that of the fake tensors; one of its own, if it is None.
    """

    def __init__(self, module: Any, mode: Any = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode

    def run_node(self, n: Node) -> Any:
        """The node's value, a fake tensor."""
        env, fresh = self._mode.shape_env, n.meta.get("unbacked_bindings")
        with contextlib.nullcontext() if env is None or not fresh else env.again(fresh):  # sizes keep their names
            result = super().run_node(n)
        n.meta["val"] = map_aggregate(result, lambda x: x.detach() if isinstance(x, torch.Tensor) else x)
        n.meta["type"] = type(result)
        return result

    def fetch_attr(self, target: str) -> Any:
        """The value at a dotted path; a tensor as a fake one, a module on fake tensors."""
        value = super().fetch_attr(target)
        if isinstance(value, torch.Tensor):
            return self._faked(value)
        if isinstance(value, torch.nn.Module):
            state = {name: self._faked(tensor) for name, tensor in [*value.named_parameters(), *value.named_buffers()]}
            return lambda *args, **kwargs: torch.func.functional_call(value, state, args, kwargs)
        return value

    def _faked(self, value: Any) -> Any:
        fake = not isinstance(value, torch.Tensor) or self._mode.is_our_fake(value)
        return value if fake else self._mode.from_tensor(value)

    def propagate(self, *args: Any) -> Any:
        """Run the module on fake tensors like the arguments; returns what it returns."""
        return self.propagate_dont_convert_inputs(*map_aggregate(args, self._faked))

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the module on the arguments as they are."""
        with self._mode:
            return super().run(*args)
