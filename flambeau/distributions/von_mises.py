"""The von Mises distribution on the circle."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import formula, lazy_property

__all__ = ["VonMises"]


class VonMises(Distribution):
    """exp(concentration cos(x - loc)) / (2 pi I0(concentration)) for angles x; real, samples lie in [-pi, pi).

    Samples by Best and Fisher, "Efficient simulation of the von Mises distribution" (1979), in float64.

    Args: loc (Tensor): the mean angle; concentration (Tensor): > 0."""

    _parameters = ("loc", "concentration")
    support = constraints.real
    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._broadcast(validate_args, loc=loc, concentration=concentration)

    mean = mode = formula(lambda d: d.loc, "The circular mean.")

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1 / I0."""
        kappa = self.concentration
        return 1 - torch.special.i1e(kappa) / torch.special.i0e(kappa)

    def _log_density(self, x: Tensor) -> Tensor:
        kappa = self.concentration
        # i0e is I0 exp(-kappa)
        return kappa * ((x - self.loc).cos() - 1) - (2 * math.pi * torch.special.i0e(kappa)).log()

    @lazy_property
    def _envelope(self) -> Tensor:
        """The parameter r of the wrapped Cauchy distribution that lies above the density."""
        kappa = self.concentration.to(torch.float64)
        tau = (4 * kappa**2 + 1).sqrt() + 1
        rho = (tau - (tau + tau).sqrt()) / (2 * kappa)
        exact = (rho + 1 / rho) / 2
        # of a small concentration, whose square is lost beside one, the series
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, exact)

    def _pick(self, shape: Size) -> Tensor:
        loc, kappa, r = (x.to(torch.float64).expand(shape) for x in (self.loc, self.concentration, self._envelope))
        angle, waiting = torch.zeros_like(loc), torch.ones_like(loc, dtype=torch.bool)
        while waiting.any():
            u1, u2, u3 = torch.rand((3, *shape), dtype=torch.float64, device=loc.device)
            z = (math.pi * u1).cos()
            f = (1 + r * z) / (r + z)
            c = kappa * (r - f)
            accepted = (u2 < c * (2 - c)) | ((c / u2).log() >= c - 1)
            angle = torch.where(accepted, f.acos() * (u3 - 0.5).sign(), angle)
            waiting = waiting & ~accepted
        return ((loc + angle + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)
