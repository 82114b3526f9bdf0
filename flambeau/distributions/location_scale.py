"""Families of real numbers with a location and a scale: what their members share."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution

LOCATION_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class LocationScale(Distribution):
    """loc + scale z for z of a distribution without parameters."""

    has_rsample = True
    support = constraints.real
    arg_constraints = LOCATION_SCALE
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._broadcast(validate_args, loc=loc, scale=scale)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale
