"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms_elementwise import AffineTransform, PowerTransform
from flambeau.distributions.utils import euler_constant, formula

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """scale e^(1 / k) for e exponential of rate 1 and k the concentration: 1 - F(x) = exp(-(x / scale)^k), x > 0.

    Args: scale (float or Tensor): > 0; concentration (float or Tensor): the shape k > 0."""

    _parameters = ("scale", "concentration")
    support = constraints.positive
    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set(concentration=concentration, scale=scale)
        unit = Exponential(torch.ones_like(self.scale), validate_args=validate_args)
        super().__init__(unit, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        self.concentration_reciprocal = self.concentration.reciprocal()
        return [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]

    def _moment(self, n: int) -> Tensor:
        """The mean of x^n: scale^n gamma(1 + n / k)."""
        return self.scale**n * (1 + n * self.concentration_reciprocal).lgamma().exp()

    mean = formula(lambda d: d._moment(1))
    variance = formula(lambda d: d._moment(2) - d._moment(1) ** 2)
    mode = formula(
        lambda d: d.scale * ((d.concentration - 1) / d.concentration) ** d.concentration_reciprocal,
        "scale (1 - 1 / k)^(1 / k), which is the mode for k >= 1.",
    )

    def entropy(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return 1 + self.scale.log() + inverse.log() + (1 - inverse) * euler_constant
