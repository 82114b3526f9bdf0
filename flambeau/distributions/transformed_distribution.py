"""Distributions of transformed samples."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.independent import Independent
from flambeau.distributions.transform import ComposeTransform, Transform
from flambeau.distributions.utils import _sum_rightmost, forwarded

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of t(x) for x of a base distribution: log p(y) = log p(x) - log |det dy/dx|.

    Args: base_distribution (Distribution); transforms (Transform or list of Transform): applied in turn. Raises
    ValueError for anything else, or for a base of fewer dimensions than an event of the first transform."""

    _parameters = ()
    arg_constraints: Any = {}

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        if not isinstance(transforms, (Transform, list)):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        steps = transforms if isinstance(transforms, list) else [transforms]
        if not all(isinstance(step, Transform) for step in steps):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms = steps
        chain = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event_dim = len(base_distribution.event_shape)
        if len(shape) < chain.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {chain.domain.event_dim}, but got {shape}."
            )
        result = Size(chain.forward_shape(shape))
        wanted = Size(chain.inverse_shape(result))  # parameters of transforms broadcast with the base
        if wanted != shape:
            base_distribution = base_distribution.expand(wanted[: len(wanted) - event_dim])
        if chain.domain.event_dim > event_dim:
            base_distribution = Independent(base_distribution, chain.domain.event_dim - event_dim)
        self.base_dist: Any = base_distribution
        grown = event_dim + chain.codomain.event_dim - chain.domain.event_dim
        cut = len(result) - max(chain.codomain.event_dim, grown)
        super().__init__(result[:cut], result[cut:], validate_args=validate_args)

    def _fill_expanded(self, source: Any, batch_shape: Size) -> None:
        super()._fill_expanded(source, batch_shape)
        base = source.base_dist
        shape = ComposeTransform(source.transforms).inverse_shape(batch_shape + source._event_shape)
        self.base_dist = base.expand(shape[: len(shape) - len(base.event_shape)])
        self.transforms = source.transforms
        self.transforms = self._steps()

    def _steps(self) -> list[Any]:
        """The transforms, made anew from expanded parameters by families that have some."""
        return self.transforms

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        more = len(self._event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    has_rsample = forwarded("base_dist.has_rsample", "Whether the base has.")

    def _forward(self, x: Tensor) -> Tensor:
        """A sample of the base as one of this distribution."""
        return functools.reduce(lambda x, step: step(x), self.transforms, x)

    def _back(self, y: Tensor) -> Iterator[tuple[Transform, Tensor, Tensor]]:
        """The steps from last to first, each with its x and y."""
        for step in reversed(self.transforms):
            x = step.inv(y)
            yield step, x, y
            y = x

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def _log_density(self, y: Tensor) -> Tensor:
        base_dim, event_dim = len(self.base_dist.event_shape), len(self._event_shape)
        log_det: Any = 0.0
        for step, x, image in self._back(y):
            batch_dim = event_dim - step.codomain.event_dim  # dimensions of the event beyond the step's
            log_det = log_det + _sum_rightmost(step.log_abs_det_jacobian(x, image), batch_dim)
            event_dim = batch_dim + step.domain.event_dim
            y = x
        return _sum_rightmost(self.base_dist.log_prob(y), event_dim - base_dim) - log_det

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """A base probability as one of the result, or the reverse: 1 - value if the transforms together are
        decreasing."""
        sign = math.prod((step.sign for step in self.transforms), start=1)
        return value if isinstance(sign, int) and sign == 1 else 0.5 + sign * (value - 0.5)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of samples up to `value`, which is validated as one of the base."""
        x = functools.reduce(lambda y, step: step.inv(y), reversed(self.transforms), value)
        if self._validate_args:
            self.base_dist._validate_sample(x)
        return self._monotonize_cdf(self.base_dist.cdf(x))

    def _quantile(self, p: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(p)))
