"""The Cauchy (Lorentz) distribution."""

from __future__ import annotations

import math

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions.location_scale import LocationScale
from flambeau.distributions.utils import blank, formula

__all__ = ["Cauchy"]


class Cauchy(LocationScale):
    """1 / (pi scale (1 + ((x - loc) / scale)^2)) for real x; it has no mean, and an infinite variance.

    Args: loc (float or Tensor): the median; scale (float or Tensor): half the width at half the height, > 0."""

    _parameters = ("loc", "scale")

    mode = formula(lambda d: d.loc)
    mean = formula(lambda d: torch.full_like(d.loc, math.nan), "NaN.")
    variance = formula(lambda d: torch.full_like(d.loc, math.inf), "Infinite.")

    def _draw(self, shape: Size) -> Tensor:
        return self.scale * blank(shape, self.loc).cauchy_() + self.loc

    def _log_density(self, x: Tensor) -> Tensor:
        return -(math.pi * self.scale).log() - self._z(x).square().log1p()

    def _cumulative(self, x: Tensor) -> Tensor:
        return 0.5 + self._z(x).atan() / math.pi

    def _quantile(self, p: Tensor) -> Tensor:
        return torch.tan((p - 0.5) * math.pi) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return (4 * math.pi * self.scale).log()
