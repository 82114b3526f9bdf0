"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.odds import ODDS, Odds
from flambeau.distributions.utils import formula
from flambeau.nn.functional import logsigmoid

__all__ = ["Binomial"]


class Binomial(Odds, Distribution):
    """The number of successes in n = total_count trials: C(n, k) probs^k (1 - probs)^(n - k) for k = 0 .. n.

    Args: total_count (int or Tensor): >= 0; probs (Tensor): of a success, in [0, 1]; or logits (Tensor)."""

    _parameters = ("total_count", "probs", "logits")
    has_enumerate_support = True
    arg_constraints = {"total_count": constraints.nonnegative_integer, **ODDS}
    total_count: Tensor

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        (count,) = self._set_odds(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self.param_shape, validate_args=validate_args)

    support = constraints.dependent_property(
        lambda d: constraints.integer_interval(0, d.total_count), is_discrete=True, event_dim=0
    )
    mean = formula(lambda d: d.total_count * d.probs)
    mode = formula(lambda d: torch.minimum(((d.total_count + 1) * d.probs).floor(), d.total_count))
    variance = formula(lambda d: d.total_count * d.probs * (1 - d.probs))

    def _pick(self, shape: Size) -> Tensor:
        return torch.binomial(*self._spread(shape, "total_count", "probs"))

    def _log_density(self, k: Tensor) -> Tensor:
        n, rest = self.total_count, self.total_count - k
        ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(rest + 1)
        return ways + k * self.logits + n * logsigmoid(-self.logits)

    def _trials(self, name: str) -> int:
        """n, if it is the same for the whole batch. Raises NotImplementedError, naming what needs it, if not."""
        least, most = self.total_count.min(), self.total_count.max()
        if least != most:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{name}`.")
        return int(most)

    def entropy(self) -> Tensor:
        self._trials("entropy")
        logs = self.log_prob(self.enumerate_support(False))
        return -(logs * logs.exp()).sum(0)

    def _outcomes(self) -> Tensor:
        return self._counts(self._trials("enumerate_support"))
