"""What tests declare, taken back: `with declarations_taken_back():` leaves no operator behind that wasn't there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import flambeau as torch
from flambeau.core.operator import schema_index, view
from flambeau.core.operator.facets import NAMED, RECORDS
from flambeau.core.operator.variants import NAMESPACE, OPERATORS


@contextlib.contextmanager
def declarations_taken_back() -> Iterator[None]:
    """Context: operators declared inside are gone behind it, from the tables, the namespace, Tensor and torch.ops."""
    tables = OPERATORS, NAMESPACE, NAMED, RECORDS
    before, views, methods = [dict(table) for table in tables], list(view.DECLARED), set(vars(torch.Tensor))
    try:
        yield
    finally:
        packets = set(schema_index.unlisted_packets())
        for table, was in zip(tables, before):
            table.clear()
            table.update(was)
        view.DECLARED[:] = views
        for name in set(vars(torch.Tensor)) - methods:
            delattr(torch.Tensor, name)
        for name in set(vars(torch)) & ({packet.partition("::")[2] for packet in packets} - NAMESPACE.keys()):
            delattr(torch, name)
        schema_index.unlisted_packets.cache_clear()
        for packet in packets - set(schema_index.unlisted_packets()):
            namespace, _, name = packet.partition("::")
            vars(getattr(torch.ops, namespace)).pop(name, None)
