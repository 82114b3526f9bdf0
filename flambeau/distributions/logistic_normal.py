"""The logistic-normal distribution."""

from __future__ import annotations

from typing import Any

from flambeau.distributions import constraints
from flambeau.distributions.location_scale import LOCATION_SCALE
from flambeau.distributions.normal import Normal
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms_arrays import StickBreakingTransform
from flambeau.distributions.utils import forwarded

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Vectors of the simplex: normal numbers, one fewer than the vector is long, that break a stick.

    Args: loc, scale (float or Tensor): of the normal numbers along the last dimension, scale > 0."""

    has_rsample = True
    _parameters = ()
    support = constraints.simplex
    arg_constraints = LOCATION_SCALE

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        numbers = Normal(loc, scale, validate_args=validate_args)
        numbers = numbers if numbers.batch_shape else numbers.expand((1,))
        super().__init__(numbers, StickBreakingTransform(), validate_args=validate_args)

    loc = forwarded("base_dist.base_dist.loc", "The means of the normal numbers.")
    scale = forwarded("base_dist.base_dist.scale", "Their standard deviations.")
