"""Transforms of the parts of a tensor along one dimension."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.transform import Transform
from flambeau.distributions.utils import _sum_rightmost, formula, lazy_property

__all__ = ["CatTransform", "StackTransform"]


class _AlongDimension(Transform):
    """Transforms of parts of a tensor along one dimension: what CatTransform and StackTransform share.

    Each says how the tensor is taken apart, put together, and which constraint its parts' constraints make."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(part, Transform) for part in tseq):
            raise AssertionError("All elements of tseq must be instances of Transform")
        self.dim = dim
        self.transforms = [part.with_cache(cache_size) if cache_size else part for part in tseq]
        super().__init__(cache_size)

    def _constraint(self, parts: list[Any]) -> Any:
        raise NotImplementedError

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _wanted(self) -> tuple[int, str]:
        """The size of the dimension, and how errors name it."""
        raise NotImplementedError

    domain = constraints.dependent_property(lambda t: t._constraint([part.domain for part in t.transforms]))
    codomain = constraints.dependent_property(lambda t: t._constraint([part.codomain for part in t.transforms]))
    bijective = formula(lambda t: all(part.bijective for part in t.transforms), "Whether all of them are.")

    def _parts(self, **values: Tensor) -> list[tuple[Any, ...]]:
        """Each transform with its part of the values."""
        for name, x in values.items():
            if not -x.dim() <= self.dim < x.dim():
                raise AssertionError(f"dim {self.dim} out of range for tensor with {x.dim()} dimensions")
            size, (wanted, called) = x.size(self.dim), self._wanted()
            if size != wanted:
                raise AssertionError(f"{name}.size({self.dim}) = {size} must equal {called} {wanted}")
        return list(zip(self.transforms, *map(self._split, values.values()), strict=True))

    def _call(self, x: Tensor) -> Tensor:
        return self._join([transform(part) for transform, part in self._parts(x=x)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([transform.inv(part) for transform, part in self._parts(y=y)])


class CatTransform(_AlongDimension):
    """Transforms of consecutive stretches of one dimension.

    Args: tseq (list of Transform); dim (int); lengths (list of int, default 1 for each); cache_size. Raises
    AssertionError for lengths that don't fit."""

    _arguments = ("transforms", "dim", "lengths")

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = constraints.checked_lengths(lengths, len(self.transforms), "transforms")

    @lazy_property
    def event_dim(self) -> int:  # type: ignore[override]
        """The largest of theirs."""
        return max(part.event_dim for part in self.transforms)

    length = formula(lambda t: sum(t.lengths), "The size of the dimension.")

    def _wanted(self) -> tuple[int, str]:
        return self.length, "length"

    def _constraint(self, parts: list[Any]) -> Any:
        return constraints.cat(parts, self.dim, self.lengths)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        return x.split(self.lengths, self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = [
            _sum_rightmost(transform.log_abs_det_jacobian(before, after), self.event_dim - transform.event_dim)
            for transform, before, after in self._parts(x=x, y=y)
        ]
        # the dimension, from the back, among those that are left; one of the event's is summed over
        dim = self.event_dim + self.dim - (x.dim() if self.dim >= 0 else 0)
        return torch.cat(terms, dim) if dim < 0 else functools.reduce(operator.add, terms)


class StackTransform(_AlongDimension):
    """Transforms of the slices along one dimension.

    Args: tseq (list of Transform); dim (int); cache_size. Raises AssertionError for another number of slices."""

    _arguments = ("transforms", "dim")

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def _wanted(self) -> tuple[int, str]:
        return len(self.transforms), "len(transforms)"

    def _constraint(self, parts: list[Any]) -> Any:
        return constraints.stack(parts, self.dim)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        return x.unbind(self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return torch.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._join([transform.log_abs_det_jacobian(*pair) for transform, *pair in self._parts(x=x, y=y)])
