"""Flatten and Unflatten."""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules.module import Module


class Flatten(Module):
    """Dimensions start_dim to end_dim become one: (N, *) to (N, product) by default."""

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dimension dim becomes several: (*, product, *) to (*, *unflattened_size, *)."""

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self._require_tuple_int(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    @staticmethod
    def _require_tuple_int(value: Any) -> None:
        if not isinstance(value, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(value).__name__}")
        for position, item in enumerate(value):
            if not isinstance(item, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(item).__name__} at pos {position}"
                )

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
