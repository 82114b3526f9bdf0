"""Transforms of numbers: exponential, power, sigmoid, tanh, softplus, absolute value, affine, cumulative
distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transform import Transform
from flambeau.distributions.utils import _sum_rightmost, forwarded, lazy_property, log_odds
from flambeau.nn.functional import logsigmoid, softplus

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
]


class _OfOneKind(Transform):
    """A transform without parameters: all of its class are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    __hash__ = None  # type: ignore[assignment]


def inside_unit(p: Tensor) -> Tensor:
    """Numbers moved into (0, 1) as far as the dtype can tell."""
    limits = torch.finfo(p.dtype)
    return p.clamp(limits.tiny, 1.0 - limits.eps)


class _Increasing(_OfOneKind):
    """An increasing bijection of all numbers."""

    bijective = True
    domain = constraints.real
    sign = 1


class ExpTransform(_Increasing):
    """y = exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Increasing):
    """y = 1 / (1 + exp(-x)), kept inside (0, 1) as far as the dtype can tell."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return inside_unit(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        return log_odds(inside_unit(y))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -(softplus(x) + softplus(-x))


class SoftplusTransform(_Increasing):
    """y = log(1 + exp(x)); the identity above 20."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y + (-(-y).expm1()).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return logsigmoid(x)


class TanhTransform(_Increasing):
    """y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return math.log(4.0) - 2 * (x + softplus(-2 * x))  # log(1 - tanh(x)^2) without the difference


class AbsTransform(_OfOneKind):
    """y = |x|; of the two inverses, y itself."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


def _shape_with(*attributes: str) -> Any:
    """A method: the shape that results with parameters of these names, which are numbers or tensors."""

    def broadcast(transform: Any, shape: Any) -> Any:
        parameters = [getattr(transform, name) for name in attributes]
        return torch.broadcast_shapes(shape, *(p.shape for p in parameters if isinstance(p, Tensor)))

    return broadcast


def _same(transform: Any, other: object, *attributes: str) -> bool:
    """Whether the other is of the transform's class and has parameters, numbers or tensors, of the same values."""
    return isinstance(other, type(transform)) and all(
        bool((torch.as_tensor(getattr(transform, name)) == getattr(other, name)).all()) for name in attributes
    )


class PowerTransform(Transform):
    """y = x^exponent for x > 0.

    Args: exponent (float or Tensor); cache_size."""

    _arguments = ("exponent",)
    bijective = True
    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        self.exponent = exponent
        super().__init__(cache_size)

    @lazy_property
    def sign(self) -> Any:
        return torch.as_tensor(self.exponent).sign()

    def __eq__(self, other: object) -> bool:
        return _same(self, other, "exponent")

    __hash__ = None  # type: ignore[assignment]
    forward_shape = inverse_shape = _shape_with("exponent")

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (y / x * self.exponent).abs().log()


class AffineTransform(Transform):
    """y = loc + scale x.

    Args: loc, scale (float or Tensor); event_dim (int): the dimensions of an event; cache_size."""

    _arguments = ("loc", "scale", "event_dim")
    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        self.loc, self.scale, self._event_dim = loc, scale, event_dim
        super().__init__(cache_size)

    event_dim = forwarded("_event_dim", "The dimensions of an event.")
    domain = codomain = constraints.dependent_property(lambda t: t._reals(), is_discrete=False)

    def _reals(self) -> Any:
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    @property
    def sign(self) -> Any:
        a = self.scale
        return a.sign() if isinstance(a, Tensor) else (a > 0) - (a < 0)

    def __eq__(self, other: object) -> bool:
        return _same(self, other, "loc", "scale")

    __hash__ = None  # type: ignore[assignment]
    forward_shape = inverse_shape = _shape_with("loc", "scale")

    def _call(self, x: Tensor) -> Tensor:
        return self.scale * x + self.loc

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        a = torch.as_tensor(self.scale, dtype=None if isinstance(self.scale, Tensor) else x.dtype, device=x.device)
        return _sum_rightmost(a.abs().log().expand(x.shape), self._event_dim)


class CumulativeDistributionTransform(Transform):
    """y = cdf(x), which is uniform on [0, 1] for samples x of the distribution.

    Args: distribution (Distribution): one with cdf, icdf and log_prob; cache_size."""

    _arguments = ("distribution",)
    bijective = True
    sign = 1
    codomain = constraints.unit_interval
    domain = forwarded("distribution.support", "The distribution's support.")

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        self.distribution = distribution
        super().__init__(cache_size)

    _call = forwarded("distribution.cdf")
    _inverse = forwarded("distribution.icdf")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
