"""The beta distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.dirichlet import Dirichlet
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all, formula, log_beta

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b) for 0 <= x <= 1: the first of two parts of a Dirichlet distribution (a, b).

    Args: concentration1 (float or Tensor): a > 0; concentration0 (float or Tensor): b > 0."""

    has_rsample = True
    _parameters = ()
    _inner = ("_dirichlet",)
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        pair = torch.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(pair.shape[:-1], validate_args=validate_args)

    concentration1 = formula(lambda d: d._dirichlet.concentration[..., 0], "a.")
    concentration0 = formula(lambda d: d._dirichlet.concentration[..., 1], "b.")
    mean = formula(lambda d: d._dirichlet.mean[..., 0])
    mode = formula(lambda d: d._dirichlet.mode[..., 0])
    variance = formula(lambda d: d._dirichlet.variance[..., 0])

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def _log_density(self, x: Tensor) -> Tensor:
        return self._dirichlet.log_prob(torch.stack((x, 1 - x), -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    _natural_params = formula(lambda d: (d.concentration1, d.concentration0))

    def _log_normalizer(self, a: Any, b: Any) -> Tensor:  # type: ignore[override]
        return log_beta(a, b)
