"""The parametrization that masks rows, and the hook that adds the bias afterwards. Stands on nn."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.pruning.sparsifier.utils import module_contains_param

__all__ = ["BiasHook", "FakeStructuredSparsity", "module_contains_param"]


class FakeStructuredSparsity(nn.Module):
    """A parametrization: the rows (first dimension) of a tensor times a mask of bools, which state dicts leave out."""

    mask: Any

    def __init__(self, mask: Any) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Any) -> Any:
        """The masked rows. AssertionError if there isn't an element of the mask for each."""
        assert isinstance(self.mask, torch.Tensor), "mask must be a torch.Tensor"
        assert self.mask.shape[0] == x.shape[0], f"mask shape[0] ({self.mask.shape[0]}) must match x shape[0] ({x.shape[0]})"
        return self.mask.reshape(-1, *[1] * (x.dim() - 1)) * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Nothing: sparsifiers keep the masks."""
        return {}


class BiasHook:
    """A forward hook that adds a module's `_bias` to its result; prune_bias: without that of masked rows."""

    def __init__(self, parametrization: Any, prune_bias: bool) -> None:
        self.param, self.prune_bias = parametrization, prune_bias

    def __call__(self, module: Any, input: Any, output: Any) -> Any:
        own = getattr(module, "_bias", None)
        if own is None:
            return output
        if self.prune_bias:
            own.data[~self.param.mask] = 0
        return output.add_(own.data.reshape(1, -1, *[1] * (output.dim() - 2)))
