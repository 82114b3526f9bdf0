"""The Fisher-Snedecor distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.utils import log_beta

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The quotient of two chi-squared numbers, each divided by its degrees of freedom, x > 0; the density is
    r^(df1 / 2) x^(df1 / 2 - 1) (1 + r x)^(-(df1 + df2) / 2) / B(df1 / 2, df2 / 2) with r = df1 / df2.

    Args: df1, df2 (float or Tensor): the degrees of freedom, > 0."""

    has_rsample = True
    _parameters = ("df1", "df2")
    _inner = ("_gamma1", "_gamma2")
    support = constraints.positive
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        batch_shape = self._set(df1=df1, df2=df2)
        # with rate df for a shape of df / 2 each has the mean 1/2
        self._gamma1, self._gamma2 = (Gamma(0.5 * df, df) for df in (self.df1, self.df2))
        super().__init__(batch_shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """df2 / (df2 - 2), NaN for df2 <= 2."""
        n = self.df2
        return torch.where(n > 2, n / (n - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """NaN for df1 <= 2."""
        m, n = self.df1, self.df2
        return torch.where(m > 2, (m - 2) / m * (n / (n + 2)), math.nan)

    @property
    def variance(self) -> Tensor:
        """NaN for df2 <= 4."""
        m, n = self.df1, torch.where(self.df2 > 4, self.df2, math.nan)
        return 2 * (n / (n - 2)).square() * (m + n - 2) / (m * (n - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        numerator, denominator = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        tiny = torch.finfo(denominator.dtype).tiny
        return (numerator / denominator.clamp_(min=tiny)).clamp_(min=tiny)

    def _log_density(self, x: Tensor) -> Tensor:
        a, b, y = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        return a * y.log() + (a - 1) * torch.log(x) - (a + b) * (y * x).log1p() - log_beta(a, b)
