"""Steps of the graph that have no derivative in PyTorch: they are recorded, and say so when a gradient arrives.

Stands on node; used by core.operator.pointwise (operators without a derivative), core.operator.out_argument (writes to `out=` of
operators that PyTorch records in no other way) and ops.reduction.histogram.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from flambeau.core.autograd.node import NO_EDGE, Node
from flambeau.core.modes import modes
from flambeau.core.tensor.tensor import Tensor


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


def step_after(title: str, operands: Iterable[Any]) -> Node | None:
    """The step of a call of the operator `title`, or None if none of its operands requires grad, or the graph isn't recorded."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if not modes.local.grad or all(x._node is None for x in tensors):
        return None
    edges = tuple([NO_EDGE if x._node is None else (x._node, x._index) for x in tensors])
    return node_class(title)(edges, (None,) * len(edges))


def recorded(title: str, made: Any, operands: Iterable[Any]) -> Any:
    """A fresh result, or tuple of such, of the operator `title`: with its step in the graph, if an operand requires grad."""
    node = step_after(title, operands)
    if node is not None:
        for result in made if isinstance(made, tuple) else (made,):
            result._node, result._index = node, 0
    return made
