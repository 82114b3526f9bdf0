"""The relaxed Bernoulli (binary concrete) distribution and its logit's (Maddison, Mnih and Teh, 2017; Jang, Gu and
Poole, 2017)."""

from __future__ import annotations

from typing import Any

from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.odds import ODDS, Odds
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms_elementwise import SigmoidTransform
from flambeau.distributions.utils import clamp_probs, forwarded, log_odds, uniform_noise

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(Odds, Distribution):
    """The logit of a relaxed Bernoulli variable: (logits + l) / temperature with l logistic; real.

    Args: temperature (Tensor): > 0; probs (number or Tensor): in (0, 1); or logits (number or Tensor)."""

    _parameters = ("probs", "logits")
    _copied = ("temperature",)
    support = constraints.real

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_odds(probs, logits)
        self.temperature = temperature
        super().__init__(self.param_shape, validate_args=validate_args)

    def _draw(self, shape: Size) -> Tensor:
        logistic = log_odds(clamp_probs(uniform_noise(shape, self._param)))
        return (log_odds(clamp_probs(self.probs)) + logistic) / self.temperature

    def _log_density(self, x: Tensor) -> Tensor:
        away = self.logits - self.temperature * x
        return away - 2 * away.exp().log1p() + self.temperature.log()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1 that tend to a Bernoulli variable as the temperature falls, with a gradient.

    Args: temperature (Tensor): > 0; probs (number or Tensor): in (0, 1); or logits (number or Tensor)."""

    has_rsample = True
    _parameters = ()
    support = constraints.unit_interval
    arg_constraints = ODDS

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        logit = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(logit, SigmoidTransform(), validate_args=validate_args)

    temperature = forwarded("base_dist.temperature", "The temperature.")
    probs = forwarded("base_dist.probs", "The probabilities.")
    logits = forwarded("base_dist.logits", "The log odds.")
