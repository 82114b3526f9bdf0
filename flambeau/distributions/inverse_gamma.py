"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms_elementwise import PowerTransform
from flambeau.distributions.utils import formula, forwarded

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """1 / x for x of a gamma distribution; > 0.

    Args: concentration (float or Tensor): the shape, > 0; rate (float or Tensor): the gamma distribution's, > 0."""

    has_rsample = True
    _parameters = ()
    support = constraints.positive
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        inverse = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(inverse, PowerTransform(inverse.rate.new_full((), -1)), validate_args=validate_args)

    concentration = forwarded("base_dist.concentration", "The shape.")
    rate = forwarded("base_dist.rate", "The gamma distribution's rate.")
    mode = formula(lambda d: d.rate / (1 + d.concentration))
    mean = formula(
        lambda d: torch.where(d.concentration > 1, d.rate / (d.concentration - 1), math.inf),
        "Infinite for a concentration of at most 1.",
    )

    @property
    def variance(self) -> Tensor:
        """Infinite for a concentration of at most 2."""
        c = self.concentration
        return torch.where(c > 2, (self.rate / (c - 1)) ** 2 / (c - 2), math.inf)

    def entropy(self) -> Tensor:
        c = self.concentration
        return c + c.lgamma() - (1 + c) * c.digamma() + self.rate.log()
