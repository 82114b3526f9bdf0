"""Which trace a thread is in. Stands on nothing, so that asking costs nothing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flambeau.jit.tracing.state import TracingState

__all__ = ["current", "is_tracing", "submodule_names", "tracing"]


class _Local(threading.local):
    state: TracingState | None = None
    names: dict[Any, Any] | None = None


local = _Local()


def current() -> TracingState | None:
    """The trace that this thread is in; None outside of one."""
    return local.state


def is_tracing() -> bool:
    """Whether this is called while torch.jit.trace records a program."""
    return local.state is not None


is_tracing._jit_override_qualname = "__torch__.torch.jit._trace.is_tracing"  # type: ignore[attr-defined]


def submodule_names() -> dict[Any, Any] | None:
    """The names of the submodules of the module that is traced, by module; None outside of a trace."""
    return local.names


class tracing:
    """Context: this thread is in a trace; tracing(None): it is in none meanwhile."""

    def __init__(self, state: TracingState | None) -> None:
        self.state = state

    def __enter__(self) -> TracingState | None:
        self.before, local.state = local.state, self.state
        return self.state

    def __exit__(self, *exception: object) -> None:
        local.state = self.before
