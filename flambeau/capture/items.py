"""Looks at items of containers, iteration, contexts, and changes of items: as Python's own, with guards.

Stands on attributes.py.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import flambeau as torch
from flambeau.capture.attributes import Attributes
from flambeau.capture.builtins import CONTAINERS, SCALARS
from flambeau.capture.kinds import ABSENT, IMMUTABLE, MODES, SINGLE, TENSORS, in_class, is_a, is_made_by_class_statement
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Items"]


def _looks_up_by_identity(container: Any) -> bool:
    """Whether a tensor is found in a container by its address alone: its hash is that, and nothing else there has such a one."""
    return type(container) in (set, frozenset, dict, collections.OrderedDict) and all(
        type(each) in SCALARS or type(each) in TENSORS for each in container
    )


class Items(Attributes):
    """The hooks for items, iteration, contexts, and for operators that compare by identity or write in place."""

    def item(self, o: Any, key: Any) -> Any:
        cls = type(o)
        if self.reason is not None or cls in IMMUTABLE:
            return o[key]
        if type(key) is int and self.of_environment(o):
            self.touch(key)
        mine = self.of_environment(o) and not (cls is dict and type(key) in SCALARS and self.is_written(o, key))
        if cls in (dict, collections.OrderedDict) or (cls is collections.defaultdict and key in o):
            if mine:
                if is_a(key, Tensor):
                    if id(key) not in self.tensors or id(key) in self.arguments:
                        self.refuse("a dict is asked for a tensor that isn't the same in every call")
                elif type(key) is tuple and all(type(each) in SCALARS for each in key):
                    pass
                elif type(key) not in SCALARS and type(key).__hash__ is not object.__hash__ and not isinstance(key, type):
                    self.refuse("a dict is asked for a key that is compared by Python code")
                if self.reason is not None:
                    return o[key]
                if id(o) not in self.touched:
                    shown = "of a tensor" if is_a(key, Tensor) else repr(key)
                    self.guards.item(o, key, f"the entry {shown} of a dict", key not in o or self._kept(o[key]))
            return self.part_of(o, o[key]) if mine else o[key]
        if cls in CONTAINERS:
            if mine and cls is collections.defaultdict:
                self.refuse("a defaultdict is asked for what it hasn't got")
            self._touch_container(o, False)
            return self.part_of(o, o[key]) if mine else o[key]
        if is_a(o, Tensor):
            return o[self.touch(key)]
        method = in_class(cls, "__getitem__")
        if type(method) is FunctionType:
            self._pinned_class(o)
            return self.call(self.reach(method), o, key)
        self.touch(o)
        if mine or is_a(o, type):
            self.refuse(f"an item of a {cls.__qualname__} is read")
        return o[key]

    @staticmethod
    def slice(start: Any, stop: Any, step: Any) -> slice:
        return slice(start, stop, step)

    def each(self, o: Any) -> Any:
        cls = type(o)
        if self.reason is not None or cls in IMMUTABLE or is_a(o, Tensor):
            return o
        mine = self.of_environment(o)
        if cls in CONTAINERS:
            self._touch_container(o, False)
            return self._reached(o) if mine else o
        method = in_class(cls, "__iter__")
        if type(method) is FunctionType:
            self._pinned_class(o)
            return self.each(self.call(self.reach(method), o))
        if type(in_class(cls, "__next__")) is FunctionType or (mine and not is_made_by_class_statement(cls)):
            self.refuse(f"a {cls.__qualname__} is iterated over")
        if method is ABSENT and type(in_class(cls, "__getitem__")) is FunctionType:
            self.refuse(f"a {cls.__qualname__} is iterated over by its __getitem__")
        self.touch(o)
        return o

    def _reached(self, values: Any) -> Iterator[Any]:
        for each in values:
            yield self.part_of(values, each)

    def context(self, o: Any) -> Any:
        if self.reason is not None:
            return o
        cls = type(o)
        enter, leave = in_class(cls, "__enter__"), in_class(cls, "__exit__")
        if type(enter) is not FunctionType or type(leave) is not FunctionType:
            self.refuse(f"with {cls.__qualname__}")
            return o
        self._pinned_class(o)
        if cls in MODES:
            if self.of_environment(o):
                self.pin_mode(o)
            return o
        return _Context(self, o, enter, leave)

    def pin_mode(self, o: Any) -> None:
        """A context of the surroundings that changes the thread's modes: an autocast does by its options, and keeps nothing."""
        if type(o) is not torch.autocast:
            self.refuse(f"with a {type(o).__qualname__} of the surroundings, which keeps what was before")
            return
        options = operator.attrgetter("device", "fast_dtype", "_enabled", "_cache_enabled")
        known = options(o)
        self.guards.asked(lambda: options(o) == known, "the options of an autocast")

    # ---- what asks whether objects are the same
    def same(self, a: Any, b: Any) -> bool:
        """Whether they are one object. Which tensors of the arguments are, is in the key; of their containers it isn't."""
        if self.reason is None and any(a is each or b is each for each in self.found):
            self.refuse("a gradient is compared with another object by identity")
        if self.reason is None and (id(a) in self.arguments or id(b) in self.arguments):
            if not (id(a) in self.arguments and id(b) in self.arguments and is_a(a, Tensor) and is_a(b, Tensor)):
                self.refuse("an argument is compared with another object by identity")
        if type(a) is type(b) and type(a) in IMMUTABLE and type(a) not in SINGLE:
            self.refuse("values are compared by identity")  # of which guards know whether they are equal
        return a is b

    def contains(self, value: Any, container: Any) -> bool:
        if self.reason is None and is_a(value, Tensor) and not is_a(container, Tensor):
            if type(value) not in TENSORS or not _looks_up_by_identity(container):
                self.refuse("a tensor is looked for in a container, by identity first")
            elif self.found and any(each is value or any(each is other for other in container) for each in self.found):
                self.refuse("a gradient is looked for in a container, by identity first")
        if self.reason is None:
            if is_a(value, Tensor) and type(container) in CONTAINERS:
                self.touch(container)
            elif type(container) in (dict, collections.OrderedDict) and self.of_environment(container) and type(value) in SCALARS:
                self.touch(value)
                if id(container) not in self.touched and not self.is_written(container, value):
                    self.guards.item(container, value, f"whether {value!r} is in a dict", True)
            elif type(container) in (dict, collections.OrderedDict) and type(value) in SCALARS:
                for key in container:
                    self.touch(key)
            elif type(container) not in CONTAINERS and type(container) not in IMMUTABLE:
                method = in_class(type(container), "__contains__")
                if type(method) is FunctionType:
                    self._pinned_class(container)
                    return bool(self.touch(self.call(method, container, value)))
                self.touch(container)
            else:
                self.compared(container)
                self.compared(value)
        return value in container

    def matched(self, value: Any) -> Any:
        """C code will compare a value's structure with patterns, and give parts of it."""
        if self.reason is None and not self._is_of_builtins(value):
            self.refuse(f"a {type(value).__qualname__}, or something with other parts than Python's own, is matched")
        return self.touch(value)

    def _is_of_builtins(self, value: Any) -> bool:
        if type(value) in CONTAINERS:
            return all(map(self._is_of_builtins, [*value, *value.values()] if is_a(value, dict) else value))
        return type(value) in IMMUTABLE or is_a(value, Tensor)

    # ---- changes
    def set_item(self, o: Any, key: Any, value: Any) -> None:
        if self.reason is None:
            if is_a(o, Tensor):
                self.touch(key)
                self.touch(value)
            elif type(in_class(type(o), "__setitem__")) is FunctionType:
                self._pinned_class(o)
                self.call(self.reach(in_class(type(o), "__setitem__")), o, key, value)
                return
            elif type(o) is dict and type(key) in SCALARS and self.of_environment(o):
                self.touch(key)
                self.write(o, key)
            else:
                self._written(o, f"an item of a {type(o).__qualname__} is set")
        o[key] = value

    def delete_item(self, o: Any, key: Any) -> None:
        if self.reason is None:
            if type(in_class(type(o), "__delitem__")) is FunctionType:
                self.refuse(f"an item of a {type(o).__qualname__} is deleted")
            self._written(o, f"an item of a {type(o).__qualname__} is deleted")
        del o[key]


class _Context:
    """A context manager whose methods are run instrumented."""

    def __init__(self, recorder: Items, manager: Any, enter: FunctionType, leave: FunctionType) -> None:
        self.recorder, self.manager, self.enter, self.leave = recorder, manager, enter, leave

    def __enter__(self) -> Any:
        return self.recorder.call(self.recorder.reach(self.enter), self.manager)

    def __exit__(self, *exception: Any) -> Any:
        return self.recorder.call(self.recorder.reach(self.leave), self.manager, *exception)
