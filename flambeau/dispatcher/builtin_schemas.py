"""The schemas of the operators that are no program's: of PyTorch's own with their tags, as `base.aten_schemas` lists them, and of
those that only declarations have, as `core.operator.schemas` works them out.

A schema is parsed when an operator is first asked for. Stands on schema and tags; used by builtin and by what tells names of
the dispatcher apart.
"""

from __future__ import annotations

import functools

from flambeau.base.aten_schemas import table
from flambeau.core.operator.schema_index import declared_schemas, unlisted_packets
from flambeau.dispatcher.schema import FunctionSchema, parse_schema
from flambeau.dispatcher.tags import Tag

__all__ = ["is_composite", "is_script", "names", "overloads_of", "qualified", "schema_of", "tags_of"]


_PYTORCHS = ("aten", "prim", "prims")


def qualified(name: str) -> str:
    """The full name of an operator; one without a namespace is aten's."""
    return name if "::" in name else f"aten::{name}"


def names(namespace: str) -> list[str]:
    """The names of the operators of a namespace, without it."""
    prefix = namespace + "::"
    every = table() if namespace in _PYTORCHS else unlisted_packets()
    return [name.removeprefix(prefix) for name in every if name.startswith(prefix)]


def _lines(name: str) -> dict[str, str]:
    return table().get(name) or declared_schemas(name)


def overloads_of(name: str) -> tuple[str, ...]:
    """The overloads of the operator "ns::name"; none if there is no such operator."""
    return tuple(_lines(name))


def schema_of(name: str, overload: str) -> FunctionSchema:
    """The schema of an overload of "ns::name". KeyError if there is none."""
    return _parsed(_lines(name)[overload].partition(" | ")[0])


_parsed = functools.cache(parse_schema)


def _words(name: str, overload: str) -> list[str]:
    return _lines(name)[overload].partition(" | ")[2].split()


def is_composite(name: str, overload: str) -> bool:
    """Whether it is computed by other operators, whose gradients are then its own."""
    return "composite" in _words(name, overload)


def is_script(name: str, overload: str) -> bool:
    """Whether it is an operator of TorchScript alone, on Python's own values."""
    return "script" in _words(name, overload)


def tags_of(name: str, overload: str) -> tuple[Tag, ...]:
    """The tags of an overload of "ns::name"."""
    return _tags(_lines(name)[overload].partition(" | ")[2])


@functools.cache
def _tags(words: str) -> tuple[Tag, ...]:
    return (*(Tag[word] for word in words.split() if word in Tag.__members__), Tag["pt2_compliant_tag"])
