"""What generated code uses: objects of programs' classes, methods by name, checks of types, futures.

Stands on ir; used by generate.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, ClassVar

from flambeau.base.naming import PACKAGE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema_types import (
    DictType,
    FutureType,
    ListType,
    OptionalType,
    Refused,
    StringType,
    TensorType,
    TupleType,
    Type,
)
from flambeau.futures import Future
from flambeau.jit.awaitables import Await
from flambeau.jit.ir.types import BOOL, COMPLEX, FLOAT, INT, NONE, NUMBER, ClassType, EnumType, InterfaceType, NamedTupleType

__all__ = ["ScriptObject", "awaitable", "fork", "instance_test", "leave", "named_tuple", "place_of", "returning", "unpack"]


class ScriptObject:
    """An object of a program's class: its type, and its attributes by name. Methods are called as Python's are."""

    __module__ = PACKAGE
    invoke: ClassVar[Callable[..., Any]]  # how a function is called from Python; `calls` sets it

    def __init__(self, script_type: ClassType) -> None:
        self.script_type = script_type
        self.values: dict[str, Any] = {}

    def _type(self) -> ClassType:
        return self.script_type

    def __setstate__(self, state: Any) -> None:
        """Take over a copy's attributes, or become the packed weight of a file: its state and its class's name."""
        if isinstance(state, dict):
            self.__dict__.update(state)
            return
        from flambeau.quantized_ops.states import packed_of

        made = packed_of(*state)
        object.__setattr__(self, "__class__", type(made))
        self.__dict__.update(vars(made))

    def __getattr__(self, name: str) -> Any:
        kind, values = self.__dict__.get("script_type"), self.__dict__.get("values", {})
        if name in values:
            return values[name]
        if kind is not None and name in kind.methods:
            function = kind.methods[name]
            return lambda *args, **kwargs: ScriptObject.invoke(function, args, kwargs, self)
        if kind is not None and name in kind.properties:
            return ScriptObject.invoke(kind.properties[name][0], (), {}, self)
        raise AttributeError(f"'{kind.name() if kind is not None else 'RecursiveScriptClass'}' object has no attribute '{name}'")


def place_of(kind: Type, name: str) -> str:
    """The dictionary of an object that an attribute lies in."""
    if not isinstance(kind, ClassType) or not kind.is_module:
        return "values"
    attribute = kind.attributes[name]
    if attribute.is_parameter:
        return "_parameters"
    if attribute.is_buffer:
        return "_buffers"
    if isinstance(attribute.type, (ClassType, InterfaceType)) and attribute.type.is_module:
        return "_modules"
    return "script_attributes"


def leave(entered: list[tuple[Any, Callable[..., Any]]]) -> None:
    """Call the __exit__ of what has been entered, innermost first."""
    while entered:
        obj, run = entered.pop()
        run(obj, None, None, None)


def unpack(values: list[Any], count: int) -> list[Any]:
    """The list, if it has so many items. RuntimeError else."""
    if len(values) != count:
        raise RuntimeError(f"Expected {count} elements in a list but found {len(values)}")
    return values


_named: dict[tuple[str, tuple[str, ...]], Any] = {}


def named_tuple(kind: NamedTupleType) -> Any:
    """The Python class of a named tuple's type."""
    if kind.python_class is not None:
        return kind.python_class
    key = kind.qualified_name, tuple(kind.names)
    if key not in _named:
        _named[key] = collections.namedtuple(kind.qualified_name.rpartition(".")[2], kind.names, rename=True)
    return _named[key]


def fork(run: Callable[..., Any], *inputs: Any) -> Future:
    """A Future of what a function gives; it has run when the Future is there."""
    future: Future[Any] = Future()
    future.set_result(run(*inputs))
    return future


def returning(function: Callable[..., Any], kind: Type) -> Callable[..., Any]:
    """A function of Python's whose result is converted to a type: RuntimeError for what doesn't fit."""

    def call(*args: Any) -> Any:
        made = function(*args)
        try:
            return kind.take(made)
        except Refused as reason:
            raise RuntimeError(
                f" expected value of type {kind} for return value but instead got value of type {type(made).__name__}.\n"
                f"Value: {made!r}\n{reason}"
            ) from None

    return call


def awaitable(run: Callable[..., Any], *inputs: Any) -> Await[Any]:
    """A call that is made when its result is asked for."""
    return Await(run, inputs, {})


# ---------------------------------------------------------------- types


def instance_test(kinds: list[Type]) -> Callable[[Any], bool]:
    """Whether a value is of one of these types."""
    tests = [_test(kind) for kind in kinds]
    return tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)


_EXACT = {INT: int, FLOAT: float, BOOL: bool, COMPLEX: complex}


def _test(kind: Type) -> Callable[[Any], bool]:
    if kind in _EXACT:
        exact = _EXACT[kind]
        return lambda value: type(value) is exact
    if isinstance(kind, StringType):
        return lambda value: isinstance(value, str)
    if isinstance(kind, TensorType):
        return lambda value: isinstance(value, Tensor)
    if kind == NONE:
        return lambda value: value is None
    if kind == NUMBER:
        return lambda value: type(value) in (int, float, complex)
    if isinstance(kind, OptionalType):
        inner = _test(kind.element)
        return lambda value: value is None or inner(value)
    if isinstance(kind, ListType) or kind.written == "AnyListType":
        item = _test(kind.element) if isinstance(kind, ListType) else _anything
        return lambda value: isinstance(value, list) and all(map(item, value))
    if isinstance(kind, NamedTupleType):
        return lambda value: isinstance(value, named_tuple(kind))
    if isinstance(kind, TupleType):
        items = [_test(each) for each in kind.elements()]
        return lambda value: isinstance(value, tuple) and len(value) == len(items) and all(t(v) for t, v in zip(items, value))
    if kind.written == "AnyTupleType":
        return lambda value: isinstance(value, tuple)
    if isinstance(kind, DictType):
        key, item = _test(kind.key), _test(kind.value)
        return lambda value: isinstance(value, dict) and all(key(k) and item(v) for k, v in value.items())
    if isinstance(kind, EnumType):
        return lambda value: isinstance(value, kind.python_class)
    if isinstance(kind, FutureType):
        awaited: Any = Await if kind.name == "Await" else Future
        return lambda value: isinstance(value, awaited)
    if isinstance(kind, (ClassType, InterfaceType)):
        return lambda value: isinstance(getattr(value, "script_type", None), Type) and value.script_type.isSubtypeOf(kind)
    if kind.containedUnionTypes():
        return instance_test(kind.containedUnionTypes())
    return _anything


def _anything(value: Any) -> bool:
    return True
