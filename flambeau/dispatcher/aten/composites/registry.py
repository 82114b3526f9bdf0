"""The table of composites: what PyTorch computes an overload by, written once in aten's operators.

A body takes the arguments of the overload's schema and calls other overloads, `aten.mul.Tensor(x, y)`; NotImplemented where the
public function's own body serves. Modes below autograd run it in the place of the overload, and so do decompositions of graphs.
Used by the files of this room, by dispatch_modes and overloads, and by flambeau._decomp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["COMPOSITES", "IN_GRAPHS", "aten", "body_of", "composite", "has_bodies", "in_graphs", "tell_of"]

Body = Callable[..., Any]
#: By the name of the operator and of the overload: "softmax.int".
COMPOSITES: dict[str, Body] = {}
#: Those that PyTorch's decompositions of graphs have in the place of what its dispatcher has.
IN_GRAPHS: dict[str, Body] = {}
_packets: set[str] = set()
_ops: list[Any] = []


class _Aten:
    """torch.ops.aten, which `namespaces` tells of, as it stands on what stands on this."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_ops[0].aten, name)


aten: Any = _Aten()


def tell_of(ops: Any) -> None:
    """Let bodies call the operators of this."""
    _ops[:] = [ops]


def composite(*names: str) -> Callable[[Body], Body]:
    """Decorator: what PyTorch computes these overloads of aten by, "softmax.int"."""

    def register(function: Body) -> Body:
        for name in names:
            COMPOSITES[name] = function
            _packets.add(name.partition(".")[0])
        return function

    return register


def in_graphs(*names: str) -> Callable[[Body], Body]:
    """Decorator: what PyTorch takes these overloads apart by in a graph, which isn't what its dispatcher computes them by."""

    def register(function: Body) -> Body:
        IN_GRAPHS.update(dict.fromkeys(names, function))
        return function

    return register


def has_bodies(name: str) -> bool:
    """Whether overloads of `aten.<name>` have bodies here."""
    return name in _packets


def body_of(overload: Any, graph: bool = False) -> Body | None:
    """The body of an overload, if it has one; graph: for a graph that is taken apart."""
    if overload._namespace != "aten":
        return None
    name = f"{overload._opname}.{overload._overloadname}"
    return (IN_GRAPHS.get(name) if graph else None) or COMPOSITES.get(name)
