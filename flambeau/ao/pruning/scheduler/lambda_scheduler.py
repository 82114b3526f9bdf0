"""Sparsity by functions of the epoch. Stands on base_scheduler."""

from __future__ import annotations

from typing import Any

from flambeau.ao.pruning.scheduler.base_scheduler import BaseScheduler

__all__ = ["LambdaSL"]


class LambdaSL(BaseScheduler):
    """The sparsity of each group is its first one times a function of the epoch; sl_lambda: one, or one for each group."""

    def __init__(self, sparsifier: Any, sl_lambda: Any, last_epoch: int = -1, verbose: bool = False) -> None:
        count = len(sparsifier.groups)
        if isinstance(sl_lambda, list | tuple) and len(sl_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(sl_lambda)}")
        self.sl_lambdas = list(sl_lambda) if isinstance(sl_lambda, list | tuple) else [sl_lambda] * count
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        """The levels of the groups at `last_epoch`."""
        self._warn_outside_of_step()
        return [level * function(self.last_epoch) for function, level in zip(self.sl_lambdas, self.base_sl)]
