"""Which positions of a sequence a rank has, so that all have as much to compute."""

from __future__ import annotations

from abc import ABC, abstractmethod

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor


class _LoadBalancer(ABC):
    """An order of positions: rank r has the r-th of as many equal pieces of it as there are ranks."""

    @abstractmethod
    def _generate_indices(self, restore: bool = False) -> Tensor | None:
        """int32, of shape (1 or batch, length): `sequence[indices]` is in this order. restore: what undoes it."""


class _HeadTailLoadBalancer(_LoadBalancer):
    """Two pieces of 2 n for rank r of n: the r-th, and the r-th from the end.

    With a causal mask a position attends to those before it only, so that the head of a sequence is less work than its tail.
    """

    def __init__(self, seq_length: int, world_size: int, device: str | torch.device) -> None:
        if seq_length % (2 * world_size):
            raise ValueError(
                f"a sequence of {seq_length} positions can't be divided into two equal pieces for each of {world_size} ranks: "
                f"pad it to a multiple of {2 * world_size}, or set _cp_options.enable_load_balance = False"
            )
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore: bool = False) -> Tensor:
        pieces = torch.arange(self.seq_length, dtype=torch.int32, device=self.device).chunk(2 * self.world_size)
        order = torch.cat([piece for rank in range(self.world_size) for piece in (pieces[rank], pieces[-1 - rank])])
        return (order.argsort().to(torch.int32) if restore else order).unsqueeze(0)
