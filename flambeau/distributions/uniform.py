"""The uniform distribution."""

from __future__ import annotations

import math
from typing import Any

from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import formula, uniform_noise

__all__ = ["Uniform"]


class Uniform(Distribution):
    """1 / (high - low) for low <= x < high.

    Args: low, high (float or Tensor): the bounds, low < high."""

    has_rsample = True
    _parameters = ("low", "high")
    low: Tensor
    high: Tensor

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self._broadcast(validate_args, low=low, high=high)

    arg_constraints = formula(
        lambda d: {"low": constraints.less_than(d.high), "high": constraints.greater_than(d.low)},
        "The constraints of the bounds, each by the other.",
    )
    support = constraints.dependent_property(lambda d: constraints.interval(d.low, d.high), is_discrete=False, event_dim=0)
    _width = formula(lambda d: d.high - d.low)
    mean = formula(lambda d: (d.low + d.high) / 2)
    mode = formula(lambda d: d.high * math.nan, "NaN.")
    stddev = formula(lambda d: d._width / math.sqrt(12))
    variance = formula(lambda d: d._width**2 / 12)

    def _draw(self, shape: Size) -> Tensor:
        return self._quantile(uniform_noise(shape, self.low))

    def _log_density(self, x: Tensor) -> Tensor:
        inside = (self.low <= x) & (x < self.high)
        return inside.to(self.low.dtype).log() - self._width.log()

    def _cumulative(self, x: Tensor) -> Tensor:
        return ((x - self.low) / self._width).clamp(0, 1)

    def _quantile(self, p: Tensor) -> Tensor:
        return self.low + p * self._width

    def entropy(self) -> Tensor:
        return self._width.log()
