"""The continuous Bernoulli distribution (Loaiza-Ganem and Cunningham, 2019)."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.odds import Odds
from flambeau.distributions.utils import clamp_probs, formula, lazy_property, log_odds, logits_to_probs, uniform_noise

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(Odds, ExponentialFamily):
    """C probs^x (1 - probs)^(1 - x) for 0 <= x <= 1, with C = 2 atanh(1 - 2 probs) / (1 - 2 probs).

    Args: probs (number or Tensor): in (0, 1); or logits (number or Tensor); lims (pair of float): the range of
    probs about 1/2, where the formulas lose digits, in which Taylor's series are used."""

    has_rsample = True
    _parameters = ("probs", "logits")
    _copied = ("_lims",)
    support = constraints.unit_interval

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None
    ) -> None:
        self._lims = lims
        self._set_odds(probs, logits)
        if "probs" in vars(self):
            valid = validate_args is None or constraints.unit_interval.check(self.probs).all()
            if not valid:
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        super().__init__(self.param_shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities, moved away from 0 and 1 so that their logits are finite."""
        return clamp_probs(logits_to_probs(self.logits, True))

    def _steep(self) -> Tensor:
        """Where the probabilities are out of the range of the series."""
        low, high = self._lims
        return (self.probs <= low) | (self.probs > high)

    def _either(self, exact: Any, series: Any) -> Tensor:
        """`exact(p, logit)` of the probabilities out of the range of the series, `series(p - 1/2)` inside it."""
        steep = self._steep()
        p = torch.where(steep, self.probs, self._lims[0])
        return torch.where(steep, exact(p, log_odds(p)), series(self.probs - 0.5))

    def _cont_bern_log_norm(self) -> Tensor:
        """log C = log |logit| - log |1 - 2 probs|, the same for probs and 1 - probs."""
        return self._either(
            lambda p, logit: logit.abs().log() - (-2 * torch.minimum(p, 1 - p)).log1p(),
            lambda h: math.log(2) + h**2 * (4 / 3 + 104 / 45 * h**2),
        )

    mean = formula(
        lambda d: d._either(lambda p, logit: p / (2 * p - 1) - 1 / logit, lambda h: 1 / 2 + h * (1 / 3 + 16 / 45 * h**2))
    )
    variance = formula(
        lambda d: d._either(
            lambda p, logit: logit**-2 - p * (1 - p) / (1 - 2 * p) ** 2, lambda h: 1 / 12 - h**2 * (1 / 15 - 128 / 945 * h**2)
        )
    )

    def _draw(self, shape: Size) -> Tensor:
        return self._quantile(uniform_noise(shape, self.probs))

    def _log_density(self, x: Tensor) -> Tensor:
        return self._cont_bern_log_norm() + self._log_likelihood(x)

    def _cumulative(self, x: Tensor) -> Tensor:
        return self._either(lambda p, logit: (x * logit).expm1() / logit.expm1(), lambda h: x).clamp(0, 1)

    def _quantile(self, p: Tensor) -> Tensor:
        return self._either(lambda _, logit: (p * logit.expm1()).log1p() / logit, lambda h: p)

    def entropy(self) -> Tensor:
        yes, no = self.probs.log(), (-self.probs).log1p()
        return -(self._cont_bern_log_norm() + self.mean * (yes - no) + no)

    _mean_carrier_measure = 0
    _natural_params = formula(lambda d: (d.logits,))

    def _log_normalizer(self, eta: Any) -> Tensor:  # type: ignore[override]
        """log((exp(eta) - 1) / eta), by its series about 0."""
        low, high = (limit - 0.5 for limit in self._lims)
        steep = (eta <= low) | (eta > high)
        away = torch.where(steep, eta, low)
        series = eta / 2 + eta**2 / 24 - eta**4 / 2880
        return torch.where(steep, (away.expm1() / away).log(), series)
