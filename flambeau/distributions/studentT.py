"""Student's t-distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.chi2 import Chi2
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import formula, log_beta, normal_noise

__all__ = ["StudentT"]


class StudentT(Distribution):
    """loc + scale z / sqrt(c / df) with z standard normal and c chi-squared; the density is
    gamma((df + 1) / 2) / gamma(df / 2) / (scale sqrt(pi df)) (1 + y^2 / df)^(-(df + 1) / 2) with y = (x - loc) /
    scale, for real x.

    Args: df (float or Tensor): the degrees of freedom, > 0; loc, scale (float or Tensor): scale > 0."""

    has_rsample = True
    _parameters = ("df", "loc", "scale")
    _inner = ("_chi2",)
    support = constraints.real
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        batch_shape = self._set(df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df)
        super().__init__(batch_shape, validate_args=validate_args)

    mode = formula(lambda d: d.loc)
    mean = formula(lambda d: torch.where(d.df > 1, d.loc, math.nan), "loc where df > 1, else NaN.")

    @property
    def variance(self) -> Tensor:
        """Infinite for 1 < df <= 2, NaN for df <= 1."""
        n = self.df
        finite = self.scale**2 * (n / (n - 2))
        return torch.where(n > 2, finite, torch.where(n > 1, torch.full_like(n, math.inf), math.nan))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        z = normal_noise(self._extended_shape(sample_shape), self.df)
        return self.loc + self.scale * z * (self.df / self._chi2.rsample(sample_shape)).sqrt()

    def _log_norm(self) -> Tensor:
        """The logarithm of scale sqrt(df) B(df / 2, 1 / 2)."""
        half = self.df / 2
        return (self.scale * self.df.sqrt()).log() + log_beta(half, torch.full_like(half, 0.5))

    def _log_density(self, x: Tensor) -> Tensor:
        y = (x - self.loc) / self.scale
        return -(self.df + 1) / 2 * (y * y / self.df).log1p() - self._log_norm()

    def entropy(self) -> Tensor:
        half, more = self.df / 2, (self.df + 1) / 2
        return more * (more.digamma() - half.digamma()) + self._log_norm()
