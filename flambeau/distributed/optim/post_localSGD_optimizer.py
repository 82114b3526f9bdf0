"""PostLocalSGDOptimizer: an optimizer whose parameters are averaged over processes from time to time.

The step of post-local SGD (Lin et al. 2018, Don't Use Large Mini-Batches, Use Local SGD). Stands on an optimizer and on an
averager of torch.distributed.algorithms.model_averaging.
"""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as torch

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(torch.optim.Optimizer):
    """Does what `optim` does, and after each step asks `averager` to average the parameters if it is time."""

    def __init__(self, optim: torch.optim.Optimizer, averager: Any) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The inner optimizer's states."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's, and the averager's count as "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what state_dict gave; without "step" the averager begins at 0, with a warning."""
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.", stacklevel=2
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self) -> None:  # type: ignore[override]
        """The inner optimizer's step; then the averager's."""
        self.optim.step()
        self.averager.average_parameters(params=self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters to the inner optimizer."""
        self.optim.add_param_group(param_group)
