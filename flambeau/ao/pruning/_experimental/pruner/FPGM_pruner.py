"""Masks of the rows that are nearest to all others. Stands on base_structured_sparsifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.ao.pruning._experimental.pruner.base_structured_sparsifier import BaseStructuredSparsifier

__all__ = ["FPGMPruner"]


class FPGMPruner(BaseStructuredSparsifier):
    """Filter pruning by the geometric median (arXiv:1811.00250): leaves out the rows that the others can stand for.

    sparsity_level: the share of rows; dist: 1 or 2 (default) for that norm, or a function of flat rows for all distances.
    """

    def __init__(self, sparsity_level: float = 0.5, dist: Callable[[Any], Any] | int | None = None) -> None:
        dist = 2 if dist is None else dist
        if not callable(dist) and dist not in (1, 2):
            raise NotImplementedError("Distance function is not yet implemented.")
        self.dist_fn = dist if callable(dist) else lambda x: torch.cdist(x, x, p=dist)
        super().__init__(defaults={"sparsity_level": sparsity_level})

    def _compute_distance(self, t: Any) -> Any:
        """The sum of each row's distances from all rows."""
        return self.dist_fn(t.flatten(1)).abs().sum(1)

    def update_mask(self, module: Any, tensor_name: str, sparsity_level: float, **kwargs: Any) -> None:  # type: ignore[override]
        """Write to the mask of one tensor."""
        mask = module.parametrizations[tensor_name][0].mask
        if sparsity_level <= 0:
            mask.data = torch.ones_like(mask).bool()
        elif sparsity_level >= 1.0:
            mask.data = torch.zeros_like(mask).bool()
        else:
            rows = getattr(module, tensor_name)
            count = min(max(round(sparsity_level * len(rows)), 0), len(rows))
            mask[torch.topk(self._compute_distance(rows), k=count, largest=False).indices] = False
