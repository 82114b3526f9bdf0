"""What tests declare, taken back: `with declarations_taken_back():` leaves no operator behind that wasn't there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import flambeau as torch
from flambeau.core.operator import schema_index, view
from flambeau.core.operator.facets import NAMED, RECORDS, OpDef
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS


def _of_a_test(declared: OpDef) -> bool:
    """Whether it isn't a declaration of the package, which may be loaded meanwhile."""
    return not declared.said().names["__name__"].startswith("flambeau.")


@contextlib.contextmanager
def declarations_taken_back() -> Iterator[None]:
    """Context: operators declared inside are gone behind it, from the tables, the namespace, Tensor and torch.ops."""
    operators, named, records = dict(OPERATORS), dict(NAMED), dict(RECORDS)
    try:
        yield
    finally:
        gone = [x for x in {*OPERATORS.values(), *NAMED.values()} - {*operators.values(), *named.values()} if _of_a_test(x)]
        for table, before in ((OPERATORS, operators), (NAMED, named), (RECORDS, records)):
            for name in [name for name, declared in table.items() if declared in gone]:
                del table[name]
                if name in before:
                    table[name] = before[name]
        view.DECLARED[:] = [function for function in view.DECLARED if function.declared not in gone]  # type: ignore[attr-defined]
        for declared in gone:
            for name in (declared.name, declared.name + "_"):
                NAMESPACE.pop(name, None)
                vars(torch).pop(name, None)
                if name in vars(torch.Tensor):
                    delattr(torch.Tensor, name)
            for packet in declared.own_schemas:
                namespace, _, name = packet.partition("::")
                vars(getattr(torch.ops, namespace)).pop(name, None)
        schema_index.unlisted_packets.cache_clear()
        schema_index.graph_composites.cache_clear()
