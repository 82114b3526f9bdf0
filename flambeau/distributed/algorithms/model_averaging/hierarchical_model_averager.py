"""torch.distributed.algorithms.model_averaging.hierarchical_model_averager: small groups average often, large ones seldom.

Hierarchical SGD (Wang et al. 2020, Demystifying Why Local Aggregation Helps). Stands on averagers and groups of processes.
"""

from __future__ import annotations

import logging
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import flambeau.distributed as dist
from flambeau.distributed.algorithms.model_averaging import averagers, utils

__all__ = ["HierarchicalModelAverager"]

logger = logging.getLogger(__name__)


class HierarchicalModelAverager(averagers.ModelAverager):
    """Averages parameters within groups of several sizes, each with a period of its own.

    period_group_size_dict: sizes of groups by their periods, both ascending; the last size is that of process_group. A call
    averages in the group of the largest period that divides the number of calls since warmup_steps. Every process makes it, for
    it makes groups. Raises ValueError for periods or sizes that don't fit.
    """

    def __init__(
        self, period_group_size_dict: OrderedDict[int, int] | None = None, warmup_steps: int = 0, process_group: Any = None
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        self._periods = list(period_group_size_dict)
        if self._periods[0] <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if self._periods[-1] == 1:
            warnings.warn(f"When the maximum period in arg ``period_group_size_dict`` {averagers.ALWAYS}", stacklevel=2)
        size = dist.get_world_size(self.process_group)
        if next(reversed(period_group_size_dict.values())) != size:
            raise ValueError(
                f"The last value in arg ``period_group_size_dict`` {list(period_group_size_dict.values())[-1]} must be equal "
                f"to the size of arg ``process_group`` {size}."
            )
        self.period_process_group_dict: OrderedDict[int, Any] = OrderedDict()
        logger.info("Model averaging hierarchy:")
        for period, members in period_group_size_dict.items():
            logger.info(
                "\tEach group that has %s processes average parameters every %s iterations, if no larger one does.",
                members,
                period,
            )
            self.period_process_group_dict[period] = (
                self.process_group if members == size else dist.new_subgroups(group_size=members, group=self.process_group)[0]
            )
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps

    def _find_process_group(self) -> Any:
        """The group of the largest period that divides the number of calls; None if none does."""
        for period in reversed(self._periods):
            if self.step % period == 0:
                return self.period_process_group_dict[period]
        return None

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average, if it is time, the parameters that have a gradient: of a list, or of an optimizer's groups."""
        if self.step >= self.warmup_steps:
            group = self._find_process_group()
            if group is not None:
                utils.average_parameters_or_parameter_groups(params, group)
        self.step += 1
