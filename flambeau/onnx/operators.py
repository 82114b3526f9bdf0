"""torch.onnx.operators: shapes as tensors, which programs used for sizes that may change."""

from __future__ import annotations

import flambeau as torch

__all__: list[str] = []

shape_as_tensor = torch._shape_as_tensor


def reshape_from_tensor_shape(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """A tensor in the shape that another one's elements are."""
    return x.reshape(shape.tolist())
