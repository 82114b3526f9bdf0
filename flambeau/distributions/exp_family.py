"""Exponential families: densities h(x) exp(<natural parameters, t(x)> - A), whose entropy is found from the log
normaliser A."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import unknown

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution with natural parameters, a log normaliser of them, and the mean of the log carrier measure log
    h.

    The entropy is A - <natural parameters, gradient of A> - E[log h], the gradient by autograd (Nielsen and Nock,
    "Entropies and cross-entropies of exponential families", 2010)."""

    _natural_params = unknown("The natural parameters, each batch_shape (+ event_shape).")
    _mean_carrier_measure = unknown("The mean of log h.")

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        """The log normaliser as a differentiable function of the natural parameters."""
        raise NotImplementedError

    def _dual(self) -> tuple[list[Tensor], Tensor, tuple[Tensor, ...]]:
        """The natural parameters, the log normaliser and its gradient, which is the mean of the statistics t(x)."""
        eta = [parameter.detach().requires_grad_() for parameter in self._natural_params]
        normalizer = self._log_normalizer(*eta)
        return eta, normalizer, torch.autograd.grad(normalizer.sum(), eta, create_graph=True)

    def entropy(self) -> Tensor:
        """The entropy: batch_shape."""
        eta, normalizer, means = self._dual()
        products = ((one * other).reshape((*self._batch_shape, -1)).sum(-1) for one, other in zip(eta, means))
        return normalizer - self._mean_carrier_measure - sum(products)
