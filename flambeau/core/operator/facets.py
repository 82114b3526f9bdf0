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
    overloaded: bool
    hidden: str
    factors: bool
    underneath: str
    asks: str
    written_in_python: bool


class OpDef:
    """The record of an operator: its name, and the facets that its declaration gives.

    autocast: the dtype in which autocast has it computed, by its arguments (core.modes.autocast); None: it is not concerned.

    For the words of errors. overloaded: whether refusals name no argument; None: as the forms of its schema have it, of which
    `hidden` (names of overloads) are none of Python's. factors: whether it has deprecated forms in which the numbers among its
    arguments stand before tensors. underneath: its name in messages, where that is another. written_in_python: whether Python
    itself refuses its calls; None: whether it is neither in the namespace nor a method. asks: the attribute that such a function
    asks its tensor for first.
    """

    name: str
    autocast: Autocast | None = None
    overloaded: bool | None = None
    hidden: str = ""
    factors: bool = False
    underneath: str | None = None
    asks: str | None = None
    written_in_python: bool | None = None

    def __init__(self, name: str, **facets: Unpack[Facets]):
        self.name = name
        if facets:
            self.__dict__.update(facets)
            RECORDS[name] = self


#: The records of public functions that say something of themselves, by name.
RECORDS: dict[str, OpDef] = {}
_SILENT = OpDef("")


def record_of(name: str) -> OpDef:
    """The record of the function with that name, or whose in-place form has it; one of defaults only if there is none."""
    return RECORDS.get(name) or RECORDS.get(name.removesuffix("_"), _SILENT)


def described(**facets: Unpack[Facets]) -> Callable[[Function], Function]:
    """Say of a plain function what declarations say of operators; it may hand on to an operator of its name, whose record it is
    then.
    """
    def describe(function: Function) -> Function:
        name = function.__name__
        if name in RECORDS:
            RECORDS[name].__dict__.update(facets)
        else:
            OpDef(name, **facets)
        return function
    return describe
