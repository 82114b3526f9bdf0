"""Masks of the diagonals next to the main one. Stands on base_sparsifier."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["NearlyDiagonalSparsifier"]


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Leaves `nearliness` diagonals of a matrix, an odd number, with the main one in the middle."""

    def __init__(self, nearliness: int = 1) -> None:
        super().__init__(defaults={"nearliness": nearliness})

    def update_mask(self, module: Any, tensor_name: str, nearliness: int, **kwargs: Any) -> None:  # type: ignore[override]
        """Write the diagonals. ValueError for an even number, or for more than the matrix has."""
        mask = module.parametrizations[tensor_name][0].mask
        mask.data = torch.zeros_like(mask)
        if nearliness <= 0:
            return
        if nearliness % 2 == 0:
            raise ValueError("nearliness can only be an odd number")
        aside = nearliness // 2
        if aside >= min(mask.shape):
            raise ValueError("nearliness cannot be larger than the dimensions of tensor.")
        mask.copy_(torch.ones_like(mask).tril(aside).triu(-aside))
