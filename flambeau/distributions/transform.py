"""The base of all transforms, their inverses, compositions and independent copies.

A transform is a differentiable map of events, with its inverse and log |det Jacobian|. `t.domain` and `t.codomain`
are constraints, whose `event_dim` says how many dimensions one event has. A family names the arguments it is made
of, once, in `_arguments`, and is then its formulas. Stands on constraints and utils.
"""

from __future__ import annotations

import functools
import math
import operator
import weakref
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.utils import _sum_rightmost, forwarded, lazy_property, unknown

__all__ = ["ComposeTransform", "IndependentTransform", "Transform", "identity_transform"]


class Transform:
    """A map y = t(x). Subclasses define `domain`, `codomain`, `_call`, and, where there are any, `_inverse`,
    `log_abs_det_jacobian`.

    Args: cache_size (int): 1 keeps the latest pair, so that t.inv(t(x)) is x itself, without an inversion; 0
    doesn't. Raises ValueError for another size."""

    bijective: Any = False
    domain: Any
    codomain: Any
    sign: Any = unknown("The derivative's sign, 1 or -1, of an increasing or decreasing transform of numbers.")
    _arguments: tuple[str, ...] = ()  # the attributes that __init__ takes besides cache_size
    _cached: tuple[Any, Any] = (None, None)
    _inverse_reference: Any = None

    def __init__(self, cache_size: int = 0) -> None:
        super().__init__()
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_inverse_reference"}

    @property
    def event_dim(self) -> int:
        """The dimensions of an event, where those of domain and codomain agree. Raises ValueError where not."""
        dims = {self.domain.event_dim, self.codomain.event_dim}
        if len(dims) > 1:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return dims.pop()

    @property
    def inv(self) -> Transform:
        """The inverse transform; its own inverse is this one."""
        inverse = self._inverse_reference and self._inverse_reference()
        if inverse is None:
            inverse = self._inverted()
            self._inverse_reference = weakref.ref(inverse)
        return inverse

    def _inverted(self) -> Transform:
        return _InverseTransform(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same transform with this cache. Raises NotImplementedError for a class with an __init__ of its own that
        doesn't define it."""
        if cache_size == self._cache_size:
            return self
        owner = next(kind for kind in type(self).__mro__ if "_arguments" in vars(kind))
        if owner is Transform:
            owner = type(self)
            if owner.__init__ is not Transform.__init__:
                raise NotImplementedError(f"{owner}.with_cache is not implemented")
        return owner(*(getattr(self, name) for name in owner._arguments), cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> Any:
        """t(x)."""
        known, image = self._cached
        return image if known is x and self._cache_size else self._remember(x, self._call(x))[1]

    def _inv_call(self, y: Any) -> Any:
        """The x of t(x) = y."""
        original, known = self._cached
        return original if known is y and self._cache_size else self._remember(self._inverse(y), y)[0]

    def _remember(self, *pair: Any) -> tuple[Any, ...]:
        if self._cache_size:
            self._cached = pair  # type: ignore[assignment]
        return pair

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |det dy/dx| of events x and y = t(x); their shape without the event's dimensions."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of t(x) for an x of `shape`."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x for a t(x) of `shape`."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """The inverse of a transform; this is what `Transform.inv` gives."""

    def __init__(self, transform: Transform) -> None:
        self._inv = transform
        super().__init__(transform._cache_size)

    domain = constraints.dependent_property(lambda t: t._inv.codomain, is_discrete=False)
    codomain = constraints.dependent_property(lambda t: t._inv.domain, is_discrete=False)
    bijective = forwarded("_inv.bijective", "Whether the transform is.")
    sign = forwarded("_inv.sign")
    inv = forwarded("_inv")

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and other._inv == self._inv

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    # the other way round, with the transform's cache
    __call__ = lambda self, x: self._inv._inv_call(x)
    _inv_call = lambda self, y: self._inv(y)
    forward_shape = lambda self, shape: self._inv.inverse_shape(shape)
    inverse_shape = lambda self, shape: self._inv.forward_shape(shape)
    log_abs_det_jacobian = lambda self, x, y: -self._inv.log_abs_det_jacobian(y, x)


def at_least(dims: int, shape: Any) -> None:
    """Raise ValueError for a shape of fewer dimensions."""
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")


def _independent(constraint: Any, dims: int) -> Any:
    return constraints.independent(constraint, dims) if dims > 0 else constraint


def _chained(pairs: Any) -> Any:
    """The domain of a chain of maps, given as (from, to) constraints of each, the last map first.

    It is that of the first map, of as many further dimensions as the maps behind it need."""
    first, needed = constraints.real, 0
    for first, to in pairs:
        needed = max(needed - to.event_dim, 0) + first.event_dim
    return _independent(first, needed - first.event_dim)


class ComposeTransform(Transform):
    """Transforms applied one after the other.

    Args: parts (list of Transform): the first is applied first; cache_size."""

    _arguments = ("parts",)

    def __init__(self, parts: list[Any], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    domain = constraints.dependent_property(
        lambda t: _chained((part.domain, part.codomain) for part in reversed(t.parts)), is_discrete=False
    )
    codomain = constraints.dependent_property(
        lambda t: _chained((part.codomain, part.domain) for part in t.parts), is_discrete=False
    )

    @lazy_property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:  # type: ignore[override]
        return math.prod(part.sign for part in self.parts)

    def _inverted(self) -> Transform:
        inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
        inverse._inverse_reference = weakref.ref(self)
        return inverse

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and other.parts == self.parts

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> Any:
        return functools.reduce(lambda x, part: part(x), self.parts, x)

    def forward_shape(self, shape: Any) -> Any:
        return functools.reduce(lambda shape, part: part.forward_shape(shape), self.parts, shape)

    def inverse_shape(self, shape: Any) -> Any:
        return functools.reduce(lambda shape, part: part.inverse_shape(shape), reversed(self.parts), shape)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return torch.zeros_like(x)
        event_dim, last = self.domain.event_dim, len(self.parts) - 1
        terms = []
        for i, part in enumerate(self.parts):
            image = y if i == last else part(x)
            batch_dim = event_dim - part.domain.event_dim  # dimensions of the event beyond the part's
            terms.append(_sum_rightmost(part.log_abs_det_jacobian(x, image), batch_dim))
            x, event_dim = image, batch_dim + part.codomain.event_dim
        return functools.reduce(operator.add, terms)

    def __repr__(self) -> str:
        inner = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose events are arrays: the log determinant is summed over the last dimensions.

    Args: base_transform (Transform); reinterpreted_batch_ndims (int): how many; cache_size."""

    _arguments = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.base_transform = base_transform.with_cache(cache_size)
        super().__init__(cache_size)

    domain = constraints.dependent_property(
        lambda t: constraints.independent(t.base_transform.domain, t.reinterpreted_batch_ndims), is_discrete=False
    )
    codomain = constraints.dependent_property(
        lambda t: constraints.independent(t.base_transform.codomain, t.reinterpreted_batch_ndims), is_discrete=False
    )
    bijective = forwarded("base_transform.bijective", "Whether the base transform is.")
    sign = forwarded("base_transform.sign")
    forward_shape = forwarded("base_transform.forward_shape")
    inverse_shape = forwarded("base_transform.inverse_shape")

    def _call(self, x: Tensor) -> Tensor:
        at_least(self.domain.event_dim, x.shape)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        at_least(self.codomain.event_dim, y.shape)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        each = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(each, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"
