"""What a call returned, as a recipe: fresh tensors are taken from a replay, everything else is as it was.

Stands on core.tensor and graphs; used by entry.
"""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType, SimpleNamespace
from typing import Any, Generic

from flambeau.capture.builtins import CONTAINERS, PURE
from flambeau.capture.graphs import Graph, NoGraph
from flambeau.capture.kinds import is_a
from flambeau.capture.recorder import Recorder
from flambeau.core.autograd import inplace
from flambeau.core.autograd.node import held_gradient
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor

__all__ = ["NoRecipe", "Recipe"]

Build = Callable[[Sequence[Any], dict[int, Any]], Any]


class NoRecipe(Exception):
    """args[0]: what can't be made again."""


class Recipe:
    """`tensors`: those of a result that a replay gives, in its order; `build(given, {})` makes the result of such tensors.

    What makes an object puts it under the address that the recorded one had into a dict, where other places find it.
    attach(given), if it isn't None, puts their graph behind the tensors before; `backwards` are those of such graphs.
    """

    def __init__(self, result: Any, recorder: Recorder) -> None:
        self.recorder = recorder
        self.tensors: list[Tensor] = []
        self._places: dict[int, int] = {}
        self._making: dict[int, Any] = {}
        self.returned: set[int] = set()  # arguments that are in a result, by the addresses of the recorded ones
        self._unfinished: set[int] = set()
        self._graph = Graph(recorder.tensors, recorder.is_constant, self._place, recorder.first_node)
        self.build = self._recipe(result)
        #: What the call sets in dicts of the environment, with how the value is made; None where it is gone in the end.
        self.effects = [
            (table, key, self._recipe(table[key]) if key in table else None) for (_, key), table in recorder.writes.items()
        ]
        #: Gradients that the call gives tensors of the environment: whose, and which.
        self.gradients = [(owner, self._recipe(held_gradient(owner))) for owner in recorder.changed.values()]
        try:
            self.attach = self._graph.finish()
            self.backwards = self._graph.backwards
        except NoGraph as reason:
            raise NoRecipe(reason.args[0]) from None
        if self.attach is not None and len({x._storage.serial for x in self.tensors}) < len(
            {id(x._storage) for x in self.tensors}
        ):
            raise NoRecipe("results are aliases of one memory with counts of their own")

    def _place(self, value: Tensor) -> int:
        """Where a replay gives a tensor."""
        place = self._places.setdefault(id(value), len(self.tensors))
        if place == len(self.tensors):
            self.tensors.append(value)
        return place

    def _recipe(self, value: Any) -> Build:
        cls, place = type(value), id(value)
        if is_a(value, Tensor):
            return self._of_tensor(value)
        if self.recorder.is_constant(value):
            return lambda given, made: value
        if place in self.recorder.arguments:
            self.returned.add(place)
            return lambda given, made: made[place]
        if place in self._making:
            if place in self._unfinished:
                raise NoRecipe(f"a {cls.__name__} that is part of itself is returned")
            return lambda given, made: made[place]
        base = next((each for each in cls.__mro__ if each in (*CONTAINERS, SimpleNamespace, object)), object)
        known = (*CONTAINERS, SimpleNamespace, Generic, object)
        if not all(each in known or _is_of_python(each) for each in cls.__mro__) or cls is object:
            raise NoRecipe(f"an object of {cls.__module__}.{cls.__qualname__} is returned")
        self._making[place] = value
        if base in (tuple, frozenset):
            return self._of_elements(base, value)
        return self._of_object(base, value)

    def _of_tensor(self, value: Tensor) -> Build:
        if value.__dict__:
            raise NoRecipe("a tensor with attributes of its own is returned")
        if id(value) in self.recorder.environment and id(value) not in self.recorder.arguments:
            return lambda given, made: value  # it is pinned
        if type(value) is not Tensor and id(value) not in self.recorder.arguments:
            raise NoRecipe(f"a {type(value).__name__} is returned")
        outside = {tensor._storage.serial for tensor in self.recorder.tensors.values()}
        if value.is_inference() != local.inference and value._storage.serial not in outside:
            raise NoRecipe("a tensor that was made in another inference mode is returned")
        place = self._place(value)
        fresh = id(value) not in self.recorder.environment
        if fresh and held_gradient(value) is not None:
            raise NoRecipe("a tensor that was made in the call and has a gradient is returned")
        if value._node is not None and fresh:
            try:
                self._graph.tensor(value)
            except NoGraph as reason:
                raise NoRecipe(reason.args[0]) from None
            return lambda given, made: given[place]
        root, creation = self._root_of(value), inplace.creation_of(value)
        if root is None:
            return lambda given, made: given[place]

        def build(given: Sequence[Any], made: dict[int, Any]) -> Any:
            view = given[place]
            view._root = root(given, made)
            if creation is not None:
                inplace.mark(view, creation)
            return view

        return build

    def _root_of(self, value: Tensor) -> Build | None:
        """What a result that was made in the call is a view of."""
        root = inplace.base_of(value)
        if root is None or id(value) in self.recorder.arguments:
            return None
        for known in (*self.recorder.arguments.values(), *self.recorder.tensors.values()):
            if is_a(known, Tensor) and (known is root or inplace.base_of(known) is root):
                return _root_as_of(self._recipe(known))
        return self._recipe(root)

    def _of_elements(self, base: type, value: Any) -> Build:
        """A tuple or frozenset: it is there once its elements are."""
        cls, place = type(value), id(value)
        self._unfinished.add(place)
        parts = [self._recipe(each) for each in value]
        self._unfinished.discard(place)
        attributes = self._attributes(value)
        if cls is tuple:

            def of_tuple(given: Sequence[Any], made: dict[int, Any]) -> Any:
                made[place] = done = tuple([part(given, made) for part in parts])
                return done

            return of_tuple

        def build(given: Sequence[Any], made: dict[int, Any]) -> Any:
            made[place] = done = base.__new__(cls, [part(given, made) for part in parts])  # type: ignore[call-arg]
            for store, part in attributes:
                store(done, part(given, made))
            return done

        return build

    def _of_object(self, base: Any, value: Any) -> Build:
        """An object that may be part of itself: it is made first, and filled then."""
        cls, place = type(value), id(value)
        arguments: tuple[Any, ...] = ()
        fill: Callable[[Any, Any], Any] | None = None
        parts: list[Any] = []
        pairs: list[tuple[Build, Build]] = []
        if base is list or base is collections.deque or base is set:
            parts = [self._recipe(each) for each in base.__iter__(value)]
            fill = getattr(base, "add" if base is set else "append")
            arguments = ((), value.maxlen) if base is collections.deque else ()
        elif issubclass(base, dict):
            pairs = [(self._recipe(key), self._recipe(each)) for key, each in base.items(value)]
            if base is collections.defaultdict:
                if not self.recorder.is_constant(value.default_factory) and value.default_factory not in PURE:
                    raise NoRecipe("a defaultdict whose factory was made in the call is returned")
                arguments = (value.default_factory,)
        attributes = self._attributes(value)

        def build(given: Sequence[Any], made: dict[int, Any]) -> Any:
            made[place] = done = base.__new__(cls)
            if arguments:
                base.__init__(done, *arguments)
            for part in parts:
                fill(done, part(given, made))  # type: ignore[misc]
            for key, part in pairs:
                base.__setitem__(done, key(given, made), part(given, made))
            for store, part in attributes:
                store(done, part(given, made))
            return done

        return build

    def _attributes(self, value: Any) -> list[tuple[Callable[[Any, Any], Any], Build]]:
        """How the attributes of an object's dict and slots are set, and made."""
        found: list[tuple[Callable[[Any, Any], Any], Build]] = []
        for base in type(value).__mro__:
            for descriptor in vars(base).values():
                if type(descriptor) is MemberDescriptorType and base.__flags__ & 1 << 9:
                    with contextlib.suppress(AttributeError):  # it isn't set
                        found.append((descriptor.__set__, self._recipe(descriptor.__get__(value))))
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return found
        return [*found, *((functools.partial(_store, name), self._recipe(each)) for name, each in own.items())]


def _root_as_of(known: Build) -> Build:
    """What a view of a tensor from outside the call is a view of: this tensor, or what that is one of."""

    def build(given: Sequence[Any], made: dict[int, Any]) -> Any:
        of = known(given, made)
        base = inplace.base_of(of)
        return of if base is None else base

    return build


def _is_of_python(cls: type) -> bool:
    """Whether a class keeps nothing beyond its base but a dict and slots, as what C code makes may."""
    own = vars(cls).values()
    slots = sum(type(each) in (MemberDescriptorType, GetSetDescriptorType) for each in own)
    larger = cls.__base__ is not None and cls.__basicsize__ - cls.__base__.__basicsize__
    return bool(cls.__flags__ & 1 << 9) and larger <= 8 * slots and not isinstance(vars(cls).get("__new__"), BuiltinFunctionType)


def _store(name: str, o: Any, value: Any) -> None:
    """Set an entry of an object's dict."""
    object.__getattribute__(o, "__dict__")[name] = value
