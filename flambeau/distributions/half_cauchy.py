"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.cauchy import Cauchy
from flambeau.distributions.folded import Folded
from flambeau.distributions.utils import formula

__all__ = ["HalfCauchy"]


class HalfCauchy(Folded):
    """|x| for x of the Cauchy distribution about 0; >= 0. Its mean and variance are infinite.

    Args: scale (float or Tensor): the Cauchy distribution's, > 0."""

    _parameters = ()
    support = constraints.nonnegative
    arg_constraints = {"scale": constraints.positive}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._fold(Cauchy(0, scale, validate_args=False), validate_args)

    mean = variance = formula(lambda d: torch.full_like(d.scale, math.inf), "Infinite.")

    def _log_density(self, x: Any) -> Tensor:
        return super()._log_density(torch.as_tensor(x, dtype=self.scale.dtype, device=self.scale.device))
