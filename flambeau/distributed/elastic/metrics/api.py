"""Metrics by groups, each with a handler. Stands on the standard library."""

from __future__ import annotations

import abc
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricStream",
    "MetricsConfig",
    "NullMetricHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]


class MetricData(NamedTuple):
    """A number, when it was (seconds since 1970), and its names."""

    timestamp: int
    group_name: str
    name: str
    value: int


class MetricsConfig:
    """Parameters of handlers, as text."""

    __slots__ = ("params",)

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = params if params is not None else {}


class MetricHandler(abc.ABC):
    """What is given each number."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take a number."""


class ConsoleMetricHandler(MetricHandler):
    """Prints numbers."""

    def emit(self, metric_data: MetricData) -> None:
        """Print a number."""
        print(f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}")


class NullMetricHandler(MetricHandler):
    """Drops numbers."""

    def emit(self, metric_data: MetricData) -> None:
        """Drop a number."""


class MetricStream:
    """A group's numbers on their way to its handler."""

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name: str, metric_value: int) -> None:
        """Give the handler a number."""
        self.handler.emit(MetricData(int(time.time()), self.group_name, metric_name, metric_value))


_handlers: dict[str | None, MetricHandler] = {None: NullMetricHandler()}


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Have a handler take the numbers of a group; of all that have none, without a group."""
    _handlers[group] = handler


def getStream(group: str) -> MetricStream:
    """The stream of a group."""
    return MetricStream(group, _handlers.get(group, _handlers[None]))


def put_metric(metric_name: str, metric_value: int, metric_group: str = "torchelastic") -> None:
    """Publish a number in a group."""
    getStream(metric_group).add_value(metric_name, metric_value)


def publish_metric(metric_group: str, metric_name: str, metric_value: int) -> None:
    """The older put_metric."""
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Milliseconds since a time."""
    return int((time.time() - start_time_in_seconds) * 1000)


def _get_metric_name(fn: Callable[..., Any]) -> str:
    """The name of a function's numbers: with its class, as in its text."""
    qualified = fn.__qualname__.split(".")
    if len(qualified) > 1 and qualified[-2] != "<locals>":
        return ".".join(qualified[-2:])
    return f"{fn.__module__.split('.')[-1]}.{fn.__name__}"


def prof(fn: Callable[..., Any] | None = None, group: str = "torchelastic") -> Any:
    """Decorates a function whose successes, failures and milliseconds are published: NAME.success, NAME.failure, and
    NAME.duration.ms.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        name = _get_metric_name(function)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            begin = time.time()
            try:
                result = function(*args, **kwargs)
            except Exception:
                put_metric(f"{name}.failure", 1, group)
                raise
            else:
                put_metric(f"{name}.success", 1, group)
            finally:
                put_metric(f"{name}.duration.ms", get_elapsed_time_ms(begin), group)
            return result

        return wrapper

    return decorated if fn is None else decorated(fn)


def profile(group: str | None = None) -> Any:
    """The older prof."""
    return functools.partial(prof, group=group or "torchelastic")
