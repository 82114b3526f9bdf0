"""Batches of distributions as distributions of larger events."""

from __future__ import annotations

from typing import Any

from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import _sum_rightmost, formula, forwarded

__all__ = ["Independent"]


class Independent(Distribution):
    """The last dimensions of a batch as dimensions of the event: log probabilities and entropies are summed over
    them.

    Args: base_distribution (Distribution); reinterpreted_batch_ndims (int): how many. Raises ValueError for more
    than there are."""

    arg_constraints: Any = {}
    _parameters = ()
    _copied = ("reinterpreted_batch_ndims",)

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist: Any = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(batch[:cut], batch[cut:] + base_distribution.event_shape, validate_args=validate_args)

    def _fill_expanded(self, source: Any, batch_shape: Size) -> None:
        super()._fill_expanded(source, batch_shape)
        self.base_dist = source.base_dist.expand(batch_shape + source._event_shape[: source.reinterpreted_batch_ndims])

    has_rsample = forwarded("base_dist.has_rsample", "Whether the base has.")
    has_enumerate_support = formula(
        lambda d: d.reinterpreted_batch_ndims == 0 and d.base_dist.has_enumerate_support,
        "Whether the base has, and nothing is reinterpreted.",
    )
    mean, mode, variance = map(forwarded, ("base_dist.mean", "base_dist.mode", "base_dist.variance"))

    @constraints.dependent_property
    def support(self) -> Any:
        of_base, more = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(of_base, more) if more else of_base

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def _summed(self, of_base: Tensor) -> Tensor:
        return _sum_rightmost(of_base, self.reinterpreted_batch_ndims)

    def log_prob(self, value: Tensor) -> Tensor:
        """The base's, summed over the event; the base validates."""
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        return self._summed(self.base_dist.entropy())

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims == 0:
            return self.base_dist.enumerate_support(expand=expand)
        raise NotImplementedError("Enumeration over cartesian product is not implemented")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
