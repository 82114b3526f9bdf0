"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import formula, forwarded

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """The distribution of a component that a categorical distribution chooses; the components are the last
    dimension of a batch.

    Args: mixture_distribution (Categorical): its batch broadcasts with the component's without the last dimension;
    component_distribution (Distribution): batch_shape + (components,). Raises ValueError for other types or
    shapes."""

    _parameters = ()
    _copied = ("_num_component", "_event_ndims")
    _inner = ("_mixture_distribution",)
    arg_constraints: Any = {}

    def __init__(self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        of_mixture, of_component = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for one, other in zip(reversed(of_mixture), reversed(of_component)):
            if one != 1 and other != 1 and one != other:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({of_mixture}) is not compatible with "
                    f"`component_distribution.batch_shape`({of_component})"
                )
        count, components = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if count != components:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component = count
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(of_component, component_distribution.event_shape, validate_args=validate_args)

    def _fill_expanded(self, source: Any, batch_shape: Size) -> None:
        super()._fill_expanded(source, batch_shape)
        self._component_distribution = source._component_distribution.expand((*batch_shape, source._num_component))

    mixture_distribution = forwarded("_mixture_distribution", "What chooses the component.")
    component_distribution = forwarded("_component_distribution", "The components.")
    support = constraints.dependent_property(lambda d: constraints.MixtureSameFamilyConstraint(d.component_distribution.support))

    def _pad(self, x: Tensor) -> Tensor:
        """With the dimension of the components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _average(self, of_components: Tensor) -> Tensor:
        """The mean over the components of what is known of each event."""
        weights = self.mixture_distribution.probs
        weights = weights.reshape(weights.shape + (1,) * self._event_ndims)
        return (of_components * weights).sum(-1 - self._event_ndims)

    mean = formula(lambda d: d._average(d.component_distribution.mean))

    @property
    def variance(self) -> Tensor:
        """The mean variance and the variance of the means."""
        component = self.component_distribution
        return self._average(component.variance) + self._average((component.mean - self._pad(self.mean)) ** 2)

    def _log_density(self, x: Tensor) -> Tensor:
        log_weights = self.mixture_distribution.logits.log_softmax(-1)
        return (log_weights + self.component_distribution.log_prob(self._pad(x))).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        """The components' probabilities, averaged; the components validate."""
        each = self.component_distribution.cdf(self._pad(value))
        return (each * self.mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        mixture = self.mixture_distribution
        if mixture.batch_shape != self._batch_shape:
            mixture = mixture.expand(self._batch_shape)
        with torch.no_grad():
            chosen = mixture.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)  # all of them, of which one is taken
        dim = chosen.dim()
        index = chosen.reshape(chosen.shape + (1,) * (1 + self._event_ndims))
        return samples.take_along_dim(index, dim).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
