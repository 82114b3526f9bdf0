"""The relaxed categorical (Gumbel softmax, concrete) distribution and its logarithm's (Maddison, Mnih and Teh,
2017; Jang, Gu and Poole, 2017)."""

from __future__ import annotations

import math
from typing import Any

from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.categorical import WEIGHTS, Categorical, OfCategories
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms_elementwise import ExpTransform
from flambeau.distributions.utils import clamp_probs, forwarded, uniform_noise

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OfCategories, Distribution):
    """The logarithm of a relaxed categorical variable: log softmax((logits + Gumbel noise) / temperature), real
    vectors.

    Args: temperature (Tensor): > 0; probs (Tensor): batch_shape + (K,); or logits (Tensor)."""

    has_rsample = True
    _parameters = ()
    _inner = ("_categorical",)
    _copied = ("temperature",)
    support = constraints.real_vector

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self.temperature = temperature
        self._categorical = Categorical(probs, logits)
        super().__init__(self.param_shape[:-1], self.param_shape[-1:], validate_args=validate_args)

    def _draw(self, shape: Size) -> Tensor:
        exponential = -clamp_probs(uniform_noise(shape, self.logits)).log()
        return ((self.logits - exponential.log()) / self.temperature).log_softmax(-1)

    def _log_density(self, x: Tensor) -> Tensor:
        k = self._event_shape[0]
        shares = (self.logits - self.temperature * x).log_softmax(-1)
        return math.lgamma(k) + (k - 1) * self.temperature.log() + shares.sum(-1)


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors of the simplex that tend to the unit vectors of a categorical distribution as the temperature falls,
    with a gradient.

    Args: temperature (Tensor): > 0; probs (Tensor): batch_shape + (K,), weights that are normalised; or logits
    (Tensor)."""

    has_rsample = True
    _parameters = ()
    support = constraints.simplex
    arg_constraints = WEIGHTS

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(
            ExpRelaxedCategorical(temperature, probs, logits, validate_args), ExpTransform(), validate_args=validate_args
        )

    temperature = forwarded("base_dist.temperature", "The temperature.")
    probs = forwarded("base_dist.probs", "The probabilities.")
    logits = forwarded("base_dist.logits", "The logarithms of the probabilities.")
