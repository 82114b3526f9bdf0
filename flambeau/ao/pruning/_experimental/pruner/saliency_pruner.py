"""Masks of the rows with the least sum of absolute values. Stands on base_structured_sparsifier."""

from __future__ import annotations

from typing import Any

from flambeau.ao.pruning._experimental.pruner.base_structured_sparsifier import BaseStructuredSparsifier
from flambeau.ao.pruning._experimental.pruner.parametrization import FakeStructuredSparsity

__all__ = ["LSTMSaliencyPruner", "SaliencyPruner"]


def _saliency(weight: Any) -> Any:
    if weight.dim() <= 1:
        raise Exception("Structured pruning can only be applied to a 2+dim weight tensor!")
    return weight.norm(dim=tuple(range(1, weight.dim())), p=1)


class SaliencyPruner(BaseStructuredSparsifier):
    """Leaves out the share `sparsity_level` of rows with the least sum of absolute values."""

    def update_mask(self, module: Any, tensor_name: str, **kwargs: Any) -> None:
        """Write to the mask of one tensor. Exception for a vector."""
        mask = module.parametrizations[tensor_name][0].mask
        saliency = _saliency(getattr(module, tensor_name))
        assert saliency.shape == mask.shape, f"saliency shape ({saliency.shape}) must match mask shape ({mask.shape})"
        mask.data[(-saliency).topk(int(len(mask) * kwargs["sparsity_level"])).indices] = False


class LSTMSaliencyPruner(BaseStructuredSparsifier):
    """The same for the weights of an LSTM, whose four gates are pruned alike: each loses this share of its rows."""

    def update_mask(self, module: Any, tensor_name: str, **kwargs: Any) -> None:
        """Write to the mask of one tensor. Exception for a vector."""
        for each in module.parametrizations[tensor_name]:
            if isinstance(each, FakeStructuredSparsity):
                size = len(each.mask) // 4
                for mask, saliency in zip(each.mask.split(size), _saliency(getattr(module, tensor_name)).split(size)):
                    count = int(len(mask) * kwargs["sparsity_level"])
                    mask.data[saliency.topk(count, largest=False, sorted=False).indices] = False
