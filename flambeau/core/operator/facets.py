"""What an operator's declaration says of it beside its implementation, and the record that holds it.

`OpDef` is that record: `Pointwise` (core.operator.pointwise) and `Operator` (core.operator.opdef) are kinds of it, and a
plain function of the public API has a bare one where it says something (`@described`). A facet is a keyword of the
declaration and an attribute of the record, whose default is what holds for most operators. Stands on base; used by all of
core and by transform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

Autocast = Callable[[Sequence[Any], dict[str, Any]], Any]
Function = TypeVar("Function", bound=Callable[..., Any])


class Facets(TypedDict, total=False):
    """The keywords that every declaration takes; each is an attribute of OpDef, which says what it means."""

    autocast: Autocast | None


class OpDef:
    """The record of an operator: its name, and the facets that its declaration gives.

    autocast: the dtype in which autocast has it computed, by its arguments (core.modes.autocast); None: it is not concerned.
    """

    name: str
    autocast: Autocast | None = None

    def __init__(self, name: str, **facets: Unpack[Facets]):
        self.name = name
        if facets:
            self.__dict__.update(facets)
            RECORDS[name] = self


#: The records of public functions that say something of themselves, by name.
RECORDS: dict[str, OpDef] = {}
_SILENT = OpDef("")


def record_of(name: str) -> OpDef:
    """The record of the public function with that name; one of defaults only where it says nothing of itself."""
    return RECORDS.get(name, _SILENT)


def described(**facets: Unpack[Facets]) -> Callable[[Function], Function]:
    """Say of a plain function what declarations say of operators."""
    def describe(function: Function) -> Function:
        OpDef(function.__name__, **facets)
        return function
    return describe
