"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.location_scale import LOCATION_SCALE
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms_elementwise import AffineTransform, ExpTransform
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.utils import euler_constant, formula

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """loc - scale log(-log(u)) for u uniform: exp(-y - exp(-y)) / scale with y = (x - loc) / scale, for real x.

    Args: loc (float or Tensor): the mode; scale (float or Tensor): > 0."""

    _parameters = ("loc", "scale")
    support = constraints.real
    arg_constraints = LOCATION_SCALE
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set(loc=loc, scale=scale)
        limits = torch.finfo(self.loc.dtype)
        bounds: Any = (limits.tiny, 1 - limits.eps)
        if isinstance(loc, Tensor) or isinstance(scale, Tensor):
            bounds = [torch.full_like(self.loc, bound) for bound in bounds]
        super().__init__(Uniform(*bounds, validate_args=validate_args), self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        log = ExpTransform().inv
        return [log, AffineTransform(0, -torch.ones_like(self.scale)), log, AffineTransform(self.loc, -self.scale)]

    mode = formula(lambda d: d.loc)
    mean = formula(lambda d: d.loc + euler_constant * d.scale)
    stddev = formula(lambda d: d.scale * (math.pi / math.sqrt(6)))
    variance = formula(lambda d: (math.pi * d.scale) ** 2 / 6)

    def _log_density(self, x: Tensor) -> Tensor:
        y = (x - self.loc) / self.scale
        return -(y + (-y).exp() + self.scale.log())

    def entropy(self) -> Tensor:
        return 1 + euler_constant + self.scale.log()
