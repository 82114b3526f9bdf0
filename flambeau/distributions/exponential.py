"""The exponential distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import blank, formula

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """rate exp(-rate x) for x >= 0.

    Args: rate (float or Tensor): 1 / the mean, > 0."""

    has_rsample = True
    _parameters = ("rate",)
    support = constraints.nonnegative
    arg_constraints = {"rate": constraints.positive}
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._broadcast(validate_args, rate=rate)

    mean = stddev = formula(lambda d: 1 / d.rate)
    mode = formula(lambda d: torch.zeros_like(d.rate))
    variance = formula(lambda d: d.rate**-2)

    def _draw(self, shape: Size) -> Tensor:
        return blank(shape, self.rate).exponential_() / self.rate

    def _log_density(self, x: Tensor) -> Tensor:
        return -x * self.rate + self.rate.log()

    def _cumulative(self, x: Tensor) -> Tensor:
        return 1 - (-x * self.rate).exp()

    def _quantile(self, p: Tensor) -> Tensor:
        return torch.log1p(-p) / -self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()

    _mean_carrier_measure = 0
    _natural_params = formula(lambda d: (-d.rate,))

    def _log_normalizer(self, eta: Any) -> Tensor:  # type: ignore[override]
        return -(-eta).log()
