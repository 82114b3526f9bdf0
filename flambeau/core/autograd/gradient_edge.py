"""GradientEdge: a place in the graph that can stand for a tensor in `autograd.grad` and `backward`.

Stands on node; used by the engine and by the room autograd, which shows it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.base.naming import public_module
from flambeau.core.autograd.node import Node


class GradientEdge(NamedTuple):
    """A place in the graph that can stand for a tensor in `autograd.grad` and `backward`."""

    node: Node
    output_nr: int
    ownership_token: Any = None

    @property
    def layout(self) -> Any:
        """The Layout of the tensor that the edge was made from; None for one that was made by hand."""
        return None


GradientEdge.__module__ = public_module("autograd.graph")


class _TensorsEdge(GradientEdge):
    """A GradientEdge that knows its tensor's shape, dtype and device."""

    layout: Any = None

    def __repr__(self) -> str:
        return "GradientEdge" + super().__repr__().removeprefix(type(self).__name__)


def edge_of(tensor: Any) -> GradientEdge:
    """The edge at which the gradient of a tensor in the graph arrives."""
    edge = _TensorsEdge(tensor._node, tensor._index)
    edge.layout = tensor._layout
    return edge
