"""Masks that leave out the blocks with the least norm. Stands on base_sparsifier."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["WeightNormSparsifier"]

_NORMS: dict[int, Callable[[Any], Any]] = {1: lambda x: x.abs(), 2: lambda x: x * x}


class WeightNormSparsifier(BaseSparsifier):
    """Leaves out blocks of a matrix with the least norm, or the least elements of these blocks.

    sparsity_level: the share of blocks; sparse_block_shape: (rows, columns) of a block; zeros_per_block: how many elements of a
    block become zero (default: all), the least by the norm; norm: 1, 2 (default) or a function of the tensor.
    NotImplementedError for other norms.
    """

    def __init__(
        self,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None,
        norm: Callable[[Any], Any] | int | None = None,
    ) -> None:
        norm = 2 if norm is None else norm
        if not callable(norm) and norm not in _NORMS:
            raise NotImplementedError(f"L-{norm} is not yet implemented.")
        self.norm_fn = norm if callable(norm) else _NORMS[norm]
        zeros = math.prod(sparse_block_shape) if zeros_per_block is None else zeros_per_block
        names = ("sparsity_level", "sparse_block_shape", "zeros_per_block")
        super().__init__(defaults=dict(zip(names, (sparsity_level, sparse_block_shape, zeros))))

    def update_mask(  # type: ignore[override]
        self,
        module: Any,
        tensor_name: str,
        sparsity_level: float,
        sparse_block_shape: tuple[int, int],
        zeros_per_block: int,
        **kwargs: Any,
    ) -> None:
        """Write which elements stay. ValueError for more zeros than a block has elements, or less than none."""
        size = math.prod(sparse_block_shape)
        if zeros_per_block > size:
            raise ValueError("Number of zeros per block cannot be more than the total number of elements in that block.")
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        mask = module.parametrizations[tensor_name][0].mask
        if sparsity_level <= 0 or zeros_per_block == 0:
            mask.data = torch.ones_like(mask)
        elif sparsity_level >= 1.0 and zeros_per_block == size:
            mask.data = torch.zeros_like(mask)
        else:
            norms = self.norm_fn(getattr(module, tensor_name))
            mask.data = _kept(norms, sparsity_level, sparse_block_shape, zeros_per_block)


def _kept(norms: Any, level: float, block: tuple[int, int], zeros: int) -> Any:
    """Which elements stay: all of the blocks that aren't chosen, and of the others all but the `zeros` least."""
    (height, width), (rows, columns) = norms.shape, block
    down, across = -(-height // rows), -(-width // columns)
    # Elements past the edge don't count in a block's mean, and are taken for the greatest within it.
    padded = torch.full((down * rows, across * columns), torch.nan, dtype=norms.dtype, device=norms.device)
    padded[:height, :width] = norms
    blocks = padded.reshape(down, rows, across, columns).transpose(1, 2).reshape(down * across, rows * columns)
    count = len(blocks)
    chosen = torch.arange(count, device=norms.device)
    if level < 1.0:
        least = max(0, min(count - 1, round(level * count)))
        chosen = torch.topk(blocks.nanmean(1), k=least, largest=False).indices
    stay = torch.ones(blocks.shape, device=norms.device)
    if zeros == rows * columns:
        stay[chosen] = 0
    else:
        within = torch.topk(blocks[chosen], k=zeros, dim=1, largest=False).indices
        stay[chosen] = stay[chosen].scatter(1, within, 0)
        stay = stay.bool()
    whole = stay.reshape(down, across, rows, columns).transpose(1, 2).reshape(padded.shape)
    return whole[:height, :width].contiguous()
