"""Objects that change between two calls: each gives a function and what changes, and perhaps arguments before and after that."""

from __future__ import annotations

import abc
import collections
import contextvars
import copy
import enum
import functools
import math
import struct
import types
from collections.abc import Callable
from typing import Any

import flambeau as torch


def _ones() -> tuple[Any, ...]:
    return (torch.ones(3),)


def attribute_of_a_metaclass() -> Any:
    class Meta(type):
        scale = 2

    class Kept(metaclass=Meta):
        pass

    return lambda x: x * Kept.scale, _ones, lambda: setattr(Meta, "scale", 3)


def call_of_a_metaclass() -> Any:
    class Meta(type):
        pass

    class Made(metaclass=Meta):
        def __init__(self) -> None:
            self.k = 2

    return lambda x: x * Made().k, _ones, lambda: setattr(Meta, "__call__", lambda cls: types.SimpleNamespace(k=9))


def name_of_a_class() -> Any:
    class Kept:
        pass

    return lambda x: x * len(Kept.__name__), _ones, lambda: setattr(Kept, "__name__", "abcdefg")


def name_of_a_function() -> Any:
    def kept() -> None: ...

    return lambda x: x * len(kept.__name__), _ones, lambda: setattr(kept, "__name__", "abcdefg")


def absent_attributes_of_a_module() -> Any:
    module = types.ModuleType("module")
    return lambda x: x * (3 if hasattr(module, "k") else 2), _ones, lambda: setattr(module, "__getattr__", lambda name: 1)


def dict_of_a_class() -> Any:
    class Kept:
        items = [1]

    return lambda x: x * len(Kept.__dict__["items"]), _ones, lambda: Kept.items.append(1)


def static_object() -> Any:
    class Scale:
        k = 2

        def __call__(self, x: Any) -> Any:
            return x * self.k

    scale = Scale()

    class Kept:
        act = staticmethod(scale)

    return lambda x: Kept.act(x), _ones, lambda: setattr(scale, "k", 3)


def data_by_super() -> Any:
    class Base:
        items = [1]

    class Kept(Base):
        def method(self, x: Any) -> Any:
            return x * len(super().items)

    kept = Kept()
    return lambda x: kept.method(x), _ones, lambda: Base.items.append(1)


def slot_by_super() -> Any:
    class Base:
        __slots__ = ("k",)

    class Kept(Base):
        __slots__ = ()

        def method(self, x: Any) -> Any:
            return x * super().k

    kept = Kept()
    kept.k = 1
    return lambda x: kept.method(x), _ones, lambda: setattr(kept, "k", 3)


def bound_method() -> Any:
    kept = types.SimpleNamespace(k=2)
    method = types.MethodType(lambda self, x: x * self.k, kept)
    return lambda x: method(x), _ones, lambda: setattr(kept, "k", 3)


def object_of_a_bound_method() -> Any:
    kept = types.SimpleNamespace(k=2)
    method = types.MethodType(lambda self, x: x, kept)
    return lambda x: x * method.__self__.k, _ones, lambda: setattr(kept, "k", 3)


def bound_method_in_c() -> Any:
    kept = {"a": 1}
    get = kept.get
    return lambda x: x * get("a"), _ones, lambda: kept.update(a=2)


def captured_method() -> Any:
    kept = types.SimpleNamespace(k=2)
    return types.MethodType(lambda self, x: x * self.k, kept), _ones, lambda: setattr(kept, "k", 3)


def argument_of_a_partial() -> Any:
    part = functools.partial(lambda items, x: x, [1])
    return lambda x: x * len(part.args[0]), _ones, lambda: part.args[0].append(1)


def nested_classes_of_isinstance() -> Any:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    kept = types.SimpleNamespace()
    change = lambda: Abstract.register(types.SimpleNamespace)
    return lambda x: x * (2 if isinstance(kept, (int, (str, Abstract))) else 3), _ones, change


def union_of_isinstance() -> Any:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Other:
        pass

    kept = Other()
    return lambda x: x * (2 if isinstance(kept, int | Abstract) else 3), _ones, lambda: Abstract.register(Other)


def bases_of_a_class() -> Any:
    class First:
        pass

    class Second:
        pass

    class Kept(First):
        pass

    kept = Kept()
    return lambda x: x * (2 if isinstance(kept, Second) else 3), _ones, lambda: setattr(Kept, "__bases__", (Second,))


def check_of_a_metaclass() -> Any:
    class Meta(type):
        pass

    class Kept(metaclass=Meta):
        pass

    other = Exception()
    change = lambda: setattr(Meta, "__instancecheck__", lambda cls, value: True)
    return lambda x: x * (2 if isinstance(other, Kept) else 3), _ones, change


def numbers_by_identity() -> Any:
    kept = types.SimpleNamespace(a=1.5)
    kept.b = kept.a
    return lambda x: x * (2 if kept.a is kept.b else 3), _ones, lambda: setattr(kept, "b", float("1.5"))


def nan_in_a_list() -> Any:
    nan = float("nan")
    kept = types.SimpleNamespace(a=nan, items=[nan])
    return lambda x: x * (2 if kept.a in kept.items else 3), _ones, lambda: setattr(kept, "a", float("nan"))


def sign_of_a_nan() -> Any:
    (other,) = struct.unpack("<d", bytes(6) + b"\xf8\xff")
    arguments = lambda value: lambda: (torch.ones(3), value)
    return lambda x, v: x * math.copysign(1, v), arguments(math.nan), lambda: None, arguments(other)


def list_in_a_slice() -> Any:
    items = [1]
    kept = types.SimpleNamespace(place=slice(items, None))
    return lambda x: x * len(kept.place.start), _ones, lambda: items.append(1)


def list_in_itself() -> Any:
    items: list[Any] = [1]
    items.append(items)
    return lambda x, y: x * y[0], lambda: (torch.ones(3), items), lambda: None, lambda: (torch.ones(3), items)


def namespaces_compared() -> Any:
    a, b = types.SimpleNamespace(v=1), types.SimpleNamespace(v=1)
    return lambda x: x * (2 if a == b else 3), _ones, lambda: setattr(a, "v", 2)


def object_of_a_class_in_c() -> Any:
    class Bytes(bytearray):
        pass

    kept = Bytes(b"a")
    return lambda x: x * len(kept), _ones, lambda: kept.append(1)


def text_of_an_error() -> Any:
    class Error(Exception):
        pass

    kept = Error("a")
    return lambda x: x * len(str(kept)), _ones, lambda: setattr(kept, "args", ("abc",))


def elements_of_own_classes() -> Any:
    class Row(list):
        pass

    a, b = [Row([1])], [Row([1])]
    return lambda x: x * (2 if a == b else 3), _ones, lambda: a[0].append(1)


def bytes_in_a_list() -> Any:
    kept = [bytearray(b"a")]
    return lambda x: x * (2 if kept == [b"a"] else 3), _ones, lambda: kept[0].append(1)


def factory_of_a_defaultdict() -> Any:
    kept: Any = collections.defaultdict(int)
    change = lambda: setattr(kept, "default_factory", None)
    return lambda x: x * (2 if kept.default_factory is None else 3), _ones, change


def _described(change: Callable[[Any, type], Any]) -> Any:
    class Two:
        def __get__(self, o: Any, cls: Any) -> int:
            return 2

    descriptor = Two()
    kept = type("Kept", (), {"d": descriptor})
    held = types.new_class("Held", (kept,), {})()
    return lambda x: x * held.d, _ones, lambda: change(descriptor, Two)


def method_of_a_descriptor() -> Any:
    return _described(lambda descriptor, cls: setattr(cls, "__get__", lambda self, o, cls: 3))


def class_of_a_descriptor() -> Any:
    class Three:
        def __get__(self, o: Any, cls: Any) -> int:
            return 3

    return _described(lambda descriptor, cls: setattr(descriptor, "__class__", Three))


def class_of_a_module() -> Any:
    class Other(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            return 3 if name == "k" else super().__getattribute__(name)

    module = types.ModuleType("_module")
    module.k = 2  # type: ignore[attr-defined]
    return lambda x: x * module.k, _ones, lambda: setattr(module, "__class__", Other)  # type: ignore[attr-defined]


def variable_without_a_value() -> Any:
    later = 1
    del later

    def f(x: Any) -> Any:
        try:
            return x * later
        except NameError:
            return x * 3

    def change() -> None:
        nonlocal later
        later = 2

    return f, _ones, change


def global_that_is_set_later() -> Any:
    def f(x: Any) -> Any:
        try:
            return x * _set_later  # type: ignore[name-defined]
        except NameError:
            return x * 3

    own = globals()
    return f, _ones, lambda: own.update(_set_later=2), _ones, lambda: own.pop("_set_later")


def copies_of_a_member() -> Any:
    class Color(enum.Enum):
        RED = 2
        BLUE = 3

    change = lambda: setattr(Color, "__deepcopy__", lambda self, memo: Color.BLUE)
    return lambda x: x * copy.deepcopy(Color.RED).value, _ones, change


def value_in_a_token() -> Any:
    variable: contextvars.ContextVar[float] = contextvars.ContextVar("variable")
    variable.set(2.0)

    def f(x: Any) -> Any:
        token = variable.set(5.0)
        before = token.old_value
        variable.reset(token)
        return x * before

    return f, _ones, lambda: variable.set(3.0)


OF_OBJECTS = [value for name, value in list(globals().items()) if type(value) is types.FunctionType and not name.startswith("_")]
