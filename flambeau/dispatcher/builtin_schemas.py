"""The schemas of PyTorch's own operators, with their tags, as `base.aten_schemas` lists them.

A schema is parsed when an operator is first asked for. Stands on schema and tags; used by builtin and by what tells names of
the dispatcher apart.
"""

from __future__ import annotations

import functools

from flambeau.base.aten_schemas import table
from flambeau.dispatcher.schema import FunctionSchema, parse_schema
from flambeau.dispatcher.tags import Tag

__all__ = ["is_composite", "is_script", "names", "overloads_of", "schema_of", "tags_of"]


def names(namespace: str) -> list[str]:
    """The names of the operators of a namespace, without it."""
    prefix = namespace + "::"
    return [name.removeprefix(prefix) for name in table() if name.startswith(prefix)]


def overloads_of(name: str) -> tuple[str, ...]:
    """The overloads of the operator "ns::name"; none if PyTorch has no such operator."""
    return tuple(table().get(name, ()))


@functools.cache
def schema_of(name: str, overload: str) -> FunctionSchema:
    """The schema of an overload of "ns::name". KeyError if there is none."""
    return parse_schema(table()[name][overload].partition(" | ")[0])


def _words(name: str, overload: str) -> list[str]:
    return table()[name][overload].partition(" | ")[2].split()


def is_composite(name: str, overload: str) -> bool:
    """Whether PyTorch computes it by other operators, whose gradients are then its own."""
    return "composite" in _words(name, overload)


def is_script(name: str, overload: str) -> bool:
    """Whether it is an operator of TorchScript alone, on Python's own values."""
    return "script" in _words(name, overload)


@functools.cache
def tags_of(name: str, overload: str) -> tuple[Tag, ...]:
    """The tags of an overload of "ns::name"."""
    return (*(Tag[word] for word in _words(name, overload) if word in Tag.__members__), Tag["pt2_compliant_tag"])
