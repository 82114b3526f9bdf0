"""What distributions given by probabilities or by their logits share."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.utils import broadcast_all, formula, forwarded, lazy_property, logits_to_probs, probs_to_logits
from flambeau.nn.functional import binary_cross_entropy_with_logits


def one_of(probs: Any, logits: Any) -> tuple[str, Any]:
    """The name and the value of the one that is given. Raises ValueError unless exactly one of the two is."""
    given = [(name, value) for name, value in (("probs", probs), ("logits", logits)) if value is not None]
    if len(given) != 1:
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return given[0]


ODDS = {"probs": constraints.unit_interval, "logits": constraints.real}


class Odds:
    """`probs` and `logits` of yes or no: whichever wasn't given follows from the other, once it is asked for."""

    _is_binary = True
    arg_constraints: Any = ODDS

    def _set_odds(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        """Set the one that is given, broadcast with `others`; returns these, broadcast."""
        name, value = one_of(probs, logits)
        *rest, value = broadcast_all(*others, value)
        setattr(self, name, value)
        return tuple(rest)

    @property
    def _param(self) -> Tensor:
        """The one that was given, or asked for first."""
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, self._is_binary)

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds."""
        return probs_to_logits(self.probs, self._is_binary)

    param_shape = formula(lambda d: d._param.size(), "The shape of `probs` and `logits`.")
    _new = forwarded("_param.new")

    def _log_likelihood(self, x: Any) -> Tensor:
        """x log(probs) + (1 - x) log(1 - probs)."""
        logits, x = broadcast_all(self.logits, x)
        return -binary_cross_entropy_with_logits(logits, x, reduction="none")

    def _counts(self, most: int) -> Tensor:
        """0 .. most, of the parameters' dtype."""
        return torch.arange(most + 1, dtype=self._param.dtype, device=self._param.device)
