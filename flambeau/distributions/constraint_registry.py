"""From constraints to transforms of unconstrained numbers: `biject_to` gives a bijection, `transform_to` any map
onto the set.

`transform_to` may spend more numbers than the set has dimensions (a softmax for the simplex), which suits
optimisation; `biject_to` suits densities. Stands on constraints and transforms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.distributions import constraints
from flambeau.distributions.transform import ComposeTransform, IndependentTransform, identity_transform
from flambeau.distributions.transforms_arrays import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)
from flambeau.distributions.transforms_elementwise import AffineTransform, ExpTransform, SigmoidTransform
from flambeau.distributions.transforms_joined import CatTransform, StackTransform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Factories of transforms by the class of the constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Register `factory(constraint)` for a constraint's class, given as the class or as an instance; without a
        factory, a decorator. Raises TypeError for anything else."""
        if factory is None:
            return functools.partial(self.register, constraint)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """A transform onto the constraint's set. Raises NotImplementedError where none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Any], Any]:
    """Register a factory for these constraints with both."""

    def register(factory: Any) -> Any:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_both(constraints.real)
def _real(constraint: Any) -> Any:
    return identity_transform


@_both(constraints.positive, constraints.nonnegative)
def _above(constraint: Any) -> Any:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.lower_bound, 1)])


@_both(constraints.less_than)
def _below(constraint: Any) -> Any:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


@_both(constraints.half_open_interval, constraints.interval)
def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


@_both(constraints.corr_cholesky)
def _corr_cholesky(constraint: Any) -> Any:
    return CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda constraint: StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: LowerCholeskyTransform())
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda constraint: PositiveDefiniteTransform())


def _nested(registry: ConstraintRegistry) -> None:
    """Constraints made of constraints: their transforms are made of the same registry's."""
    registry.register(
        constraints.independent,
        lambda constraint: IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims),
    )
    registry.register(
        constraints.cat,
        lambda constraint: CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths),
    )
    registry.register(
        constraints.stack, lambda constraint: StackTransform([registry(c) for c in constraint.cseq], constraint.dim)
    )


_nested(biject_to)
_nested(transform_to)
