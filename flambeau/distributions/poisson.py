"""The Poisson distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all, formula

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """rate^k exp(-rate) / k! for k = 0, 1, ...

    Args: rate (number or Tensor): the mean, >= 0."""

    _parameters = ("rate",)
    support = constraints.nonnegative_integer
    arg_constraints = {"rate": constraints.nonnegative}
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._broadcast(validate_args, rate=rate)

    mean = variance = formula(lambda d: d.rate)
    mode = formula(lambda d: d.rate.floor())

    def _pick(self, shape: Size) -> Tensor:
        return torch.poisson(self.rate.expand(shape))

    def _log_density(self, k: Any) -> Tensor:
        k, rate = broadcast_all(k, self.rate)
        return torch.xlogy(k, rate) - (k + 1).lgamma() - rate

    _natural_params = formula(lambda d: (d.rate.log(),))

    def _log_normalizer(self, eta: Any) -> Tensor:  # type: ignore[override]
        return eta.exp()
