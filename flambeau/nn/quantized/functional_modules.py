"""Operators as a module, which a tool that quantizes could replace: FloatFunctional. Stands on nn.modules."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.nn.modules import Identity, Module

__all__ = ["FloatFunctional"]


class FloatFunctional(Module):
    """The operators of a model that is to be quantized: `self.skip_add.add(x, y)` for x + y.

    The results go through `activation_post_process`, where an observer would be put.
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> Any:
        """RuntimeError: call one of the operators."""
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self.activation_post_process(torch.add(x, y))

    def add_scalar(self, x: Any, y: float) -> Any:
        """x + y for a number y; the result isn't observed."""
        return torch.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """x * y."""
        return self.activation_post_process(torch.mul(x, y))

    def mul_scalar(self, x: Any, y: float) -> Any:
        """x * y for a number y; the result isn't observed."""
        return torch.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """The tensors of a list joined along `dim`."""
        return self.activation_post_process(torch.cat(x, dim=dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """relu(x + y)."""
        return self.activation_post_process(torch.nn.functional.relu(torch.add(x, y)))

    def matmul(self, x: Any, y: Any) -> Any:
        """x @ y."""
        return self.activation_post_process(torch.matmul(x, y))
