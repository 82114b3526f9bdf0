"""The absolute values of numbers distributed symmetrically about zero: what half-normal and half-Cauchy share."""

from __future__ import annotations

import math

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms_elementwise import AbsTransform
from flambeau.distributions.utils import formula, forwarded

LOG_2 = math.log(2)


class Folded(TransformedDistribution):
    """|x| for x of a distribution that is symmetric about zero: twice its density at positive values."""

    has_rsample = True
    scale = forwarded("base_dist.scale", "The scale of the distribution that is folded.")
    cdf = Distribution.cdf  # validates by the support of its own
    mode = formula(lambda d: torch.zeros_like(d.scale))

    def _fold(self, base: Distribution, validate_args: bool | None) -> None:
        TransformedDistribution.__init__(self, base, AbsTransform(), validate_args=validate_args)

    def _log_density(self, x: Tensor) -> Tensor:
        return torch.where(x >= 0, LOG_2 + self.base_dist.log_prob(x), -math.inf)

    def _cumulative(self, x: Tensor) -> Tensor:
        return self.base_dist.cdf(x) * 2 - 1

    def _quantile(self, p: Tensor) -> Tensor:
        return self.base_dist.icdf(0.5 + p / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - LOG_2
