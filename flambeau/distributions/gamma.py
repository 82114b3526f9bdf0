"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import formula

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """rate^c x^(c - 1) exp(-rate x) / gamma(c) for x >= 0, with c the concentration.

    Args: concentration (float or Tensor): the shape, > 0; rate (float or Tensor): 1 / the scale, > 0. The samples'
    derivative by the concentration is the implicit one."""

    has_rsample = True
    _parameters = ("concentration", "rate")
    support = constraints.nonnegative
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._broadcast(validate_args, concentration=concentration, rate=rate)

    mean = formula(lambda d: d.concentration / d.rate)
    mode = formula(lambda d: ((d.concentration - 1) / d.rate).clamp(min=0))
    variance = formula(lambda d: d.concentration / d.rate**2)

    def _draw(self, shape: Size) -> Tensor:
        x = torch._standard_gamma(self.concentration.expand(shape)) / self.rate
        x.detach().clamp_(min=torch.finfo(x.dtype).tiny)  # never 0, whose logarithm is infinite
        return x

    def log_prob(self, value: Any) -> Tensor:
        """As Distribution.log_prob, of numbers too."""
        return super().log_prob(torch.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device))

    def _log_density(self, x: Tensor) -> Tensor:
        c, rate = self.concentration, self.rate
        return torch.xlogy(c, rate) - c.lgamma() + torch.xlogy(c - 1, x) - rate * x

    def _cumulative(self, x: Tensor) -> Tensor:
        return torch.special.gammainc(self.concentration, x * self.rate)

    def entropy(self) -> Tensor:
        c = self.concentration
        return c + c.lgamma() - (c - 1) * c.digamma() - self.rate.log()

    _mean_carrier_measure = 0
    _natural_params = formula(lambda d: (d.concentration - 1, -d.rate))

    def _log_normalizer(self, power: Any, decay: Any) -> Tensor:  # type: ignore[override]
        return (power + 1).lgamma() - (power + 1) * (-decay).log()
