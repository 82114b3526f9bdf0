"""torch.export.Dim: what a program says of a dimension: a name with a range, `2*dim + 1`, or a hint (AUTO, DYNAMIC, STATIC).

Stands on base.symbolic; used by dynamic_shapes.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NoReturn

from flambeau.base.naming import public_module
from flambeau.base.symbolic.expressions import Expr, symbol
from flambeau.base.symbolic.ranges import int_oo

__all__ = ["Dim", "dims"]


class _DimHintType(Enum):
    """What a hint asks for."""

    AUTO = auto()
    STATIC = auto()
    DYNAMIC = auto()


@dataclasses.dataclass
class _DimHint:
    """A dimension whose range is found by tracing: Dim.AUTO, Dim.DYNAMIC, Dim.STATIC; `Dim.AUTO(min=2, max=8)` has bounds."""

    type: _DimHintType
    min: int | None = None
    max: int | None = None
    _factory: bool | None = True

    def __call__(self, min: int | None = None, max: int | None = None) -> _DimHint:
        if not self._factory:
            raise TypeError(f"'{type(self)}' object is not callable")
        for name, bound in (("min", min), ("max", max)):
            if bound is not None and bound < 0:
                raise AssertionError(f"{name} must be non-negative, got {bound}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min must be <= max, got min={min}, max={max}")
        return _DimHint(self.type, min, max, _factory=False)

    def __repr__(self) -> str:
        parts = [self.type.name, *[f"{n}={b}" for n, b in (("min", self.min), ("max", self.max)) if b is not None]]
        return f"DimHint({', '.join(parts)})"


def _linear(what: str, other: Any, self: Dim, expected: str) -> NoReturn:
    raise NotImplementedError(
        f"Attempted to {what.format(other=other, name=self.__name__)}{expected} "
        "(Only increasing linear operations with integer coefficients are supported.)"
    )


class Dim:
    """A dimension of a name and a range: `Dim("batch", min=2, max=64)`; dimensions of one Dim are equal.

    `2*dim + 1` is a dimension that is so in terms of another. AssertionError unless min < max and the name is an identifier.
    """

    AUTO = _DimHint(_DimHintType.AUTO)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)
    STATIC = _DimHint(_DimHintType.STATIC)
    __module__ = public_module("export.dynamic_shapes")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        low, high = (0 if min is None else min), (int_oo if max is None else max)
        if not high > low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.min: Any = low
        self.max: Any = high

    def __add__(self, other: Any) -> Dim:
        if type(other) is not int:
            _linear("add {other} to {name}", other, self, ", where an integer was expected.")
        return self._derive(lambda x: x + other)

    def __radd__(self, other: Any) -> Dim:
        return self + other

    def __sub__(self, other: Any) -> Dim:
        if type(other) is not int:
            _linear("subtract {other} from {name}", other, self, ", where an integer was expected.")
        return self._derive(lambda x: x - other)

    def __rsub__(self, other: Any) -> Dim:
        _linear("negate {name}", other, self, ".")

    def __mul__(self, other: Any) -> Dim:
        if type(other) is not int or other <= 0:
            _linear("multiply {other} with {name}", other, self, ", where a positive integer was expected.")
        return self._derive(lambda x: x * other)

    def __rmul__(self, other: Any) -> Dim:
        return self * other

    def _derive(self, fn: Callable[[Any], Any]) -> Dim:
        return _DerivedDim(str(fn(symbol(self.__name__))), self, fn)

    @staticmethod
    def _readable(name: str, min_: Any, max_: Any) -> str:
        parts = [f"'{name}'"]
        parts += [f"min={min_}"] * (min_ is not None and min_ != 2)
        parts += [f"max={max_}"] * (max_ is not None and max_ != int_oo)
        return f"Dim({', '.join(parts)})"

    def __repr__(self) -> str:
        return Dim._readable(self.__name__, self.min, self.max)


class _StaticDim(Dim):
    """A dimension of one size."""

    def __init__(self, value: int) -> None:
        self.__name__, self.value = str(value), value
        self.min = self.max = value


class _DerivedDim(Dim):
    """A dimension that is `fn`, a linear function that increases, of another one, its root."""

    def __init__(self, name: str, root: Dim, fn: Callable[[Any], Any]) -> None:
        self.__name__, self.root, self.fn = name, root, fn

    @property
    def min(self) -> Any:  # type: ignore[override]
        """The least size. AssertionError if it is negative."""
        least = self.fn(self.root.min)
        if least < 0:
            raise AssertionError(
                f"Expected derived min value of {self.__name__} to be >= 0. Please specify an appropriate min value for "
                f"{self.root.__name__} (currently {self.root.min})."
            )
        return int(least)

    @property
    def max(self) -> Any:  # type: ignore[override]
        """The greatest size. AssertionError if it is no size."""
        if self.root.max == int_oo:
            return int_oo
        most = self.fn(self.root.max)
        if most > sys.maxsize - 1:
            raise AssertionError(
                f"Expected derived max value of {self.__name__} to be <= {sys.maxsize - 1}. Please specify an appropriate max "
                f"value for {self.root.__name__} (currently {self.root.max})."
            )
        return int(most)

    def _derive(self, fn: Callable[[Any], Any]) -> Dim:
        return _DerivedDim(str(fn(self.of(symbol(self.root.__name__)))), self.root, lambda x: fn(self.fn(x)))

    def of(self, root: Expr) -> Expr:
        """The dimension as an expression of its root."""
        return self.fn(root)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A Dim for each name, of one range."""
    return tuple([Dim(name, min=min, max=max) for name in names])
