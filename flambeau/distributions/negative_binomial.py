"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.odds import ODDS, Odds
from flambeau.distributions.utils import formula, lazy_property
from flambeau.nn.functional import logsigmoid

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Odds, Distribution):
    """The number of successes before n = total_count failures: C(n + k - 1, k) probs^k (1 - probs)^n for k = 0, 1,
    ...

    Sampled as a Poisson distribution whose rate is a gamma distribution's.

    Args: total_count (float or Tensor): >= 0, not necessarily whole; probs (Tensor): of a success, in [0, 1); or
    logits (Tensor)."""

    _parameters = ("total_count", "probs", "logits")
    support = constraints.nonnegative_integer
    arg_constraints = {"total_count": constraints.greater_than_eq(0), **ODDS, "probs": constraints.half_open_interval(0.0, 1.0)}
    total_count: Tensor

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        (count,) = self._set_odds(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self.param_shape, validate_args=validate_args)

    mean = formula(lambda d: d.logits.exp() * d.total_count)
    mode = formula(lambda d: (d.logits.exp() * (d.total_count - 1)).floor().clamp(min=0))
    variance = formula(lambda d: d.mean * (1 + d.logits.exp()))

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape))

    def _log_density(self, k: Tensor) -> Tensor:
        n = self.total_count
        ways = torch.lgamma(n + k) - torch.lgamma(k + 1.0) - torch.lgamma(n)
        return torch.where(n + k == 0, 0, ways) + k * logsigmoid(self.logits) + n * logsigmoid(-self.logits)
