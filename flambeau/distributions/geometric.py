"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.odds import Odds
from flambeau.distributions.utils import blank, formula

__all__ = ["Geometric"]


class Geometric(Odds, Distribution):
    """The number of failures before the first success: probs (1 - probs)^k for k = 0, 1, ...

    Args: probs (number or Tensor): in (0, 1]; or logits (number or Tensor). Raises ValueError for probabilities
    that are 0."""

    _parameters = ("probs", "logits")
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_odds(probs, logits)
        super().__init__(self.param_shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not self.probs.gt(0).all():
            given = self.probs
            raise ValueError(
                f"Expected parameter probs ({type(given).__name__} of shape {tuple(given.shape)}) of distribution {self!r} "
                f"to be positive but found invalid values:\n{given[~given.gt(0)]}"
            )

    mean = formula(lambda d: 1 / d.probs - 1)
    mode = formula(lambda d: torch.zeros_like(d.probs))
    variance = formula(lambda d: (1 / d.probs - 1) / d.probs)

    def _pick(self, shape: Size) -> Tensor:
        p = self.probs
        survival = blank(shape, p).uniform_(torch.finfo(p.dtype).tiny, 1)
        return (survival.log() / (-p).log1p()).floor()

    def _log_density(self, k: Tensor) -> Tensor:
        p = self.probs
        failure = torch.where((p == 1) & (k == 0), 0, p)  # 0 log(0) is 0
        return p.log() + k * (-failure).log1p()

    def entropy(self) -> Tensor:
        return -self._log_likelihood(self.probs) / self.probs
