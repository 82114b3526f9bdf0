"""Functions of Python's library with a rule of their own, since what they read isn't what their code or C code would show.

Stands on operators.py; used by calls.py.
"""

from __future__ import annotations

import collections
import contextvars
import copy
import copyreg
import enum
import functools
import gc
import inspect
import operator
import sys
from collections.abc import Callable
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

from flambeau.capture.kinds import ABSENT, IMMUTABLE, in_class, is_a
from flambeau.capture.operators import Operators
from flambeau.codegen.runtime.call_watch import CallWatch

__all__ = ["Rules"]

COUNT_ELEMENTS = vars(collections)["_count_elements"]  # what a Counter calls
LRU_CACHES = type(functools.lru_cache(lambda: None))


def _parts_of_signature(made: Any) -> list[Any]:
    """Objects that a signature was made of: defaults and annotations."""
    if is_a(made, inspect.Signature):
        return [made.return_annotation, *(p for each in made.parameters.values() for p in (each.default, each.annotation))]
    return [*(made.defaults or ()), *(made.kwonlydefaults or {}).values(), *made.annotations.values()]


class _Unknown(Exception):
    """args[0]: the kind of what can't be copied by the rule."""


class Rules(Operators):
    """Rules for inspect, lru_cache, context variables and id."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.net: CallWatch | None = None  # which sees every function that begins
        self.collects = False  # whether garbage is collected once more when the net is down for good
        self.variables: dict[contextvars.ContextVar[Any], Any] = {}  # those that the call sets, with what they were before

    def _aside(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A function of Python's library, of which everything that it reads is pinned otherwise: the net doesn't see it."""
        sys.setprofile(None)
        try:
            return f(*args, **kwargs)
        finally:
            self.watch()

    def watch(self) -> None:
        """Have the net up again, as long as there is something to find out."""
        if self.net is not None and self.reason is None:
            self.net.begin()

    def refuse(self, reason: str) -> None:
        if self.net is not None and self.reason is None:
            self.end_watch()
        super().refuse(reason)

    def end_watch(self) -> None:
        """There is nothing more to find out: the program finds profile functions and the garbage collector as it left them."""
        sys.setprofile(None)
        if self.collects:
            gc.enable()

    # ---- inspect
    def signature(self, f: FunctionType, of: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """inspect.signature, or getfullargspec, of functions and methods."""
        self.guards.function(f, f"the function {f.__qualname__}")
        for each in (*args, *kwargs.values()):
            self.touch(each)
        inner = of
        while True:
            inner = self.reach(inner.__func__) if type(inner) is MethodType else inner
            if self.of_environment(inner):
                self.guards.function(inner, f"the function {inner.__qualname__}")
                self.attribute(inner, "__dict__")
                for name in ("__wrapped__", "__signature__", "__text_signature__", "__type_params__"):
                    self.guards.item(inner.__dict__, name, f"the attribute {name} of a function")
                self.attribute(inner, "__annotations__")
                self.touch(inner.__annotations__)
            following = inner.__dict__.get("__wrapped__")
            if following is None or "__signature__" in inner.__dict__:
                break
            if not is_a(following, (FunctionType, MethodType)):
                self.refuse(f"the signature of a {type(following).__qualname__} is asked for")
                break
            inner = self.reach(following)
        made = self._aside(f, of, *args, **kwargs)
        for each in self._aside(_parts_of_signature, made):
            self.reach(each)
        return made

    # ---- what is kept by arguments
    def call_of_cache(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function under lru_cache, which isn't called where its answer is known: replays ask the cache whether it still is."""
        if not self.of_environment(f) or not all(map(self.is_constant, (*args, *kwargs.values()))):
            self.refuse("a function under lru_cache is called")
            return f(*args, **kwargs)
        before = f.cache_info()
        made = self._aside(f, *args, **kwargs)
        after = f.cache_info()
        if after.misses != before.misses:
            self.refuse("a function under lru_cache is called for the first time")
            return made
        self.guards.hold(f, *args, *kwargs.values())

        def ask() -> bool:
            now = f.cache_info()
            if now.misses != after.misses or now.hits < after.hits:
                return False
            return f(*args, **kwargs) is made  # it may have been emptied, and filled up to the same counts

        self.guards.asked(ask, "what lru_cache keeps")
        return self.reach(made)

    # ---- variables of a context
    def variable(self, var: contextvars.ContextVar[Any], name: str, args: tuple[Any, ...]) -> Any:
        """A method of a context variable."""
        if not self.of_environment(var):
            return getattr(var, name)(*args)
        now = var.get(ABSENT)
        if name == "get":
            if now is self.variables.get(var, now):  # what it was before the call
                self.guards.hold(var, now)
                scalar = type(now) in (int, float, str, bytes)
                self.guards.asked(
                    lambda: (
                        (found := var.get(ABSENT)) is now
                        or (scalar and type(found) is type(now) and found == now and repr(found) == repr(now))
                    ),
                    "a variable of the context",
                )
                if now is not ABSENT:
                    self.reach(now)
            return var.get(*args)
        self.variables.setdefault(var, now)
        if name == "reset" and any(map(self.of_environment, args)):
            self.refuse("a variable of the context is reset to what was before the call")
        return getattr(var, name)(*args)

    def look_back(self) -> None:
        super().look_back()
        if any(var.get(ABSENT) is not before for var, before in self.variables.items()):
            self.refuse("a variable of the context is set")

    # ---- addresses
    def identity(self, value: Any) -> int:
        """id(value): the same in later calls for what guards hold; other addresses may only be keys of what is made here."""
        if self.reason is None:
            if self.is_constant(value) and not is_a(value, (int, float, complex, str, bytes)):
                self.guards.hold(value)
            else:
                self.addresses.add(id(value))
        return id(value)

    def handled(self) -> Any:
        """sys.exc_info()"""
        found = sys.exc_info()
        if found[1] is not None:
            self.refuse("an error that is being handled is asked for")
        self.guards.asked(lambda: sys.exc_info()[1] is None, "an error that is being handled")
        return found

    def handled_error(self) -> Any:
        """sys.exception()"""
        return self.handled()[1]

    # ---- copies
    def copied(self, f: FunctionType, value: Any) -> Any:
        """copy.copy or copy.deepcopy of what is made of Python's own containers and plain objects."""
        self.guards.function(f, f"the function {f.__qualname__}")
        try:
            return self._copy(value, {} if f is copy.deepcopy else None)
        except _Unknown as kind:
            self.refuse(f"a {kind} is copied")
            return f(value)

    def _copy(self, value: Any, memo: dict[int, Any] | None) -> Any:
        """memo: copies by the addresses of what they are of; None: parts are taken as they are."""
        cls = type(value)
        hook = "__copy__" if memo is None else "__deepcopy__"
        if cls in IMMUTABLE or is_a(value, (type, FunctionType)):
            return value
        if is_a(value, enum.Enum):
            self._pinned_class(value)
            if in_class(cls, hook) is not in_class(enum.Enum, hook):
                raise _Unknown(cls.__qualname__)
            return value
        if memo is not None and id(value) in memo:
            return memo[id(value)]
        tables = vars(copy)["_copy_dispatch" if memo is None else "_deepcopy_dispatch"], copyreg.dispatch_table
        for table in tables:
            self.guards.item(table, cls, f"how a {cls.__qualname__} is copied")
        deep = (lambda each: each) if memo is None else (lambda each: self._copy(each, memo))
        if cls in (list, dict, tuple):
            self._touch_container(value, False)
            if cls is tuple:
                parts = tuple(map(deep, value))
                made: Any = value if all(a is b for a, b in zip(value, parts, strict=True)) else parts
                return made if memo is None else memo.setdefault(id(value), made)  # its parts may have led to itself
            made = cls()
            if memo is not None:
                memo[id(value)] = made
            if cls is list:
                made.extend(map(deep, value))
            else:
                made.update((deep(key), deep(each)) for key, each in value.items())
            return made
        plain = all(base.__flags__ & 1 << 9 or base in (object, SimpleNamespace) for base in cls.__mro__)
        own = ("__reduce__", "__getstate__", "__getnewargs__", "__getnewargs_ex__", "__copyreg__", "__slots__")
        if (
            not plain
            or any(cls in table for table in tables)
            or any(
                in_class(cls, name) not in (ABSENT, (), getattr(object, name, ABSENT))
                for name in own
                if cls is not SimpleNamespace
            )
        ):
            raise _Unknown(cls.__qualname__)
        if in_class(cls, "__new__") is not object.__new__ and cls is not SimpleNamespace:
            raise _Unknown(cls.__qualname__)
        method = self._attribute_or(value, hook)
        if method is not ABSENT or in_class(cls, "__setstate__") is not ABSENT:
            raise _Unknown(cls.__qualname__)
        for name in ("__reduce_ex__", "__class__"):  # which code of the program may answer
            self.attribute(value, name)
        state = self.attribute(value, "__dict__")
        made = object.__new__(cls) if cls is not SimpleNamespace else SimpleNamespace()
        if memo is not None:
            memo[id(value)] = made
        self._touch_container(state, False)
        object.__getattribute__(made, "__dict__").update((name, deep(each)) for name, each in state.items())
        return made

    def _attribute_or(self, value: Any, name: str) -> Any:
        try:
            return self.attribute(value, name)
        except AttributeError:
            return ABSENT

    # ---- functions in C that read what is pinned
    def got(self, f: Any, value: Any) -> Any:
        """What operator.itemgetter or attrgetter, which are immutable, get of a value."""
        names = f.__reduce__()[1]
        if type(f) is operator.itemgetter:
            found = [self.item(value, self.touch(self.reach(each) if self.of_environment(f) else each)) for each in names]
        else:
            found = [functools.reduce(self.attribute, each.split("."), value) for each in names]
        return found[0] if len(found) == 1 else tuple(found)

    def hashed(self, value: Any) -> int:
        """hash(value)"""
        if not self._is_hashed_by_value(value):
            self.refuse(f"the hash of a {type(value).__qualname__} is asked for")
        return hash(self.touch(value))

    def _is_hashed_by_value(self, value: Any) -> bool:
        if type(value) is tuple:
            return all(map(self._is_hashed_by_value, value))
        return type(value) in (int, float, complex, bool, str, bytes)

    def counted(self, counter: Any, values: Any) -> None:
        """What collections.Counter does with what it is given."""
        self._written(counter, "a Counter of the surroundings is changed")
        COUNT_ELEMENTS(counter, self.each(self.touch(values)))

    # ---- functions that call what they are given
    def reduced(self, function: Any, values: Any, *initial: Any) -> Any:
        """functools.reduce"""
        return functools.reduce(functools.partial(self.call, function), self.spread(values), *initial)

    def ordered(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """sorted, min and max and list.sort with a key."""
        key = kwargs["key"]
        return f(*args, **{**kwargs, "key": None if key is None else functools.partial(self.call, key)})
