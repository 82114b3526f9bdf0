"""DistributedSampler: each process of a group takes its own share of a dataset.

Stands on the samplers and, for the default rank and number of processes, on the process group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau.utils.data.sampler import Sampler


def _process_group() -> tuple[int, int]:
    group = getattr(flambeau, "distributed", None)
    if group is None or not group.is_available():
        raise RuntimeError("Requires distributed package to be available")
    if not group.is_initialized():
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return group.get_world_size(), group.get_rank()


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, of the sequence or of a shuffle that is the same in all processes.

    Call `set_epoch` before each epoch, or each has the same shuffle. The last indices are made even by repeating the first
    ones, or with drop_last by leaving some out. Raises ValueError for a rank outside the group.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ):
        if num_replicas is None:
            num_replicas = _process_group()[0]
        if rank is None:
            rank = _process_group()[1]
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        count = len(dataset)
        if drop_last and count % num_replicas:
            self.num_samples = math.ceil((count - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = flambeau.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = flambeau.randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        if not self.drop_last and indices:
            indices = (indices * math.ceil(self.total_size / len(indices)))[: self.total_size]
        indices = indices[: self.total_size]
        return iter(indices[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Which epoch follows: it changes the shuffle."""
        self.epoch = epoch
