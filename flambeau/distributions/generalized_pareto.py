"""The generalised Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import formula, uniform_noise

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """The tail beyond a threshold: 1 - F(x) = (1 + c z)^(-1 / c) with z = (x - loc) / scale and c the
    concentration, exp(-z) for c = 0; x >= loc, and up to loc - scale / c for c < 0.

    Args: loc (float or Tensor): the threshold; scale (float or Tensor): > 0; concentration (float or Tensor): the
    shape c."""

    has_rsample = True
    _parameters = ("loc", "scale", "concentration")
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._broadcast(validate_args, concentration=concentration, loc=loc, scale=scale)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        c = self.concentration
        return constraints.interval(self.loc, torch.where(c < 0, self.loc - self.scale / c, math.inf))

    mode = formula(lambda d: d.loc)

    @property
    def mean(self) -> Tensor:
        """NaN for a concentration of 1 or more, where it is infinite."""
        c = self.concentration
        return torch.where(c < 1, self.scale / (1 - c) + self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """NaN for a concentration of 1/2 or more, where it is infinite."""
        c = self.concentration
        return torch.where(c < 0.5, (self.scale / (1 - c)) ** 2 / (1 - 2 * c), math.nan)

    def _bent(self, exponential: Tensor, power: Any) -> Tensor:
        """`power(c)`, or the limit `exponential` where the concentration c is 0."""
        c = self.concentration
        flat = torch.isclose(c, torch.zeros_like(c))
        return torch.where(flat, exponential, power(c.masked_fill(flat, 1)))

    def _draw(self, shape: Size) -> Tensor:
        return self.icdf(uniform_noise(shape, self.loc))

    def _log_density(self, x: Tensor) -> Tensor:
        z = (x - self.loc) / self.scale
        return self._bent(-z, lambda c: -(1 + 1 / c) * (c * z).log1p()) - self.scale.log()

    def _log_survival(self, x: Tensor) -> Tensor:
        z = (x - self.loc) / self.scale
        return self._bent(-z, lambda c: (c * z).log1p() / -c)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log(1 - cdf(value))."""
        return self._evaluate(self._log_survival, value)

    def log_cdf(self, value: Tensor) -> Tensor:
        """log(cdf(value))."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """exp(log_cdf(value))."""
        return self.log_cdf(value).exp()

    def _quantile(self, p: Tensor) -> Tensor:
        log_survival = torch.log1p(-p)
        return self.loc + self.scale * self._bent(-log_survival, lambda c: (-c * log_survival).expm1() / c)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + self.concentration)
