"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any

from flambeau.distributions import constraints
from flambeau.distributions.folded import Folded
from flambeau.distributions.normal import Normal
from flambeau.distributions.utils import formula

__all__ = ["HalfNormal"]


class HalfNormal(Folded):
    """|x| for x normal of mean 0; >= 0.

    Args: scale (float or Tensor): the normal distribution's standard deviation, > 0."""

    _parameters = ()
    support = constraints.nonnegative
    arg_constraints = {"scale": constraints.positive}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._fold(Normal(0, scale, validate_args=False), validate_args)

    mean = formula(lambda d: math.sqrt(2 / math.pi) * d.scale)
    variance = formula(lambda d: (1 - 2 / math.pi) * d.scale**2)
