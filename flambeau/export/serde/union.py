"""Classes of values of which exactly one field is set, as the format of exported programs has them. Used by schema."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar

__all__ = ["_Union", "_union_dataclass"]

T = TypeVar("T", bound="type[_Union]")


@functools.cache
def _names(cls: type[_Union]) -> frozenset[str]:
    return frozenset(f.name for f in dataclasses.fields(cls))  # type: ignore[arg-type]


def _union_dataclass(cls: T) -> T:
    """Decorate a subclass of _Union: its annotations are the fields, of which an object has one."""
    if not issubclass(cls, _Union):
        raise AssertionError(f"{cls} must inherit from {_Union}.")
    return dataclasses.dataclass(init=False, repr=False, eq=False)(cls)  # type: ignore[return-value]


class _Union:
    """One of the class's fields: `type` is its name, `value` what it holds."""

    @classmethod
    def create(cls, **kwargs: Any) -> Any:
        """The object with this field. AssertionError unless one is given, and the class has it."""
        if len(kwargs) != 1:
            raise AssertionError(f"expected exactly 1 kwarg, got {len(kwargs)}")
        ((name, value),) = kwargs.items()
        if name not in _names(cls):
            raise AssertionError(f"{name} is not a valid tag for {cls}. Available tags: {sorted(_names(cls))}")
        made = cls.__new__(cls)
        object.__setattr__(made, "_type", name)
        object.__setattr__(made, "_value", value)
        return made

    @property
    def type(self) -> str:
        """The name of the field."""
        try:
            return self.__dict__["_type"]
        except KeyError:
            raise RuntimeError(f"Please use {type(self).__name__}.create to instantiate the union type.") from None

    @property
    def value(self) -> Any:
        """What the field holds."""
        return self.__dict__["_value"]

    def __getattr__(self, name: str) -> Any:
        if name in _names(type(self)):
            if name == self.type:
                return self.value
            raise AttributeError(f"Field {name} is not set.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name != self.type:
            raise AttributeError(f"Field {name} is not set.")
        self.__dict__["_value"] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Union) and self.type == other.type and self.value == other.value

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.type}={self.value})"
