"""What a Python object means in a program: modules, operators, functions to be compiled, classes, constants, exceptions.

Stands on callables, classes and functions; used by python_resolver and modules.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from flambeau.base.device import device
from flambeau.base.dtype import dtype
from flambeau.base.layout import layout, memory_format
from flambeau.base.naming import PACKAGE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema_types import DictType, ListType, OptionalType, Refused, TupleType, Type
from flambeau.jit.frontend import library
from flambeau.jit.frontend.builtins import operator_of
from flambeau.jit.frontend.callables import (
    BuiltinFunction,
    CastValue,
    ExceptionValue,
    FunctionValue,
    IgnoredFunction,
    MagicMethod,
    OverloadedFunction,
    SpecialForm,
)
from flambeau.jit.frontend.matching import Kwargs
from flambeau.jit.frontend.values import ConstantTuple, SimpleValue, SugaredValue
from flambeau.jit.ir.constants import type_of_value
from flambeau.jit.ir.names import qualified_name_of
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import DEVICE, EnumType, NamedTupleType, is_none
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["PythonModule", "PythonValue", "sugared", "taken", "type_of_python_value"]


class PythonModule(SugaredValue):
    """A module of Python's; what is plain in it is taken for a constant."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def kind(self) -> str:
        return "python module" if isinstance(self.module, ModuleType) else f"python value of type '{type(self.module).__name__}'"

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        try:
            found = getattr(self.module, name)
        except (AttributeError, NotImplementedError):
            raise ErrorReport(where, f"object has no attribute {name}") from None
        return sugared(found, e, where, constant=True)


class PythonValue(SugaredValue):
    """A Python object that programs can do nothing with but call it, if it is a function that stays Python."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def kind(self) -> str:
        return f"python value of type '{type(self.value).__name__}'"

    def as_value(self, where: SourceRange, e: Emitter) -> Value:
        raise ErrorReport(
            where,
            f"{self.kind()} cannot be used as a value. Perhaps it is a closed over global variable? If so, please consider "
            "passing it in as an argument or use a local varible instead.",
        )

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        raise ErrorReport(where, f"attribute lookup is not defined on {self.kind()}")

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        if not callable(self.value):
            return super().call(where, e, args, kwargs, binders)
        from flambeau.jit.frontend.functions import ignored

        return IgnoredFunction(ignored(self.value)).call(where, e, args, kwargs, binders)


def sugared(obj: Any, e: Emitter, where: SourceRange, constant: bool = False) -> SugaredValue:
    """What a Python object means. `constant`: a plain value may stand in the graph."""
    if constant:
        made = _constant(obj, e, where)
        if made is not None:
            return made
    if isinstance(obj, ModuleType):
        return PythonModule(obj)
    word = library.words().get(id(obj))
    if word is not None:
        return _word(word)
    if isinstance(obj, enum.Enum):
        from flambeau.jit.frontend.annotations import enum_type

        kind = enum_type(type(obj), where)
        return SimpleValue(e.graph.insertConstant(obj, where, kind))
    function = getattr(obj, "_script_function", None)
    if function is not None:
        return FunctionValue(function)
    symbol = operator_of(obj)
    if symbol is not None:
        return BuiltinFunction(symbol)
    if type(obj).__name__ in ("OpOverloadPacket", "_OpNamespace", "_Ops") and hasattr(obj, "__module__"):
        return _of_ops(obj)
    if isinstance(obj, type):
        return _of_class(obj, e, where)
    if isinstance(obj, FunctionType):
        return _of_function(obj, where)
    return PythonValue(obj)


def _word(word: str) -> SugaredValue:
    return (
        MagicMethod("__len__", BuiltinFunction("aten::len"))
        if word == "len"
        else (
            CastValue(DEVICE, "aten::device")
            if word == "device"
            else ExceptionValue("AssertionError")
            if word == "AssertionError"
            else BuiltinFunction(word)
            if "::" in word
            else SpecialForm(word)
        )
    )


def _of_ops(obj: Any) -> SugaredValue:
    name = getattr(obj, "_qualified_op_name", None)
    return PythonModule(obj) if name is None else BuiltinFunction(name)


def _of_function(obj: Any, where: SourceRange) -> SugaredValue:
    from flambeau.jit.frontend import functions

    if f"{obj.__module__}.".startswith(f"{PACKAGE}._C."):  # compiled code in PyTorch, which no program can read
        raise ErrorReport(where, f"Python builtin {obj} is currently not supported in Torchscript")
    overloads = functions.overloads_of(obj, where)
    if overloads:
        return OverloadedFunction(overloads)
    made = functions.compiled(obj, where)
    return PythonValue(obj) if made is None else FunctionValue(made)


def _of_class(cls: Any, e: Emitter, where: SourceRange) -> SugaredValue:
    from flambeau.jit.frontend import annotations, classes
    from flambeau.jit.frontend.python_classes import class_type

    if issubclass(cls, BaseException):
        return ExceptionValue(cls.__name__, qualified_name_of(cls).removeprefix("__torch__."))
    if issubclass(cls, enum.Enum):
        return classes.EnumClassValue(annotations.enum_type(cls, where))
    if annotations.is_namedtuple(cls):
        return classes.NamedTupleConstructor(annotations.named_tuple_type(cls, where))
    if cls in (OrderedDict,):
        return SpecialForm("dict")
    if cls is device:
        return CastValue(DEVICE, "aten::device")
    if issubclass(cls, Tensor):
        return PythonValue(cls)
    kind = class_type(cls, where)
    return PythonValue(cls) if kind is None else classes.ClassValue(kind)


# ---------------------------------------------------------------- constants


def _constant(obj: Any, e: Emitter, where: SourceRange) -> SugaredValue | None:
    if obj is None or (
        isinstance(obj, (bool, int, float, complex, str, device, dtype, layout, memory_format)) and not isinstance(obj, enum.Enum)
    ):
        return SimpleValue(e.graph.insertConstant(obj, where))
    if isinstance(obj, tuple):
        parts = [sugared(each, e, where, constant=True) for each in obj]
        return ConstantTuple(parts)
    return None


def type_of_python_value(value: Any) -> Type | None:
    """The type of a Python value that an attribute has: plain values, lists, tuples, dicts, enumerations, objects of classes."""
    from flambeau.jit.frontend.annotations import enum_type, is_namedtuple, named_tuple_type
    from flambeau.jit.frontend.python_classes import class_of_object

    if isinstance(value, enum.Enum):
        return enum_type(type(value))
    if isinstance(value, tuple):
        if is_namedtuple(type(value)):
            return named_tuple_type(type(value))
        parts = [type_of_python_value(each) for each in value]
        return None if None in parts else TupleType([part for part in parts if part is not None])
    if isinstance(value, list):
        return _of_items(value, lambda kinds: ListType(kinds), type_of_value(value))
    if isinstance(value, dict):
        if not value:
            return None
        keys, items = (
            _common([type_of_python_value(k) for k in value]),
            _common([type_of_python_value(v) for v in value.values()]),
        )
        return None if keys is None or items is None else DictType(keys, items)
    kind = getattr(value, "script_type", None)
    if isinstance(kind, Type):
        return kind
    found = type_of_value(value)
    return class_of_object(value) if found is None else found


def _common(kinds: list[Type | None]) -> Type | None:
    from flambeau.jit.ir.types import unify

    found = kinds[0]
    for kind in kinds[1:]:
        if found is None or kind is None:
            return None
        found = unify(found, kind)
    return found


def _of_items(values: list[Any], make: Any, empty: Type | None) -> Type | None:
    if not values:
        return None
    common = _common([type_of_python_value(value) for value in values])
    return None if common is None else make(common)


def taken(value: Any, kind: Type) -> Any:
    """A Python value as one of a type. Refused if it isn't one."""
    if isinstance(kind, OptionalType):
        return None if value is None else taken(value, kind.element)
    if is_none(kind):
        if value is not None:
            raise Refused("not None")
        return None
    if isinstance(kind, (EnumType, NamedTupleType)):
        if kind.python_class is not None and not isinstance(value, kind.python_class):
            raise Refused(f"not a {kind}")
        return value
    if isinstance(value, (dtype, layout, memory_format)):
        from flambeau.jit.ir.codes import code_of

        return code_of(value)
    members = kind.containedUnionTypes()
    if members:
        found = type_of_python_value(value)
        if found is None or not any(found.isSubtypeOf(member) for member in members):
            raise Refused(f"not a {kind}")
        return value
    if value is None:
        raise Refused("None")
    if kind.written == "bool" and not isinstance(value, bool):
        raise Refused("not a bool")
    return kind.take(value)
