"""The categorical distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.odds import Odds, one_of
from flambeau.distributions.utils import formula, forwarded

__all__ = ["Categorical"]


WEIGHTS = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(Odds, Distribution):
    """The numbers 0 .. K - 1 with probabilities, int64.

    Args: probs (Tensor): batch_shape + (K,), weights >= 0 that are normalised to sum to one; or logits (Tensor):
    logarithms of weights. Raises ValueError for a tensor without dimensions."""

    _parameters = ("probs", "logits")
    _copied = ("_num_events",)
    _is_binary = False
    has_enumerate_support = True
    arg_constraints = WEIGHTS

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, weights = one_of(probs, logits)
        if weights.dim() == 0:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        total = weights.sum(-1, keepdim=True) if name == "probs" else weights.logsumexp(-1, keepdim=True)
        setattr(self, name, weights / total if name == "probs" else weights - total)
        *batch_shape, self._num_events = weights.shape
        super().__init__(batch_shape, validate_args=validate_args)

    support = constraints.dependent_property(
        lambda d: constraints.integer_interval(0, d._num_events - 1), is_discrete=True, event_dim=0
    )
    mean = variance = formula(lambda d: torch.full_like(d.probs[..., 0], math.nan), "NaN: categories are no numbers.")
    mode = formula(lambda d: d.probs.argmax(-1))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        count = Size(sample_shape).numel()
        with torch.no_grad():
            drawn = self.probs.reshape(-1, self._num_events).multinomial(count, replacement=True)  # (rows, samples)
        return drawn.mT.reshape(self._extended_shape(sample_shape))

    def _log_density(self, k: Tensor) -> Tensor:
        k, logits = torch.broadcast_tensors(k.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, k[..., :1])[..., 0]

    def entropy(self) -> Tensor:
        least = torch.finfo(self.logits.dtype).min  # so that 0 times minus infinity is 0
        return -(self.probs * self.logits.clamp(min=least)).sum(-1)

    def _outcomes(self) -> Tensor:
        return torch.arange(self._num_events, device=self._param.device)


class OfCategories:
    """What distributions made of a Categorical, their `_categorical`, share."""

    arg_constraints = WEIGHTS
    probs = forwarded("_categorical.probs", "The probabilities.")
    logits = forwarded("_categorical.logits", "The logarithms of the probabilities.")
    param_shape = forwarded("_categorical.param_shape", "The shape of `probs` and `logits`.")
    _param = forwarded("_categorical._param")
    _new = forwarded("_categorical._new")
