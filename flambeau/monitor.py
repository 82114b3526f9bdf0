"""torch.monitor: events that programs log, numbers gathered over windows of time, and handlers that are told.

Stands on the standard library.
"""

from __future__ import annotations

import contextlib
import enum
import math
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from flambeau.base.locks import short_lock
from flambeau.base.naming import public_module

__all__ = [
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "Stat",
    "TensorboardEventHandler",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

data_value_t = str | int | float | bool
STAT_EVENT = "torch.monitor.Stat"
_lock = short_lock()


class Aggregation(enum.IntEnum):
    """What of the numbers in a window is told."""

    __module__ = public_module("_C._monitor")

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6

    def __repr__(self) -> str:
        return f"<Aggregation.{self.name}: {self.value}>"

    def __str__(self) -> str:
        return f"Aggregation.{self.name}"


class Event:
    """Something that happened: a name, when, and values by name. TypeError for values that aren't text or numbers."""

    __module__ = public_module("_C._monitor")

    def __init__(self, name: str, timestamp: datetime, data: dict[str, data_value_t]) -> None:
        if not isinstance(timestamp, datetime):
            raise TypeError(f"an event's timestamp must be a datetime, not {type(timestamp).__name__}")
        for key, value in data.items():
            if not isinstance(value, (str, int, float)):
                raise TypeError(f"an event's data must be text or numbers, but {key!r} is a {type(value).__name__}")
        self.name, self.timestamp, self.data = name, timestamp, data


class EventHandlerHandle:
    """A handler that is registered."""

    __module__ = public_module("_C._monitor")

    def __init__(self, handler: Callable[[Event], None]) -> None:
        self._handler = handler


_handlers: list[EventHandlerHandle] = []


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """Call callback(event) for each event that is logged from now on."""
    if not callable(callback):
        raise TypeError(f"an event handler must be callable, not {type(callback).__name__}")
    handle = EventHandlerHandle(callback)
    with _lock:
        _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Take a handler back. RuntimeError for one that isn't registered."""
    with _lock:
        if handler not in _handlers:
            raise RuntimeError("the event handler isn't registered, or was taken back before")
        _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Tell the handlers of an event, in the order of their registration."""
    if not isinstance(event, Event):
        raise TypeError(f"log_event takes an Event, not {type(event).__name__}")
    for handle in _handlers:
        handle._handler(event)


class Stat:
    """Numbers gathered over windows of time: at the end of each an event says what the aggregations make of them.

    window_size: how long a window is; a number that is added after its end closes it. max_samples: with that many numbers a
    window is told of at once, and what is added to it further on isn't counted. At the end of the object what is left is logged.
    """

    __module__ = public_module("_C._monitor")

    def __init__(
        self, name: str, aggregations: Sequence[Aggregation], window_size: timedelta, max_samples: int = 2**63 - 1
    ) -> None:
        if not isinstance(window_size, timedelta):
            raise TypeError(f"a Stat's window_size must be a timedelta, not {type(window_size).__name__}")
        self.name, self._aggregations = name, [Aggregation(each) for each in aggregations]
        self._length, self._most = window_size.total_seconds(), max_samples
        self._guard = short_lock()
        self._window, self._full = 0, False
        self._clear()
        self._last: dict[Aggregation, float] = dict.fromkeys(self._told(), 0.0)

    def _clear(self) -> None:
        self._count, self._sum, self._max, self._min = 0, 0.0, -math.inf, math.inf

    def _told(self) -> list[Aggregation]:
        return sorted({a for a in self._aggregations if a is not Aggregation.VALUE}, reverse=True)

    @property
    def count(self) -> int:
        """How many numbers the window has so far."""
        return self._count

    def add(self, v: float) -> None:
        """Add a number to the window."""
        v = float(v)
        with self._guard:
            event, full = None, None
            window = int(time.monotonic() // self._length) if self._length else self._window + 1
            if window != self._window:
                event, self._window, self._full = self._close(), window, False
            if not self._full:
                full = self._added(v)
        for each in (event, full):
            if each is not None:
                log_event(each)

    def _added(self, v: float) -> Event | None:
        self._count, self._sum = self._count + 1, self._sum + v
        self._max, self._min = max(self._max, v), min(self._min, v)
        self._full = self._count >= self._most
        return self._close() if self._full else None

    def get(self) -> dict[Aggregation, float]:
        """What was made of the last window that has ended."""
        return dict(self._last)

    def _close(self) -> Event | None:
        """End the window; the event that tells of it."""
        if not self._count:
            return None
        made = {
            Aggregation.SUM: self._sum,
            Aggregation.COUNT: float(self._count),
            Aggregation.MEAN: self._sum / self._count,
            Aggregation.MAX: self._max,
            Aggregation.MIN: self._min,
        }
        self._last = {a: made[a] for a in self._told()}
        self._clear()
        return Event(STAT_EVENT, datetime.now(), {f"{self.name}.{a.name.lower()}": value for a, value in self._last.items()})

    def __del__(self) -> None:
        if getattr(self, "_count", 0) and (event := self._close()) is not None:
            log_event(event)


class TensorboardEventHandler:
    """Writes the values of events of Stat to a torch.utils.tensorboard.SummaryWriter, as scalars."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())


class _WaitCounterTracker:
    def __init__(self, key: str) -> None:
        self.key = key


class _WaitCounter:
    """A name for times that a program waits. Nobody is told of them here, as in PyTorch without a backend."""

    def __init__(self, key: str) -> None:
        self.key = key

    @contextlib.contextmanager
    def guard(self) -> Iterator[_WaitCounterTracker]:
        """A block in which the program waits."""
        yield _WaitCounterTracker(self.key)
