"""torch.distributed.algorithms.model_averaging.averagers: averaging the parameters of several processes from time to time.

The half of post-local SGD (Lin et al. 2018) that comes after an optimizer's step. Stands on utils; hierarchical_model_averager
and PostLocalSGDOptimizer use it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from flambeau.distributed.algorithms.model_averaging import utils
from flambeau.distributed.registry import get_default_group

__all__ = ["ModelAverager", "PeriodicModelAverager"]

ALWAYS = (
    "is 1, no need to use model averaging because the communication cost of all-reducing parameters will be no less "
    "than the cost of all-reducing gradients by DistributedDataParallel in the backward pass. Therefore, only "
    "DistributedDataParallel should be used for this case."
)


class ModelAverager(ABC):
    """Something that averages parameters. `step` counts the calls."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = process_group if process_group is not None else get_default_group()
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Any) -> None:
        """Called after each step of an optimizer."""
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages parameters at every period-th call after the first warmup_steps.

    Raises ValueError for a period below 1 or negative warmup_steps.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(f"When period {ALWAYS}", stacklevel=2)
        self.warmup_steps, self.period = warmup_steps, period

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average, if it is time, the parameters that have a gradient: of a list, or of an optimizer's groups."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
