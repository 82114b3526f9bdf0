"""From the name of an operator, or a function, to the declaration: `declaration_of("aten::add_")`, `packet_of(torch.add)`.

`OpDef.schemas` goes the other way. Stands on core.operator.schemas and the tables of declarations; used by dispatcher.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.core.operator.facets import NAMED, OpDef
from flambeau.core.operator.publishing import LATE, OPERATORS, REPLACED
from flambeau.core.operator.schemas import OWN, PREFIXES

__all__ = ["declaration_of", "declared_schemas", "graph_composites", "own_packet", "packet_of", "unlisted", "unlisted_packets"]


def declaration_of(packet: str) -> OpDef | None:
    """The declaration of the operator "ns::name", or of the one whose form in place it is; None if none is declared."""
    namespace, _, name = packet.partition("::")
    for own, key in ((packet, name), (packet.removesuffix("_"), name.removesuffix("_"))):
        keys = (key,) if namespace == OWN else _declared_as(key) if namespace == "aten" else ()
        for found in (NAMED.get(own), *map(OPERATORS.get, keys)):
            if found is not None and packet in (found.schemas if namespace == "aten" else found.own_schemas):
                return found
    return None


def _declared_as(name: str) -> Iterator[str]:
    """The names by which one of PyTorch's operators may be declared."""
    yield name
    yield from (name.removeprefix(prefix) for prefix in PREFIXES if prefix and name.startswith(prefix))


def unlisted(packet: str) -> OpDef | None:
    """The declaration of an operator "ns::name" that has no list but it."""
    return None if packet.startswith(("aten::", "prim::", "prims::")) else declaration_of(packet)


def declared_schemas(packet: str) -> dict[str, str]:
    """The lines of the operator "ns::name" by overload, as its declaration says them; none for PyTorch's namespaces."""
    found = unlisted(packet)
    return {} if found is None else found.own_schemas[packet]


@functools.cache
def unlisted_packets() -> list[str]:
    """The operators "ns::name" of all declarations that PyTorch doesn't list."""
    every = {id(declared): declared for declared in (*OPERATORS.values(), *NAMED.values())}
    return [packet for declared in every.values() for packet in declared.schemas if not packet.startswith("aten::")]


@functools.cache
def graph_composites() -> list[str]:
    """Of these the operators of graphs that are made of others."""
    found = [(packet, unlisted(packet)) for packet in unlisted_packets()]
    return [packet for packet, declared in found if getattr(declared, "composite", False) and declared.is_graph_operator]


def _forget(_: Any) -> None:
    unlisted_packets.cache_clear()
    graph_composites.cache_clear()


for _told in (LATE, REPLACED):
    _told.append(_forget)


def own_packet(function: Callable[..., Any]) -> str:
    """The operator "ns::name" that a function of a declaration is by its own arguments; "" for any other function."""
    name = function.__name__
    declared = getattr(function, "operator", None) or getattr(function, "declared", None)
    if declared is None:
        declared = OPERATORS.get(name.removesuffix("_"))
        if declared is None or (function is not declared.in_place and function is not declared.public):
            return ""
    writes = name.endswith("_") and not name.endswith("__")
    return next((packet for packet in declared.own_schemas if packet.endswith("_") == writes), "")


def packet_of(function: Callable[..., Any]) -> str:
    """The same of a declaration that PyTorch doesn't list; "" for any other function."""
    packet = own_packet(function)
    declared = unlisted(packet) if packet else None
    return packet if declared is not None and packet in declared.schemas else ""
