"""Calls: functions with source are run instrumented, those of flambeau's own rooms and known ones in C as they are.

Everything else refuses. Stands on steps.py.
"""

from __future__ import annotations

import abc
import collections
import contextvars
import copy
import functools
import inspect
import operator
import sys
import weakref
from collections.abc import Callable, Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any

import flambeau as torch
from flambeau.capture.builtins import CONTAINERS, OF_CONTEXTS, PURE, SCALARS, method_kind
from flambeau.capture.instrument import Instrumented
from flambeau.capture.kinds import (
    C_FUNCTIONS,
    GENERIC_READERS,
    HANDED_OVER,
    IMMUTABLE,
    MODES,
    OF_LAYOUT,
    OF_PLACES,
    SHORTENS_TRACEBACKS,
    TENSORS,
    in_class,
    is_a,
    is_made_by_class_statement,
    is_of_namedtuple,
    is_trusted,
)
from flambeau.capture.operators import Length
from flambeau.capture.rules import COUNT_ELEMENTS, LRU_CACHES
from flambeau.capture.steps import Steps
from flambeau.codegen.programs import Tape
from flambeau.core.autograd import engine
from flambeau.core.operator import foreach
from flambeau.core.tensor.tensor import Tensor
from flambeau.optim import update

__all__ = ["Calls"]


MOST_DEPTH = 128  # of functions that are followed, each of which takes several frames of Python's limit
_SIGNATURES = (inspect.signature, inspect.getfullargspec)
_GETTERS = (operator.itemgetter, operator.attrgetter)
_WITHOUT_GRADIENTS = torch.no_grad()(lambda: None).__code__  # and of other modes, as a decorator
_UNDER_AUTOCAST = torch.autocast("cpu", enabled=False)(lambda: None).__code__
_OF_FRAMES = {locals, globals, vars, dir, eval, exec, sys._getframe}


def _classes_in(classes: Any) -> Iterator[Any]:
    """The classes that isinstance was given: in tuples, and in unions."""
    if isinstance(classes, (tuple, UnionType)):
        for each in classes if isinstance(classes, tuple) else classes.__args__:
            yield from _classes_in(each)
    else:
        yield classes


def _none_registered_since(token: object) -> bool:
    return abc.get_cache_token() == token


class _Unwatched:
    def __init__(self, recorder: Calls) -> None:
        self.recorder = recorder

    def __enter__(self) -> None:
        sys.setprofile(None)

    def __exit__(self, *exception: object) -> None:
        self.recorder.watch()


class Calls(Steps):
    """The hook for calls; `codes` are those of instrumented functions."""

    _followed: Callable[[FunctionType], Instrumented | None]
    _instance: Callable[[FunctionType, Instrumented], FunctionType]

    def __init__(self, tape: Tape | None = None) -> None:
        super().__init__(tape)
        self.codes: set[CodeType] = set()
        self._depth = 0  # of functions that are being followed

    def unwatched(self) -> _Unwatched:
        """A block in which the net is down, as its functions are known."""
        return _Unwatched(self)

    def callee(self, f: Any) -> Any:
        """What to call in place of f. What can't be followed is called by the function itself, whose frame it may ask for."""
        if self.reason is None:
            if type(f) is BuiltinFunctionType and f in _OF_FRAMES:
                self.refuse(f"{f.__name__} is called, which looks at frames")
            elif is_a(f, type) and not self._is_followed_class(f):
                self.refuse(f"an object of {f.__qualname__} is made")
            elif type(f) is FunctionType and f.__code__ not in self.codes and not is_trusted(f.__code__):
                self._followed(f)
        return f if self.reason is not None else functools.partial(self.call, f)

    def called_with(self, f: Any) -> Any:
        """What to call in place of vars, dir and the like, which are given an object: they don't look at frames."""
        return self._vars if f is vars and self.reason is None else self.callee(f)

    def _vars(self, o: Any) -> Any:
        """vars(o)"""
        try:
            return self.attribute(o, "__dict__")
        except AttributeError:
            return vars(o)  # an error in its own words

    def call(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.reason is not None:
            return f(*args, **kwargs)
        cls = type(f)
        if cls is FunctionType:
            return self._call_function(f, args, kwargs)
        if cls is MethodType:
            return self.call(self.reach(f.__func__), f.__self__, *args, **kwargs)
        if is_a(f, C_FUNCTIONS):
            return self._call_native(f, args, kwargs)
        if is_a(f, type):
            return self._call_class(f, args, kwargs)
        if cls is functools.partial:
            if self.of_environment(f):
                parts = f.func, f.args, f.keywords
                self.guards.hold(*parts)
                same = lambda: f.func is parts[0] and f.args is parts[1] and f.keywords is parts[2]
                self.guards.asked(same, "the parts of a partial")  # which __setstate__ exchanges
                for part in parts:
                    self.touch(self.reach(part))
            return self.call(f.func, *f.args, *args, **{**f.keywords, **kwargs})
        if cls is LRU_CACHES:
            return self.call_of_cache(f, args, kwargs)
        if cls is weakref.ref and self.of_environment(f) and not args:
            referent = f()
            known = id(referent)
            self.guards.asked(lambda: id(f()) == known, "what a weak reference refers to")
            return self.reach(referent)
        if cls in _GETTERS and len(args) == 1 and not kwargs:
            return self.got(f, args[0])
        method = in_class(cls, "__call__")
        if cls in MODES:
            return f(*args, **kwargs)  # a function in that mode
        if type(method) is FunctionType:
            self._pinned_class(f)
            return self.call(self.reach(method), f, *args, **kwargs)
        self.refuse(f"a {cls.__module__}.{cls.__qualname__} is called")
        return f(*args, **kwargs)

    def _call_function(self, f: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        code = f.__code__
        if code in self.codes:  # made in this call, by instrumented code
            return f(*args, **kwargs)
        if f in (copy.copy, copy.deepcopy) and len(args) == 1 and not kwargs:
            return self.copied(f, args[0])
        if f in _SIGNATURES and args and is_a(args[0], (FunctionType, MethodType)):
            return self.signature(f, args[0], args[1:], kwargs)
        if is_trusted(code):
            within = getattr(f, "__wrapped__", None) if code.co_filename == SHORTENS_TRACEBACKS else None
            if type(within) is FunctionType and not is_trusted(within.__code__):
                return self.call(self.reach(within), *args, **kwargs)
            if code is _WITHOUT_GRADIENTS or code is _UNDER_AUTOCAST:
                cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
                for cell in cells.values():
                    self.guards.cell(cell, f"what {f.__qualname__} decorates")
                if code is _UNDER_AUTOCAST:
                    with self.context(self.reach(cells["self"].cell_contents)):
                        return self.call(self.reach(cells["function"].cell_contents), *args, **kwargs)
                made = cells["clone"].cell_contents
                if type(getattr(made, "__self__", None)) in MODES:
                    with made():
                        return self.call(self.reach(cells["function"].cell_contents), *args, **kwargs)
            return self._call_trusted(f, args, kwargs)
        made = self._followed(f)
        if made is None:
            return f(*args, **kwargs)
        self.guards.function(f, f"the function {f.__qualname__}")
        for each in f.__defaults__ or ():
            self.reach(each)
        self.touch(self.reach(f.__kwdefaults__))
        self._depth += 1
        if self._depth > MOST_DEPTH:
            self.refuse("functions call each other too deeply")
            return f(*args, **kwargs)
        try:
            return self._instance(f, made)(*args, **kwargs)
        finally:
            self._depth -= 1

    def _call_trusted(self, f: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of flambeau's own rooms is run as it is: of tensors it makes tensors, by launches that the tape sees."""
        self.guards.function(f, f"the function {f.__qualname__}")
        rule = _RULES.get(f.__code__)
        if rule is not None:
            return rule(self, f, args, kwargs)
        for each in (*args, *kwargs.values()):
            self._handed_over(each, f)
        if f.__name__ in OF_PLACES:
            self.refuse(f"{f.__name__} is called, which asks for a tensor's place in its storage")
        result = f(*args, **kwargs)
        if f.__name__ not in (*OF_LAYOUT, "__enter__", "__exit__") and not self._is_of_tensors(result):
            self.refuse(f"{f.__name__} is called, which may read or change more than tensors")
        return result

    def _handed_over(self, value: Any, f: FunctionType) -> None:
        """Refuse where a trusted function could read more of an argument than is pinned."""
        self.touch(value)
        if type(value) in CONTAINERS:
            for each in [*value, *value.values()] if is_a(value, dict) else value:
                self._handed_over(each, f)
        elif not is_a(value, HANDED_OVER) and type(value) not in IMMUTABLE and type(value) not in MODES:
            if f.__name__ not in OF_LAYOUT:
                self.refuse(f"{f.__name__} is called with a {type(value).__qualname__}")

    def _is_of_tensors(self, result: Any) -> bool:
        """Whether a result is tensors and nothing else but None between them."""
        if is_a(result, (tuple, list)):
            parts = [each for each in result if each is not None]
            return bool(parts) and all(map(self._is_of_tensors, parts))
        return is_a(result, Tensor)

    def _call_class(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rule = _CLASSES.get(cls)
        if rule is not None and not kwargs and (len(args) == 1 or cls in (map, filter)):
            return rule(self, *args)
        if cls in PURE or cls in IMMUTABLE:
            return self._call_pure(cls, args, kwargs)
        if cls is type and len(args) == 1:
            self._pinned_class(args[0])
            return self.reach(type(args[0]))
        if cls is MethodType and len(args) == 2 and not kwargs and is_a(args[0], FunctionType):
            return MethodType(*args)
        if cls is collections.defaultdict:
            if args and args[0] is not None and args[0] not in PURE:
                self.refuse("a defaultdict is made whose values are made by a function of the program")
            return cls(*self._looked_into(args), **kwargs)
        if cls is super and len(args) == 2:
            return super(*args)
        if not self._is_followed_class(cls):
            self.refuse(f"an object of {cls.__qualname__} is made")
            return cls(*args, **kwargs)
        self.guards.class_state(type(cls), f"the class of {cls.__qualname__}")
        if not self.guards.class_state(cls, f"attributes of {cls.__qualname__}"):
            self.refuse(f"the class {cls.__qualname__} changed too often")
        if cls in MODES:
            if not all(map(self.is_constant, (*args, *kwargs.values()))):
                self.refuse(f"a {cls.__qualname__} is made of what isn't constant")
            return cls(*args, **kwargs)
        by_class = in_class(type(cls), "__call__")
        if type(by_class) is FunctionType:
            return self.call(self.reach(by_class), cls, *args, **kwargs)
        return self._made(cls, args, kwargs)

    def _made(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """type.__call__(cls, *args, **kwargs)"""
        make, initialize = in_class(cls, "__new__"), in_class(cls, "__init__")
        make = getattr(make, "__func__", make)
        if type(make) is not FunctionType and type(initialize) is not FunctionType:
            return type.__call__(cls, *self._looked_into(args), **kwargs)
        if type(make) is FunctionType:
            made: Any
            if is_of_namedtuple(make.__globals__):
                self.guards.function(make, f"the function {make.__qualname__}")
                made = make(cls, *args, **kwargs)
            else:
                made = self.call(self.reach(make), cls, *args, **kwargs)
            if not is_a(made, cls):
                return made
        else:
            made = make(cls, *self._looked_into(args), **kwargs)
        if type(initialize) is FunctionType:
            nothing = self.call(self.reach(initialize), made, *args, **kwargs)
            if nothing is not None:
                raise TypeError(f"__init__() should return None, not '{type(nothing).__name__}'")
        elif initialize is not object.__init__:
            initialize(made, *self._looked_into(args), **kwargs)
        return made

    def _is_followed_class(self, cls: type) -> bool:
        """Whether it is known what making an object of a class does, or it is done by a function that can be followed."""
        if cls in PURE or cls in IMMUTABLE or cls in (type, super, map, MethodType, collections.defaultdict):
            return True
        if cls in MODES:
            return True
        if issubclass(cls, (Tensor, type)) or not is_made_by_class_statement(cls):
            return False
        by_class = in_class(type(cls), "__call__")
        if by_class is not type.__call__ and type(by_class) is not FunctionType:
            return False
        make, initialize = in_class(cls, "__new__"), in_class(cls, "__init__")
        make = getattr(make, "__func__", make)
        for each in (make, initialize):
            if type(each) is FunctionType and not is_trusted(each.__code__) and not is_of_namedtuple(each.__globals__):
                self._followed(each)
        if type(make) is FunctionType:
            return not is_trusted(make.__code__) or is_of_namedtuple(make.__globals__)
        owner: Any = getattr(make, "__self__", None)
        if owner is not object and owner not in CONTAINERS and owner not in SCALARS and not issubclass(owner, BaseException):
            return False
        return type(initialize) is FunctionType or initialize is in_class(owner, "__init__")

    def _call_native(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_a(f, (MethodDescriptorType, WrapperDescriptorType)):
            if not args:
                return f(*args, **kwargs)
            return self._call_native(f.__get__(args[0], type(args[0])), args[1:], kwargs)
        if type(f) is MethodWrapperType and not kwargs:
            unbound = getattr(f.__objclass__, f.__name__)
            if unbound in GENERIC_READERS:
                return self._generic(f.__self__, args[0])
            if unbound is object.__setattr__ and self._set_own(f.__self__, args[0]):
                return f(*args)
            if unbound in (object.__setattr__, object.__delattr__):
                self._written(f.__self__, f"the attribute {args[0]} of a {type(f.__self__).__qualname__} is set")
                return f(*args)
            if unbound is object.__init__:
                return f(*args)
            made: Any = f.__self__
            if unbound is type.__call__ and self._is_followed_class(made):
                return self._made(made, args, kwargs)
        special = _SPECIAL.get(f)
        if special is not None:
            return special(self, *args, **kwargs)
        owner: Any = getattr(f, "__self__", None)
        if f in PURE and (owner is None or is_a(owner, (ModuleType, type))):
            return self._call_pure(f, args, kwargs)
        name = f.__name__
        if type(owner) in OF_CONTEXTS and name in ("get", "set", "reset") and is_a(owner, contextvars.ContextVar):
            return self.variable(owner, name, args)
        if name == "__new__" and (owner is object or owner in CONTAINERS or owner in SCALARS) and args and is_a(args[0], type):
            self.guards.class_state(args[0], f"attributes of {args[0].__qualname__}")
            return f(args[0], *self._looked_into(args[1:]), **kwargs)
        kind = method_kind(owner, name) if owner is not None and not is_a(owner, (ModuleType, type)) else None
        if kind == "reads":
            return self._call_reading(f, owner, name, args, kwargs)
        if kind == "writes":
            self._written(owner, f"a {type(owner).__qualname__} of the surroundings is changed by {name}")
            for each in (*args, *kwargs.values()):
                self.touch(each)
            return self.ordered(f, args, kwargs) if "key" in kwargs else f(*args, **kwargs)
        self.refuse(f"the function {getattr(f, '__qualname__', f)}, which is written in C, is called")
        return f(*args, **kwargs)

    def _call_pure(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function or class that reads its arguments and nothing else."""
        for each in kwargs.values():
            self.touch(each)
        if "key" in kwargs:
            return self.ordered(f, tuple(self._looked_into(args)), kwargs)
        return f(*self._looked_into(args), **kwargs)

    def _looked_into(self, args: tuple[Any, ...]) -> Iterator[Any]:
        """Arguments of a function in C, which may iterate over them."""
        for each in args:
            self.touch(each)
            yield (self.each(each) if type(in_class(type(each), "__iter__")) is FunctionType and not is_a(each, Tensor) else each)

    def _call_reading(self, f: Any, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mine = self.of_environment(owner)
        if not args:
            self.touch(owner)
            return f(*args, **kwargs)
        if mine:
            self.touch(args[0])
        if name == "get" and mine and type(owner) is dict and type(args[0]) in SCALARS and self.is_written(owner, args[0]):
            return f(*args, **kwargs)
        if name == "get" and is_a(owner, dict) and mine and type(args[0]) in SCALARS and id(owner) not in self.touched:
            value = f(*args, **kwargs)
            self.guards.item(owner, args[0], f"the entry {args[0]!r} of a dict", args[0] not in owner or self._kept(value))
            return self.reach(value) if args[0] in owner else value
        if name == "get" and type(owner) is dict and not mine and type(args[0]) in SCALARS:
            return f(*args, **kwargs)
        for each in (owner, *args, *kwargs.values()):
            self.touch(each)
        if type(owner) is str and name in ("format", "format_map"):
            self._shows((args, kwargs))
        if name in ("index", "count", "__eq__", "__ne__", "__contains__") and self._goes_by_identity((owner, *args)):
            self.refuse("a container of tensors is compared")
        return f(*args, **kwargs)

    # ---- functions of Python with a rule of their own
    def _isinstance(self, value: Any, classes: Any) -> bool:
        if type(value) not in IMMUTABLE:
            self._pinned_class(value)
        self.touch(classes)
        for each in _classes_in(classes):
            if each in TENSORS:
                continue
            if is_a(each, type):
                self.guards.class_state(type(each), f"the class of {each.__qualname__}")
            check = in_class(type(each), "__instancecheck__")
            if is_a(each, abc.ABCMeta):
                known = functools.partial(_none_registered_since, abc.get_cache_token())
                self.guards.asked(known, "classes registered with abstract ones")
            elif type(check) is FunctionType and not is_trusted(check.__code__):
                return bool(self.call(self.reach(check), each, value))
        if type(in_class(type(value), "__getattribute__")) is FunctionType:  # isinstance may ask it for a class
            shown = self.attribute(value, "__class__")
            return is_a(value, classes) or (isinstance(shown, type) and issubclass(shown, classes))
        return isinstance(value, classes)

    def _issubclass(self, cls: Any, classes: Any) -> bool:
        self._isinstance(None, classes)  # which pins the same
        self.touch(cls)
        for each in _classes_in(classes):
            if type(in_class(type(each), "__subclasscheck__")) is FunctionType and not is_a(each, abc.ABCMeta):
                self.refuse(f"{each.__qualname__} answers issubclass by code of its own")
        return issubclass(cls, classes)

    def _getattr(self, o: Any, name: str, *default: Any) -> Any:
        try:
            return self.attribute(o, name)
        except AttributeError:
            if default:
                return default[0]
            raise

    def _hasattr(self, o: Any, name: str) -> bool:
        try:
            self.attribute(o, name)
        except AttributeError:
            return False
        return True

    def _map(self, *args: Any) -> Any:
        parts: Any = [functools.partial(self.call, each) for each in args[:1]] + [self.each(each) for each in args[1:]]
        return map(*parts)

    def _filter(self, *args: Any) -> Any:
        if len(args) != 2:
            return filter(*args)
        test, values = args
        return filter(self.truth if test is None else lambda each: self.truth(self.call(test, each)), self.each(values))

    def _len(self, o: Any) -> int:
        method = in_class(type(o), "__len__")
        if type(method) is FunctionType and not is_a(o, Tensor):
            self._pinned_class(o)
            return len(Length(self.call(self.reach(method), o)))
        return len(self.touch(o))

    def _iter(self, o: Any, *sentinel: Any) -> Any:
        return iter(self.each(o), *sentinel) if not sentinel else iter(o, *sentinel)

    def _next(self, o: Any, *default: Any) -> Any:
        method = in_class(type(o), "__next__")
        if type(method) is FunctionType:
            self.refuse(f"next() of a {type(o).__qualname__}")
        self._written(o, f"a {type(o).__qualname__} of the surroundings is advanced")
        return next(o, *default)


#: What trusted functions do beside making tensors of tensors.
_RULES: dict[CodeType, Callable[..., Any]] = {
    **{f.__code__: Calls.differentiate for f in (Tensor.backward, engine.backward, engine.grad)},
    update.by_step.__code__: lambda self, f, args, kwargs: self.by_step(f, *args, **kwargs),
    update.scalars_of.__code__: lambda self, f, args, kwargs: self.scalars_of(f, *args, **kwargs),
    foreach.pointwise_updates.__code__: lambda self, f, args, kwargs: self.pointwise_updates(f, *args, **kwargs),
    update.apply_updates.__code__: lambda self, f, args, kwargs: self.apply_updates(f, *args, **kwargs),
}
_SPECIAL: dict[Any, Callable[..., Any]] = {
    isinstance: Calls._isinstance,
    issubclass: Calls._issubclass,
    operator.is_: Calls.same,
    operator.is_not: lambda self, a, b: not self.same(a, b),
    getattr: Calls._getattr,
    hasattr: Calls._hasattr,
    setattr: Calls.set_attribute,
    delattr: Calls.delete_attribute,
    len: Calls._len,
    hash: Calls.hashed,
    COUNT_ELEMENTS: Calls.counted,
    iter: Calls._iter,
    next: Calls._next,
    id: Calls.identity,
    sys.exc_info: Calls.handled,
    sys.exception: Calls.handled_error,
    functools.reduce: Calls.reduced,
    format: Calls.formatted,
    repr: lambda self, value: self.shown(value, "__repr__"),
}
_CLASSES: dict[type, Callable[..., Any]] = {
    bool: lambda self, value: bool(self.truth(value)),
    str: lambda self, value: self.shown(value, "__str__"),
    map: Calls._map,
    filter: Calls._filter,
}
