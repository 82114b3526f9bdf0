"""The log-normal distribution."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.location_scale import LOCATION_SCALE
from flambeau.distributions.normal import Normal
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms_elementwise import ExpTransform
from flambeau.distributions.utils import formula, forwarded

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """exp(x) for x normal; > 0.

    Args: loc (float or Tensor): the mean of the logarithm; scale (float or Tensor): its standard deviation, > 0."""

    has_rsample = True
    _parameters = ()
    support = constraints.positive
    arg_constraints = LOCATION_SCALE

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        logarithm = Normal(loc, scale, validate_args=validate_args)
        super().__init__(logarithm, ExpTransform(), validate_args=validate_args)

    loc = forwarded("base_dist.loc", "The mean of the logarithm.")
    scale = forwarded("base_dist.scale", "The standard deviation of the logarithm.")
    mode = formula(lambda d: (d.loc - d.scale**2).exp())
    mean = formula(lambda d: (d.loc + 0.5 * d.scale**2).exp())
    variance = formula(lambda d: (d.scale**2).expm1() * (d.scale**2 + 2 * d.loc).exp())

    def entropy(self) -> Tensor:
        return self.loc + self.base_dist.entropy()
