"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from flambeau.distributions import constraints
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.utils import formula

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of the squares of df standard normal numbers: a gamma distribution of concentration df / 2 and rate
    1/2, x >= 0.

    Args: df (float or Tensor): the degrees of freedom, > 0."""

    _parameters = ("concentration", "rate")
    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(df / 2, 0.5, validate_args=validate_args)

    df = formula(lambda d: 2 * d.concentration, "The degrees of freedom.")
