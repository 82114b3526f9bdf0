"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import formula
from flambeau.nn.functional import one_hot

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """prod x_i^(c_i - 1) gamma(sum c_i) / prod gamma(c_i) for vectors x of the simplex.

    Args: concentration (Tensor): the vectors c, batch_shape + (k,), > 0. The samples' derivative is the implicit
    one."""

    has_rsample = True
    _parameters = ("concentration",)
    support = constraints.simplex
    arg_constraints = {"concentration": constraints.positive_vector}
    concentration: Tensor

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() == 0:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    mean = formula(lambda d: d.concentration / d.concentration.sum(-1, True))

    @property
    def mode(self) -> Tensor:
        """The greatest density, or where it is unbounded, at the corner of the largest concentration."""
        c = self.concentration
        excess = (c - 1).clamp(min=0)
        share = excess / excess.sum(-1, True)
        corner = one_hot(share.argmax(-1), c.shape[-1]).to(c.dtype)
        return torch.where((c < 1).all(-1, True), corner, share)

    variance = formula(lambda d: d.mean * (1 - d.mean) / (d.concentration.sum(-1, True) + 1))

    def _draw(self, shape: Size) -> Tensor:
        return torch._sample_dirichlet(self.concentration.expand(shape))

    def _log_density(self, x: Tensor) -> Tensor:
        c = self.concentration
        return torch.xlogy(c - 1, x).sum(-1) - self._log_normalizer(c)

    def entropy(self) -> Tensor:
        c = self.concentration
        mean_log = c.digamma() - c.sum(-1, True).digamma()
        return self._log_normalizer(c) - ((c - 1) * mean_log).sum(-1)

    _natural_params = formula(lambda d: (d.concentration,))

    def _log_normalizer(self, c: Any) -> Tensor:  # type: ignore[override]
        """The logarithm of the beta function of several arguments."""
        return c.lgamma().sum(-1) - c.sum(-1).lgamma()
