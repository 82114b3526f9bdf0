"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.categorical import Categorical, OfCategories
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import blank, broadcast_all, formula

__all__ = ["Multinomial"]


class Multinomial(OfCategories, Distribution):
    """How often each of K categories comes in n = total_count draws: n! / prod k_i! prod probs_i^k_i.

    Args: total_count (int); probs (Tensor): batch_shape + (K,), weights >= 0 that are normalised to sum to one; or
    logits (Tensor). Raises NotImplementedError for a total_count that is no int."""

    _parameters = ()
    _inner = ("_categorical",)
    _copied = ("total_count",)
    total_count: int

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self._categorical = Categorical(probs, logits)
        self._binomial = Binomial(total_count, self.probs)  # the counts of each category
        self.total_count = total_count
        super().__init__(self.param_shape[:-1], self.param_shape[-1:], validate_args=validate_args)

    def _fill_expanded(self, source: Any, batch_shape: Size) -> None:
        super()._fill_expanded(source, batch_shape)
        self._binomial = source._binomial.expand(batch_shape + source._event_shape)

    support = constraints.dependent_property(lambda d: constraints.multinomial(d.total_count), is_discrete=True, event_dim=1)
    mean = formula(lambda d: d.total_count * d.probs)
    variance = formula(lambda d: d._binomial.variance)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = blank(self._extended_shape(sample_shape), self.probs).zero_()
        return counts.scatter_add_(-1, drawn, torch.ones_like(drawn, dtype=counts.dtype))

    def _log_density(self, k: Tensor) -> Tensor:
        k, logits = broadcast_all(k, self.logits)
        logits = torch.where((k == 0) & logits.isneginf(), 0, logits)
        return (k.sum(-1) + 1).lgamma() + (k * logits - (k + 1).lgamma()).sum(-1)

    def entropy(self) -> Tensor:
        n = torch.tensor(self.total_count)
        k = self._binomial.enumerate_support(expand=False)[1:]
        # the mean of log k! of every category, whose counts are binomial
        factorials = ((k + 1).lgamma() * self._binomial.log_prob(k).exp()).sum((0, -1))
        return n * self._categorical.entropy() + factorials - (n + 1).lgamma()
