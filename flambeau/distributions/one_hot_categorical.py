"""Categorical distributions over vectors of zeros and a single one."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.categorical import Categorical, OfCategories
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import formula
from flambeau.nn.functional import one_hot

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OfCategories, Distribution):
    """The unit vectors of K dimensions with probabilities.

    Args: probs (Tensor): batch_shape + (K,), weights >= 0 that are normalised to sum to one; or logits (Tensor):
    logarithms of weights."""

    _parameters = ()
    _inner = ("_categorical",)
    has_enumerate_support = True
    support = constraints.one_hot

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self.param_shape[:-1], self.param_shape[-1:], validate_args=validate_args)

    def _unit(self, category: Tensor) -> Tensor:
        """The unit vectors of categories."""
        return one_hot(category, self._event_shape[0]).to(self.probs)

    mean = formula(lambda d: d.probs)
    mode = formula(lambda d: d._unit(d._categorical.mode))
    variance = formula(lambda d: d.probs * (1 - d.probs))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._unit(self._categorical.sample(sample_shape))

    def _log_density(self, x: Tensor) -> Tensor:
        return self._categorical.log_prob(x.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def _outcomes(self) -> Tensor:
        return torch.eye(self._event_shape[0], dtype=self._param.dtype, device=self._param.device)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples have the gradient of the probabilities (Bengio, Leonard and Courville,
    2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        p = self.probs  # cached with its history
        return self.sample(sample_shape) + (p - p.detach())
