"""What a call returned, as a recipe: fresh tensors are taken from a replay, everything else is as it was.

Stands on core.tensor; used by entry.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.capture.kinds import is_a
from flambeau.capture.recorder import Recorder
from flambeau.core.tensor.tensor import Tensor

__all__ = ["NoRecipe", "Recipe"]

Build = Callable[[Sequence[Any]], Any]


class NoRecipe(Exception):
    """args[0]: what can't be made again."""


class Recipe:
    """`tensors`: those of a result that a replay gives, in its order; `build(given)` makes the result of such tensors."""

    def __init__(self, result: Any, recorder: Recorder) -> None:
        self.recorder = recorder
        self.tensors: list[Tensor] = []
        self._places: dict[int, int] = {}
        self._making: dict[int, Any] = {}
        self.build = self._recipe(result)
        #: What the call sets in dicts of the environment, with how the value is made; None where it is gone in the end.
        self.effects = [
            (table, key, self._recipe(table[key]) if key in table else None) for (_, key), table in recorder.writes.items()
        ]

    def _recipe(self, value: Any) -> Build:
        cls = type(value)
        if is_a(value, Tensor):
            return self._of_tensor(value)
        if self.recorder.is_constant(value):
            return lambda given: value
        if id(value) in self.recorder.arguments:
            raise NoRecipe(f"an argument, a {cls.__name__}, is returned")
        if id(value) in self._making:
            raise NoRecipe("an object that was made in the call is in two places")
        self._making[id(value)] = value
        if cls in (list, tuple, set, frozenset, collections.deque):
            return self._of_sequence(cls, [self._recipe(each) for each in value])
        if cls in (dict, collections.OrderedDict):
            return self._of_dict(cls, value, {})
        if is_a(value, tuple) and hasattr(cls, "_fields"):
            return self._of_sequence(cls._make, [self._recipe(each) for each in value])  # type: ignore[attr-defined]
        if cls.__flags__ & 1 << 9 and not any("__slots__" in base.__dict__ for base in cls.__mro__):
            own = vars(value)
            if _is_plain(cls):
                return self._of_object(cls, own)
            if issubclass(cls, collections.OrderedDict) or cls.__base__ is dict:
                return self._of_dict(cls, value, own)
        raise NoRecipe(f"an object of {cls.__module__}.{cls.__qualname__} is returned")

    def _of_tensor(self, value: Tensor) -> Build:
        if value.__dict__:
            raise NoRecipe("a tensor with attributes of its own is returned")
        if id(value) in self.recorder.environment and id(value) not in self.recorder.arguments:
            return lambda given: value  # it is pinned
        if value._node is not None:
            raise NoRecipe("a tensor that wants a gradient is returned")
        if type(value) is not Tensor and id(value) not in self.recorder.arguments:
            raise NoRecipe(f"a {type(value).__name__} is returned")
        place = self._places.setdefault(id(value), len(self.tensors))
        if place == len(self.tensors):
            self.tensors.append(value)
        return lambda given: given[place]

    @staticmethod
    def _of_sequence(make: Callable[[Any], Any], parts: list[Build]) -> Build:
        return lambda given: make([part(given) for part in parts])

    def _of_dict(self, cls: type, value: dict[Any, Any], own: dict[str, Any]) -> Build:
        if not all(self.recorder.is_constant(key) for key in dict.keys(value)):
            raise NoRecipe("a dict with keys that were made in the call is returned")
        parts = [(key, self._recipe(each)) for key, each in dict.items(value)]
        attributes = [(name, self._recipe(each)) for name, each in own.items()]
        base = collections.OrderedDict if issubclass(cls, collections.OrderedDict) else dict

        def build(given: Sequence[Any]) -> Any:
            made: Any = base.__new__(cls)
            for key, part in parts:
                base.__setitem__(made, key, part(given))
            if attributes:
                made.__dict__.update((name, part(given)) for name, part in attributes)
            return made

        return build

    def _of_object(self, cls: type, own: dict[str, Any]) -> Build:
        parts = [(name, self._recipe(each)) for name, each in own.items()]

        def build(given: Sequence[Any]) -> Any:
            made: Any = object.__new__(cls)
            made.__dict__.update((name, part(given)) for name, part in parts)
            return made

        return build


def _is_plain(cls: type) -> bool:
    """Whether all bases of a class were made by class statements, but for object."""
    return all(base is object or base.__flags__ & 1 << 9 for base in cls.__mro__) and cls.__new__ is object.__new__
