"""torch.distributed.autograd: gradients through calls to other processes (`torch.distributed.rpc`).

    with dist_autograd.context() as context_id:
        loss = rpc.rpc_sync("worker1", forward, (x,)).sum()
        dist_autograd.backward(context_id, [loss])
        gradients = dist_autograd.get_gradients(context_id)

Stands on rpc.gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from flambeau.distributed.rpc import current as _current
from flambeau.distributed.rpc import gradients as _contexts

__all__ = ["backward", "context", "get_gradients", "is_available"]

_passes = itertools.count(1)


def is_available() -> bool:
    """True: it needs nothing but Python."""
    return True


class context:
    """A block whose calls to other processes have gradients; `with` gives its number. Other processes forget it at the end."""

    def __enter__(self) -> int:
        self.autograd_context = _current.contexts().begin()
        return int(self.autograd_context)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        _contexts.forget(self.autograd_context)


def backward(context_id: int, roots: Sequence[Any], retain_graph: bool = False) -> None:
    """Add the gradients of the sum of roots, in all processes, to those of a context. Graphs are kept until its end.

    Raises RuntimeError if roots aren't numbers that require a gradient, or there is no such context.
    """
    own = _current.contexts().of(context_id)
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError("requires_grad not set on root")
        if root.numel() != 1:
            raise RuntimeError("is not a scalar, all roots need to be scalar")
    number = _current.agent().own.id << 32 | next(_passes)
    before, _current.contexts()._thread.context = _current.contexts()._thread.context, None
    try:
        _contexts.reach(own.number, number, _contexts._LOCAL, list(roots)).wait()
        _contexts.hand_on(own.number, number, _contexts._LOCAL, [root.new_ones(root.shape) for root in roots]).wait()
    finally:
        _current.contexts()._thread.context = before


def get_gradients(context_id: int) -> dict[Any, Any]:
    """The gradients that are found in this process, by tensor. Raises RuntimeError if there is no such context."""
    return dict(_current.contexts().of(context_id).gradients)
