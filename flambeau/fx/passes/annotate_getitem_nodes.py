"""Types of the nodes that take items out of typed containers. Stands on fx.graph; used by programs."""

from __future__ import annotations

import operator
import types
import typing

from flambeau.fx.graph import Graph

__all__ = ["annotate_getitem_nodes"]


def annotate_getitem_nodes(graph: Graph) -> None:
    """Give `x[i]` its type where x is annotated as a list, a tuple, a dict or a named tuple."""
    for node in graph.find_nodes(op="call_function", target=operator.getitem):
        held, key = node.args[0], node.args[1]
        annotation = getattr(held, "type", None)
        if annotation is None:
            continue
        fields = getattr(annotation, "__annotations__", None)
        if isinstance(annotation, type) and issubclass(annotation, tuple) and fields:
            names = list(annotation._fields)  # type: ignore[attr-defined]
            if isinstance(key, int) and -len(names) <= key < len(names):
                node.type = fields[names[key]]
            continue
        parts, origin = typing.get_args(annotation), typing.get_origin(annotation)
        if isinstance(annotation, types.UnionType) or not parts:
            continue
        if origin is list:
            node.type = parts[0]
        elif origin is dict:
            node.type = parts[1]
        elif origin is tuple and parts[-1] is ...:
            node.type = parts[0]
        elif origin is tuple and isinstance(key, int) and -len(parts) <= key < len(parts):
            node.type = parts[key]
