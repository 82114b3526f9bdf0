"""Steps of the graph that have no derivative in PyTorch: they are recorded, and say so when a gradient arrives.

Stands on node; used by core.operator.pointwise (operators without a derivative) and core.operator.out_argument (writes to `out=`
of operators that PyTorch records in no other way).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from flambeau.core.autograd.node import Node


class Undefined:
    """What nodes of operators without a derivative have in common; `title` is PyTorch's name of the operator."""

    __slots__ = ()
    title = ""

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Raises RuntimeError."""
        raise RuntimeError(f"derivative for {self.title} is not implemented")

    def name(self) -> str:
        """PyTorch's name of the step."""
        return "torch::autograd::NotImplemented"


@cache
def node_class(title: str) -> type[Node]:
    """The class of nodes of the operator that PyTorch calls `title`."""
    return type("NotImplemented", (Undefined, Node), {"__slots__": (), "title": title})
