"""Constraints: the sets that parameters and samples must lie in.

`constraint.check(value)` answers with booleans, one for each event: of the shape of `value` without its last
`event_dim` dimensions. Stands on the public operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions.utils import formula, forwarded

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values. `is_discrete` says that it is one of isolated points, `event_dim` how many dimensions one
    value has."""

    is_discrete: Any = False
    event_dim: Any = 0
    _shown: tuple[str, ...] = ()  # the attributes in the printed form

    def check(self, value: Tensor) -> Any:
        """Booleans that say which events lie in the set."""
        raise NotImplementedError

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__.removeprefix('_')}({values})"


class _Dependent(Constraint):
    """The set depends on other parameters or on the instance; it can't be checked by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._told = {"is_discrete": is_discrete, "event_dim": event_dim}
        super().__init__()

    def _static(self, name: str) -> Any:
        value = self._told[name]
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    is_discrete: Any = formula(lambda c: c._static("is_discrete"), "Whether the set is discrete, if that was told.")
    event_dim: Any = formula(lambda c: c._static("event_dim"), "The dimensions of an event, if they were told.")

    def __call__(self, **static: Any) -> Any:
        """The same with other static attributes."""
        return _Dependent(**self._told | static)

    def check(self, value: Tensor) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property of an instance whose value is a constraint; on the class it is a dependent constraint."""

    def __init__(self, fn: Callable[..., Any] | None = None, **static: Any) -> None:
        _Dependent.__init__(self, **static)
        property.__init__(self, fn)

    def __call__(self, fn: Callable[..., Any]) -> Any:  # type: ignore[override]
        """As a decorator with static attributes."""
        return _DependentProperty(fn, **self._told)


def is_dependent(constraint: Any) -> bool:
    """Whether the constraint is a dependent one."""
    return isinstance(constraint, _Dependent)


# ---- constraints of constraints ------------------------------------------------------------------------------------


class _OfBase(Constraint):
    """A constraint made of another one, `base_constraint`, as discrete and of as many dimensions as that."""

    def __init__(self, base_constraint: Constraint) -> None:
        super().__init__()
        self.base_constraint = base_constraint

    is_discrete = forwarded("base_constraint.is_discrete", "As the base constraint.")
    event_dim = forwarded("base_constraint.event_dim", "As the base constraint.")


class _IndependentConstraint(_OfBase):
    """Events that are arrays of events: the base constraint must hold all over `reinterpreted_batch_ndims` further
    dimensions."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        super().__init__(base_constraint)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    event_dim = formula(
        lambda c: c.base_constraint.event_dim + c.reinterpreted_batch_ndims,
        "The base constraint's dimensions and the reinterpreted ones.",
    )

    def check(self, value: Tensor) -> Any:
        each = self.base_constraint.check(value)
        kept = each.ndim - self.reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return each.reshape((*each.shape[:kept], -1)).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_OfBase):
    """What all components of a mixture must satisfy, for a value without the dimension of the components."""

    def check(self, value: Tensor) -> Any:
        of_components = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return of_components.all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


def checked_lengths(lengths: Sequence[int] | None, count: int, called: str) -> list[int]:
    """The lengths of stretches, each 1 by default. Raises AssertionError, naming what they are of, for another
    number of them."""
    lengths = [1] * count if lengths is None else list(lengths)
    if len(lengths) != count:
        raise AssertionError(f"lengths ({len(lengths)}) must match {called} ({count})")
    return lengths


class _OfParts(Constraint):
    """Constraints, `cseq`, for the parts of a tensor along one dimension: what cat and stack share.

    `_split` and `_join` take a tensor apart and put it together."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__()
        if not all(isinstance(part, Constraint) for part in cseq):
            raise AssertionError("All elements of cseq must be instances of Constraint")
        self.cseq, self.dim = list(cseq), dim

    is_discrete = formula(lambda c: any(part.is_discrete for part in c.cseq), "Whether any of them is discrete.")
    event_dim = formula(lambda c: max(part.event_dim for part in c.cseq), "The largest of theirs.")

    def _split(self, value: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def check(self, value: Tensor) -> Any:
        if self.dim not in range(-value.dim(), value.dim()):
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")
        return self._join([own.check(part) for own, part in zip(self.cseq, self._split(value), strict=True)])


class _Cat(_OfParts):
    """Constraints for consecutive stretches, of the given lengths, of one dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = checked_lengths(lengths, len(self.cseq), "cseq")

    def _split(self, value: Tensor) -> Sequence[Tensor]:
        return value.split(self.lengths, self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, self.dim)


class _Stack(_OfParts):
    """Constraints for the slices along one dimension."""

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The largest of theirs, and one more if the slices lie in a dimension of the event."""
        largest = max(part.event_dim for part in self.cseq)
        return largest + (self.dim < -largest)

    def _split(self, value: Tensor) -> Sequence[Tensor]:
        return value.unbind(self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return torch.stack(parts, self.dim)


# ---- numbers -------------------------------------------------------------------------------------------------------


class _Real(Constraint):
    """All numbers but NaN."""

    def check(self, value: Tensor) -> Any:
        return value == value


class _Numbers(Constraint):
    """Numbers, whole ones if discrete, between bounds that are numbers or tensors."""

    _shown: tuple[str, ...] = ("lower_bound", "upper_bound")

    def _bound(self, **bounds: Any) -> None:
        vars(self).update(bounds)

    def _inside(self, value: Tensor) -> Any:
        """Booleans that say which numbers lie between the bounds."""
        raise NotImplementedError

    def check(self, value: Tensor) -> Any:
        inside = self._inside(value)
        return inside & (value % 1 == 0) if self.is_discrete else inside


class _From(_Numbers):
    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self._bound(lower_bound=lower_bound)

    def _inside(self, value: Tensor) -> Any:
        return self.lower_bound <= value  # type: ignore[attr-defined]


class _UpTo(_Numbers):
    _shown = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self._bound(upper_bound=upper_bound)

    def _inside(self, value: Tensor) -> Any:
        return value <= self.upper_bound  # type: ignore[attr-defined]


class _Between(_Numbers):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self._bound(lower_bound=lower_bound, upper_bound=upper_bound)

    def _inside(self, value: Tensor) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)  # type: ignore[attr-defined]


class _GreaterThanEq(_From):
    """Numbers from a bound on."""


class _GreaterThan(_From):
    """Numbers above a bound."""

    def _inside(self, value: Tensor) -> Any:
        return value > self.lower_bound  # type: ignore[attr-defined]


class _LessThan(_UpTo):
    """Numbers below a bound."""

    def _inside(self, value: Tensor) -> Any:
        return value < self.upper_bound  # type: ignore[attr-defined]


class _Interval(_Between):
    """Numbers from a bound to another, both included."""


class _HalfOpenInterval(_Between):
    """Numbers from a bound to another, the upper one not included."""

    def _inside(self, value: Tensor) -> Any:
        return (value >= self.lower_bound) & (value < self.upper_bound)  # type: ignore[attr-defined]


class _IntegerInterval(_Between):
    """Whole numbers from a bound to another, both included."""

    is_discrete = True


class _IntegerLessThan(_UpTo):
    """Whole numbers up to a bound."""

    is_discrete = True


class _IntegerGreaterThan(_From):
    """Whole numbers from a bound on."""

    is_discrete = True


class _Boolean(Constraint):
    """Zero and one."""

    is_discrete = True

    def check(self, value: Tensor) -> Any:
        return (value == 1) | (value == 0)


# ---- vectors -------------------------------------------------------------------------------------------------------


class _Simplex(Constraint):
    """Vectors of numbers that are not negative and sum to one, to 1e-6."""

    event_dim = 1

    def check(self, value: Tensor) -> Any:
        error = value.sum(-1) - 1
        return (value >= 0).all(-1) & (error.abs() < 1e-6)


class _OneHot(Constraint):
    """Vectors of zeros and a single one."""

    event_dim = 1
    is_discrete = True

    def check(self, value: Tensor) -> Any:
        return boolean.check(value).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    """Vectors of numbers that are not negative and sum to `upper_bound`."""

    event_dim = 1
    is_discrete = True

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Any:
        return (value.sum(-1) <= self.upper_bound) & (value >= 0).all(-1)


# ---- matrices ------------------------------------------------------------------------------------------------------


class _LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Any:
        return (value == value.tril()).all(-1).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Tensor) -> Any:
        triangular = super().check(value)
        return triangular & torch.linalg.diagonal(value).gt(0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Cholesky factors of correlation matrices: lower ones with a positive diagonal whose rows have length one."""

    def check(self, value: Tensor) -> Any:
        eps, n = torch.finfo(value.dtype).eps, value.shape[-1]
        errors = value.detach().square().sum(-1).sqrt() - 1
        return (errors.abs() < 10 * n * eps).all(-1) & super().check(value)  # the error of a sum of n squares


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Any:
        shape = value.shape
        return torch.full(shape[:-2], shape[-2] == shape[-1], dtype=torch.bool, device=value.device)


class _Symmetric(_Square):
    """Symmetric matrices, to 1e-6."""

    def check(self, value: Tensor) -> Any:
        square = super().check(value)
        return torch.isclose(value.mT, value, atol=1e-6).all(-1).all(-1) if square.all() else square


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Any:
        symmetric = super().check(value)
        return (torch.linalg.eigvalsh(value) >= 0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with a Cholesky factor."""

    def check(self, value: Tensor) -> Any:
        symmetric = super().check(value)
        return torch.linalg.cholesky_ex(value).info == 0 if symmetric.all() else symmetric


# ---- names ---------------------------------------------------------------------------------------------------------

dependent, dependent_property = _Dependent(), _DependentProperty
independent, cat, stack = _IndependentConstraint, _Cat, _Stack

interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
positive, nonnegative, unit_interval = greater_than(0.0), greater_than_eq(0.0), interval(0.0, 1.0)
boolean, nonnegative_integer, positive_integer = _Boolean(), _IntegerGreaterThan(0), _IntegerGreaterThan(1)

real = _Real()
real_vector, real_matrix, positive_vector = independent(real, 1), independent(real, 2), independent(positive, 1)
simplex, one_hot, multinomial = _Simplex(), _OneHot(), _Multinomial

square, symmetric = _Square(), _Symmetric()
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
positive_definite, positive_semidefinite = _PositiveDefinite(), _PositiveSemidefinite()
