"""masked_tensor and as_masked_tensor."""

from __future__ import annotations

from typing import Any

from flambeau.base.naming import public_module
from flambeau.core.tensor.tensor import Tensor
from flambeau.masked.maskedtensor.core import MaskedTensor

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor of copies of data and mask, a leaf of its own."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A masked tensor in the graph of its data: gradients go on to it."""
    return MaskedTensor._from_values(data, mask)


masked_tensor.__module__ = as_masked_tensor.__module__ = public_module("masked.maskedtensor.creation")
