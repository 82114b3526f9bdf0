"""Python's annotations as types of programs: int, list[int], Optional[Tensor], classes, enumerations, named tuples.

Stands on ir.types and classes; used by python_resolver and by whatever has a Python type in its hands.
"""

from __future__ import annotations

import ast
import enum
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from flambeau.base.device import device
from flambeau.base.dtype import dtype
from flambeau.base.layout import layout, memory_format
from flambeau.base.rng import Generator
from flambeau.base.warn import warn
from flambeau.core.tensor.legacy_types import tensortype
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema_types import DictType, FutureType, ListType, NamedType, OptionalType, TupleType, Type
from flambeau.futures import Future
from flambeau.jit.awaitables import Await
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.parsing import Parser
from flambeau.jit.ir.names import qualified_name_of
from flambeau.jit.ir.source import Source, SourceRange
from flambeau.jit.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    EnumType,
    NamedTupleType,
    make_union,
)

__all__ = ["Evaluate", "enum_type", "is_namedtuple", "named_tuple_type", "parsed_annotation", "type_of_annotation"]

_PLAIN: dict[Any, Type] = {
    Tensor: TENSOR,
    int: INT,
    float: FLOAT,
    bool: BOOL,
    complex: COMPLEX,
    str: STRING,
    None: NONE,
    type(None): NONE,
    device: DEVICE,
    dtype: INT,
    layout: INT,
    memory_format: INT,
    Generator: GENERATOR,
    typing.Any: ANY,
    list: NamedType("AnyListType"),
    tuple: NamedType("AnyTupleType"),
}
_PLAIN[typing.List], _PLAIN[typing.Tuple] = _PLAIN[list], _PLAIN[tuple]  # noqa: UP006 - as programs write them
Evaluate = Callable[[str], Any]
_enums: dict[type, EnumType] = {}
_named_tuples: dict[type, NamedTupleType] = {}


def _no_names(name: str) -> Any:
    return None


def type_of_annotation(annotation: Any, where: SourceRange | None = None, evaluate: Evaluate = _no_names) -> Type | None:
    """The type of a Python annotation; None for one that no program can have. Texts are looked up by `evaluate`."""

    def part(each: Any) -> Type | None:
        return type_of_annotation(each, where, evaluate)

    if isinstance(annotation, Type):
        return annotation
    if isinstance(annotation, (str, typing.ForwardRef)):
        return _of_text(annotation if isinstance(annotation, str) else annotation.__forward_arg__, where, evaluate)
    try:
        if annotation in _PLAIN:
            return _PLAIN[annotation]
    except TypeError:
        return None
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is not None:
        return _generic(annotation, origin, parts, part)
    if isinstance(annotation, type):
        return _of_class(annotation, where, evaluate)
    return None


def _generic(annotation: Any, origin: Any, parts: tuple[Any, ...], part: Callable[[Any], Type | None]) -> Type | None:
    if origin in (typing.Union, types.UnionType):
        kinds = [part(each) for each in parts]
        if None in kinds:
            return None
        if len(kinds) == 2 and NONE in kinds:
            inner = next(kind for kind in kinds if kind != NONE)
            return inner if isinstance(inner, OptionalType) else OptionalType(inner) if inner is not None else None
        made = make_union([kind for kind in kinds if kind is not None])
        return NUMBER if made == NUMBER else made
    if origin is tuple and (not parts or parts == ((),)):
        return TupleType([])
    if origin is typing.Final or str(origin) == "Final":
        return part(parts[0])
    kinds = [part(each) for each in parts]
    if None in kinds:
        return None
    known = [kind for kind in kinds if kind is not None]
    if origin is list:
        return ListType(known[0])
    if origin is tuple:
        return TupleType(known)
    if isinstance(origin, type) and issubclass(origin, dict):
        return DictType(*known)
    if isinstance(origin, type) and issubclass(origin, Future):
        return FutureType(known[0])
    if isinstance(origin, type) and issubclass(origin, Await):
        return FutureType(known[0], "Await")
    return None


def parsed_annotation(text: str) -> tree.Expr:
    """The tree of an annotation that is a text."""
    return Parser(Source(text), archive=True).expr(ast.parse(text, mode="eval").body)


def _of_text(text: str, where: SourceRange | None, evaluate: Evaluate) -> Type | None:
    from flambeau.jit.frontend.python_resolver import AnnotationResolver

    return AnnotationResolver(evaluate).type_of(parsed_annotation(text))


def _of_class(cls: type, where: SourceRange | None, evaluate: Evaluate) -> Type | None:
    from flambeau.jit.frontend.python_classes import class_type

    if issubclass(cls, Tensor):
        return TENSOR
    if isinstance(cls, tensortype):
        warn(
            "TorchScript will treat type annotations of Tensor dtype-specific subtypes as if they are normal Tensors. dtype "
            "constraints are not enforced in compilation either."
        )
        return TENSOR
    interface = getattr(cls, "__torch_script_interface__", None)
    if interface is not None:
        found: Type = interface
        return found
    if issubclass(cls, enum.Enum):
        return enum_type(cls, where)
    if is_namedtuple(cls):
        return named_tuple_type(cls, where, evaluate)
    if issubclass(cls, (Future, Await)):
        return FutureType(ANY, "Await") if issubclass(cls, Await) else None
    return class_type(cls, where)


def enum_type(cls: type, where: SourceRange | None = None) -> EnumType:
    """The type of an enumeration. RuntimeError where its members' values are of several types."""
    from flambeau.jit.frontend.python_values import type_of_python_value

    found = _enums.get(cls)
    if found is None:
        members = [(each.name, each.value) for each in cls]  # type: ignore[attr-defined]
        kinds = [type_of_python_value(value) for _, value in members]
        if not kinds:
            raise RuntimeError(f"No enum values defined for: '{cls}'")
        if any(kind != kinds[0] for kind in kinds) or kinds[0] is None:
            raise RuntimeError("Expected all values of an Enum to be of the same type")
        found = _enums[cls] = EnumType(qualified_name_of(cls), kinds[0], members, cls)
    return found


def is_namedtuple(cls: Any) -> bool:
    """Whether a class is a named tuple."""
    return inspect.isclass(cls) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def named_tuple_type(cls: Any, where: SourceRange | None = None, evaluate: Evaluate = _no_names) -> NamedTupleType:
    """The type of a named tuple: what isn't annotated is a tensor."""
    found = _named_tuples.get(cls)
    if found is None:
        annotations = inspect.get_annotations(cls)
        module = inspect.getmodule(cls)
        table = vars(module) if module is not None else {}
        kinds = []
        for name in cls._fields:
            kind = (
                type_of_annotation(annotations[name], where, lambda n: evaluate(n) or table.get(n))
                if name in annotations
                else TENSOR
            )
            if kind is None:
                raise RuntimeError(f"Unknown type annotation: '{annotations[name]}' in NamedTuple {cls.__name__}")
            kinds.append(kind)
        defaults = [cls._field_defaults[name] for name in cls._fields if name in cls._field_defaults]
        found = _named_tuples[cls] = NamedTupleType(qualified_name_of(cls), list(cls._fields), kinds, defaults, cls)
    return found
