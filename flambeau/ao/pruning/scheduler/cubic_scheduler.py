"""Sparsity that grows by a cube. Stands on base_scheduler."""

from __future__ import annotations

from typing import Any

from flambeau.ao.pruning.scheduler.base_scheduler import BaseScheduler

__all__ = ["CubicSL"]


class CubicSL(BaseScheduler):
    """The sparsity grows from init_sl to that of the group by f + (i - f) (1 - (t - init_t) / (delta_t total_t))^3.

    init_t: the epoch at which it begins to; delta_t: how often it does; total_t: how many times; initially_zero: it is 0 before.
    Each is one value, or one for each group.
    """

    def __init__(
        self,
        sparsifier: Any,
        init_sl: Any = 0.0,
        init_t: Any = 0,
        delta_t: Any = 10,
        total_t: Any = 100,
        initially_zero: Any = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.sparsifier = sparsifier
        self.init_sl, self.init_t = self._make_sure_a_list(init_sl), self._make_sure_a_list(init_t)
        self.delta_t, self.total_t = self._make_sure_a_list(delta_t), self._make_sure_a_list(total_t)
        self.initially_zero = self._make_sure_a_list(initially_zero)
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(
        s_0: float, s_f: float, t: float, t_0: float, dt: float, n: float, initially_zero: bool = False
    ) -> float:
        """The level at epoch t on the way from s_0 to s_f, which begins at t_0 and takes n times dt."""
        if initially_zero and t < t_0:
            return 0
        level: float = s_f + (s_0 - s_f) * (1.0 - (t - t_0) / (dt * n)) ** 3
        return max(s_0, min(s_f, level))

    def get_sl(self) -> list[float]:
        """The levels of the groups at `last_epoch`."""
        self._warn_outside_of_step()
        each = zip(self.init_sl, self.base_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero)
        return [self.sparsity_compute_fn(i, f, self.last_epoch, t, dt, n, zero) for i, f, t, dt, n, zero in each]
