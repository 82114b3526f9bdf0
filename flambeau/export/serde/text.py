"""The classes of the format as JSON, and back: nothing of a text is believed before its type is what the class says.

Fields that a class doesn't have are passed over, as files of later versions may have them. Stands on schema; used by reading,
writing and export.pt2_archive.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from flambeau.base.naming import public_module
from flambeau.export.serde import schema
from flambeau.export.serde.union import _Union

__all__ = ["SerializeError", "dumps", "from_data", "loads", "parsed", "to_data"]

T = TypeVar("T")
_LARGEST = 1 << 64
_NAMED_FLOATS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
_CALLED = {math.inf: "Infinity", -math.inf: "-Infinity"}


class SerializeError(RuntimeError):
    """A program that can't be written, or a text that is no program."""

    __module__ = public_module("_export.serde.serialize")


# ---------------------------------------------------------------- reading


def loads(cls: type[T], content: bytes) -> T:
    """The object of a class of the format that a JSON text is. SerializeError for a text that is none."""
    data = parsed(content, cls.__name__)
    try:
        return from_data(cls, data)
    except RecursionError:
        raise SerializeError(f"{cls.__name__}: graphs and arguments are nested too deeply") from None


def parsed(content: bytes | str, what: str) -> Any:
    """The data of a JSON text. SerializeError if it isn't one; `what` it should be."""
    try:
        return json.loads(content)
    except RecursionError:
        raise SerializeError(f"{what}: its JSON is nested too deeply") from None
    except ValueError as error:  # also what is no UTF-8, and numbers of thousands of digits
        raise SerializeError(f"{what}: this is no JSON: {error}") from None


def from_data(cls: type[T], data: Any) -> T:
    """The object of a class of the format that such data is. SerializeError if it is none."""
    return _reader(cls)(data, cls.__name__)


Reader = Callable[[Any, str], Any]


@functools.cache
def _reader(hint: Any) -> Reader:
    """The function (data, where it stands) that reads what an annotation of a field says."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = _reader(parts[0])
        return lambda data, where: None if data is None else inner(data, where)
    if origin is list:
        return _list_reader(_reader(parts[0]))
    if origin is dict:
        return _dict_reader(parts[1])
    if issubclass(hint, _Union):
        return functools.partial(_union, hint)
    if dataclasses.is_dataclass(hint):
        return functools.partial(_object, hint)
    if issubclass(hint, Enum):
        return functools.partial(_number_of, hint)
    return {int: _integer, float: _float}.get(hint) or functools.partial(_plain, hint)


def _refuse(where: str, wanted: str, data: Any) -> SerializeError:
    shown = repr(data) if isinstance(data, (int, float, bool, type(None))) else type(data).__name__
    return SerializeError(f"{where}: expected {wanted}, got {shown[:80]}")


def _plain(cls: type, data: Any, where: str) -> Any:
    if type(data) is not cls:
        raise _refuse(where, cls.__name__, data)
    return data


def _integer(data: Any, where: str) -> int:
    if type(data) is not int or not -_LARGEST < data < _LARGEST:
        raise _refuse(where, "an integer of 64 bits", data)
    return data


def _float(data: Any, where: str) -> float:
    if type(data) is str and data in _NAMED_FLOATS:
        return _NAMED_FLOATS[data]
    if type(data) is int and abs(data) < _LARGEST:
        return float(data)
    return _plain(float, data, where)


def _number_of(cls: Any, data: Any, where: str) -> Any:
    if type(data) is not int or data not in cls._value2member_map_:
        raise _refuse(where, f"the number of a {cls.__name__}", data)
    return cls(data)


def _list_reader(item: Reader) -> Reader:
    def read(data: Any, where: str) -> list[Any]:
        if type(data) is not list:
            raise _refuse(where, "a list", data)
        return [item(x, where) for x in data]

    return read


def _dict_reader(hint: Any) -> Reader:
    def read(data: Any, where: str) -> dict[str, Any]:
        if type(data) is not dict:
            raise _refuse(where, "an object", data)
        item = _reader(hint)  # here, as arguments hold arguments
        return {name: item(x, where) for name, x in data.items()}

    return read


@functools.cache
def _fields(cls: Any) -> dict[str, tuple[Reader, bool, str]]:
    """By field: its reader, whether it must be there, and how it is called in errors."""
    hints = typing.get_type_hints(cls, vars(schema))
    return {
        f.name: (
            _reader(hints[f.name]),
            f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
            f"{cls.__name__}.{f.name}",
        )
        for f in dataclasses.fields(cls)
    }


def _object(cls: Any, data: Any, where: str) -> Any:
    if type(data) is not dict:
        raise _refuse(where, f"an object ({cls.__name__})", data)
    given = {}
    for name, (read, needed, place) in _fields(cls).items():
        if name in data:
            given[name] = read(data[name], place)
        elif needed:
            raise SerializeError(f"{where}: a {cls.__name__} needs {name!r}")
    return cls(**given)


def _union(cls: Any, data: Any, where: str) -> Any:
    if type(data) is not dict or len(data) != 1:
        raise _refuse(where, f"an object of one field ({cls.__name__})", data)
    ((name, value),) = data.items()
    found = _fields(cls).get(name)
    if found is None:
        raise SerializeError(f"{where}: {name[:80]!r} is not a valid tag for {cls.__name__}; this file may be of a later version")
    return cls.create(**{name: found[0](value, found[2])})


# ---------------------------------------------------------------- writing


def to_data(thing: Any) -> Any:
    """An object of a class of the format as what JSON has."""
    if isinstance(thing, _Union):
        return {thing.type: to_data(thing.value)}
    if isinstance(thing, Enum):
        return thing.value
    if dataclasses.is_dataclass(thing):
        return {f.name: to_data(getattr(thing, f.name)) for f in dataclasses.fields(thing)}
    if isinstance(thing, (list, tuple)):
        return [to_data(x) for x in thing]
    if isinstance(thing, dict):
        return {name: to_data(x) for name, x in thing.items()}
    if isinstance(thing, float):
        return "NaN" if math.isnan(thing) else _CALLED.get(thing, thing)
    return thing


def dumps(thing: Any) -> bytes:
    """An object of a class of the format as JSON."""
    return json.dumps(to_data(thing), allow_nan=False).encode()
