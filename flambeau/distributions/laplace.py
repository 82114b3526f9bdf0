"""The Laplace (double exponential) distribution."""

from __future__ import annotations

import math

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions.location_scale import LocationScale
from flambeau.distributions.utils import blank, formula

__all__ = ["Laplace"]


class Laplace(LocationScale):
    """exp(-|x - loc| / scale) / (2 scale) for real x.

    Args: loc (float or Tensor): the mean; scale (float or Tensor): the mean distance from it, > 0."""

    _parameters = ("loc", "scale")

    mean = mode = formula(lambda d: d.loc)
    stddev = formula(lambda d: math.sqrt(2) * d.scale)
    variance = formula(lambda d: 2 * d.scale**2)

    def _at_side(self, side: Tensor) -> Tensor:
        """The value beyond which, on the side of the sign of `side`, lies a share 1 - |side| of that half."""
        return self.loc - self.scale * side.sign() * torch.log1p(-side.abs())

    def _draw(self, shape: Size) -> Tensor:
        eps = torch.finfo(self.loc.dtype).eps
        return self._at_side(blank(shape, self.loc).uniform_(eps - 1, 1))

    def _log_density(self, x: Tensor) -> Tensor:
        return -(self._z(x).abs() + (2 * self.scale).log())

    def _cumulative(self, x: Tensor) -> Tensor:
        z = self._z(x)
        return (1 - z.sign() * (-z.abs()).expm1()) / 2

    def _quantile(self, p: Tensor) -> Tensor:
        return self._at_side(2 * (p - 0.5))

    def entropy(self) -> Tensor:
        return (2 * self.scale).log() + 1
