"""The Bernoulli distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.odds import Odds
from flambeau.distributions.utils import formula

__all__ = ["Bernoulli"]


class Bernoulli(Odds, ExponentialFamily):
    """One with the probability probs, else zero.

    Args: probs (number or Tensor): in [0, 1]; or logits (number or Tensor): log(probs / (1 - probs))."""

    _parameters = ("probs", "logits")
    has_enumerate_support = True
    support = constraints.boolean

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_odds(probs, logits)
        super().__init__(self.param_shape, validate_args=validate_args)

    mean = formula(lambda d: d.probs)
    mode = formula(lambda d: torch.where(d.probs == 0.5, torch.nan, (d.probs > 0.5).to(d.probs)), "NaN for a probability of 1/2.")
    variance = formula(lambda d: d.probs * (1 - d.probs))

    def _pick(self, shape: Size) -> Tensor:
        return self.probs.expand(shape).bernoulli()

    def _log_density(self, x: Tensor) -> Tensor:
        return self._log_likelihood(x)

    def entropy(self) -> Tensor:
        return -self._log_likelihood(self.probs)

    def _outcomes(self) -> Tensor:
        return self._counts(1)

    _mean_carrier_measure = 0
    _natural_params = formula(lambda d: (d.probs.logit(),))

    def _log_normalizer(self, eta: Any) -> Tensor:  # type: ignore[override]
        return eta.exp().log1p()
