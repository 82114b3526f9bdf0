"""Who is told of collectives as they begin: what `torch.distributed.tensor.debug.CommDebugMode` counts by.

A process group tells of its own calls, named as c10d's operators; while one of `copying_collectives` runs, that one is told
of. Stands on nothing; used by `engine`, `copying_collectives` and `tensor.debug`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["began", "functional", "listeners"]

#: Called with the namespace and the name of each collective that begins, on whichever thread makes it.
listeners: list[Callable[[str, str], None]] = []

#: A process group's calls by the names that c10d's operators have in `torch.ops.c10d`. A barrier moves nothing.
_OPERATORS = {
    "all_reduce": "allreduce_", "reduce": "reduce_", "reduce_scatter": "reduce_scatter_",
    "reduce_scatter_tensor": "_reduce_scatter_base_", "broadcast": "broadcast_", "all_gather": "allgather_",
    "all_gather_into_tensor": "_allgather_base_", "gather": "gather_", "scatter": "scatter_",
    "all_to_all_single": "alltoall_base_", "all_to_all": "alltoall_",
}  # fmt: skip


class _Thread(threading.local):
    inside = False  # a functional collective, which is told of in the place of what it calls


_thread = _Thread()


def began(call: str) -> None:
    """Tells of a process group's call."""
    if listeners and not _thread.inside and call in _OPERATORS:
        for listener in tuple(listeners):
            listener("c10d", _OPERATORS[call])


def functional(name: str, namespace: str = "c10d_functional") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function that is a collective of this name, whatever it calls."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not listeners or _thread.inside:
                return function(*args, **kwargs)
            for listener in tuple(listeners):
                listener(namespace, name)
            _thread.inside = True
            try:
                return function(*args, **kwargs)
            finally:
                _thread.inside = False

        return called

    return decorate
