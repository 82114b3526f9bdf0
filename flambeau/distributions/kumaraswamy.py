"""The Kumaraswamy distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms_elementwise import AffineTransform, PowerTransform
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.utils import euler_constant, formula, log_beta

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """(1 - u^(1 / b))^(1 / a) for u uniform: a b x^(a - 1) (1 - x^a)^(b - 1) for 0 <= x <= 1.

    Args: concentration1 (float or Tensor): a > 0; concentration0 (float or Tensor): b > 0."""

    has_rsample = True
    _parameters = ("concentration1", "concentration0")
    support = constraints.unit_interval
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    concentration1: Tensor
    concentration0: Tensor

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._set(concentration1=concentration1, concentration0=concentration0)
        bounds = (torch.full_like(self.concentration1, bound) for bound in (0, 1))
        unit = Uniform(*bounds, validate_args=validate_args)
        super().__init__(unit, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        of_a, of_b = (PowerTransform(c.reciprocal()) for c in (self.concentration1, self.concentration0))
        return [of_b, AffineTransform(1.0, -1.0), of_a]

    def _moment(self, n: int) -> Tensor:
        """The mean of x^n: b B(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        return b * log_beta(1 + n / a, b).exp()

    mean = formula(lambda d: d._moment(1))
    variance = formula(lambda d: d._moment(2) - d.mean**2)

    @property
    def mode(self) -> Tensor:
        """NaN where either concentration is below 1."""
        a, b = self.concentration1, self.concentration0
        return torch.where((a < 1) | (b < 1), torch.nan, ((a - 1) / (a * b - 1)) ** (1 / a))

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = euler_constant + (b + 1).digamma()
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()
