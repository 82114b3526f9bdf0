"""What a trace tells a report of itself: questions that only values answer, guards, and fakes that are absent or wrong.

`reported_to(observer)` has the ShapeEnvs that are made meanwhile tell `observer`. Used by shape_env, by the propagation of real
tensors (_subclasses.symbolic.real_tensors) and by torch.export's draft_export, whose report is such an observer.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, Protocol

__all__ = ["TraceObserver", "current_observer", "reported_to"]


class TraceObserver(Protocol):
    """What is told of a trace. env: a ShapeEnv; expr: an expression of its symbols; overload: an operator."""

    def data_dependent(self, env: Any, expr: Any, held: bool) -> None:
        """A question that only a run answers was answered by the values of the example."""

    def guarded(self, env: Any, expr: Any) -> None:
        """The trace depends on a condition from now on."""

    def missing_fake(self, overload: Any) -> None:
        """An operator has no fake; its results are taken to be like those of the example."""

    def mismatched_fake(self, overload: Any, reason: str) -> None:
        """The fake of an operator has given something else than the operator."""

    def profiled(self, overload: Any, args: Any, made: Any) -> None:
        """What the results of an operator were like that has no right fake. args: its arguments; made: its results."""


_observer: contextvars.ContextVar[TraceObserver | None] = contextvars.ContextVar("observer", default=None)


def current_observer() -> TraceObserver | None:
    """Who is told of traces that begin here; None without."""
    return _observer.get()


@contextlib.contextmanager
def reported_to(observer: TraceObserver) -> Iterator[None]:
    """Context: `observer` is told of traces that begin here."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)
