"""The normal (Gaussian) distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.location_scale import LocationScale
from flambeau.distributions.utils import formula, half_log_tau, normal_noise

__all__ = ["Normal"]


class Normal(LocationScale, ExponentialFamily):
    """exp(-((x - loc) / scale)^2 / 2) / (scale sqrt(2 pi)) for real x.

    Args: loc (float or Tensor): the mean; scale (float or Tensor): the standard deviation, > 0."""

    _parameters = ("loc", "scale")

    mean = mode = formula(lambda d: d.loc)
    stddev = formula(lambda d: d.scale)
    variance = formula(lambda d: d.scale**2)

    def _draw(self, shape: Size) -> Tensor:
        return self.scale * normal_noise(shape, self.loc) + self.loc

    def _pick(self, shape: Size) -> Tensor:
        return torch.normal(*self._spread(shape, "loc", "scale"))

    def _log_density(self, x: Tensor) -> Tensor:
        return -0.5 * self._z(x) ** 2 - (half_log_tau + self.scale.log())

    def _cumulative(self, x: Tensor) -> Tensor:
        return (torch.erf(math.sqrt(0.5) * self._z(x)) + 1) / 2

    def _quantile(self, p: Tensor) -> Tensor:
        return math.sqrt(2) * self.scale * torch.erfinv(2 * p - 1) + self.loc

    def entropy(self) -> Tensor:
        return self.scale.log() + (half_log_tau + 0.5)

    _mean_carrier_measure = 0
    _natural_params = formula(lambda d: (d.loc / d.scale**2, -0.5 / d.scale**2))

    def _log_normalizer(self, linear: Any, square: Any) -> Tensor:  # type: ignore[override]
        return 0.5 * (math.pi / -square).log() - linear**2 / (4 * square)
