"""The Pareto distribution of the first kind."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms_elementwise import AffineTransform, ExpTransform
from flambeau.distributions.utils import formula

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """scale exp(e) for e exponential of rate alpha: alpha scale^alpha / x^(alpha + 1) for x >= scale.

    Args: scale (float or Tensor): the least value, > 0; alpha (float or Tensor): the exponent, > 0."""

    _parameters = ("scale", "alpha")
    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    scale: Tensor
    alpha: Tensor

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self._set(alpha=alpha, scale=scale)
        exponent = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(exponent, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        return [ExpTransform(), AffineTransform(0, self.scale)]

    support = constraints.dependent_property(lambda d: constraints.greater_than_eq(d.scale), is_discrete=False, event_dim=0)
    mode = formula(lambda d: d.scale)

    @property
    def mean(self) -> Tensor:
        """Infinite for alpha <= 1."""
        over = (self.alpha - 1).clamp(min=0)
        return self.scale * (over + 1) / over

    @property
    def variance(self) -> Tensor:
        """Infinite for alpha <= 2."""
        alpha = self.alpha.clamp(min=2)
        return alpha / (alpha - 2) * (self.scale / (alpha - 1)) ** 2

    def entropy(self) -> Tensor:
        return 1 + 1 / self.alpha + self.scale.log() - self.alpha.log()
