"""torch.autograd.profiler: the older interface of flambeau.profiler.

`profile` is a context that measures one stretch of a program. NVTX and ITT, which other profilers read, are not there, as in
PyTorch's builds for the CPU.
"""

from __future__ import annotations

from typing import Any

import flambeau.profiler as _profiler
from flambeau.core.modes.observing import Given
from flambeau.core.operator import unsupported as _unsupported
from flambeau.profiler import DeviceType, ProfilerActivity, kineto_available, record_function
from flambeau.profiler.averages import EventList, FunctionEvent, FunctionEventAvg

__all__ = [
    "DeviceType",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "ProfilerActivity",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "load_nvprof",
    "profile",
    "record_function",
]


def _profiler_enabled() -> bool:
    """Whether a profiler is measuring."""
    return bool(_profiler._current)


def __getattr__(name: str) -> Any:
    if name == "_is_profiler_enabled":
        return _profiler_enabled()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _record_function_with_args_enter(name: str, *args: Any) -> record_function:
    """Begin a stretch that the profiler shows with the shapes of these arguments; gives what ends it."""
    made = record_function(name)
    made.given = Given(args) if args else None
    made.__enter__()
    return made


def _record_function_with_args_exit(handle: record_function) -> None:
    """End such a stretch."""
    handle.__exit__(None, None, None)


def _disable_profiler() -> None:
    """Stop what is measuring."""
    while _profiler._current:
        _profiler._current.pop().__exit__(None, None, None)


class profile:
    """Context that measures the operators and record_function blocks of the thread it is entered in.

    enabled: False measures nothing. record_shapes, profile_memory, with_stack: as of flambeau.profiler.profile; the other
    arguments are accepted, devices are not measured.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        **_: Any,
    ):
        self.enabled = enabled
        self.entered = False
        self.measured = _profiler.profile(
            record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack
        )

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self.measured.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.enabled:
            self.measured.stop()

    def _events(self) -> EventList:
        if not self.entered:
            raise RuntimeError("Profiler didn't finish running")
        return self.measured.events()

    @property
    def function_events(self) -> EventList | None:
        """The events in the order they began; None before the context is entered."""
        return self._events() if self.entered else None

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any) -> EventList:
        """Events of one name added up; `.table(sort_by=...)` prints them."""
        return self._events().key_averages(group_by_input_shape, group_by_stack_n)

    def table(self, **arguments: Any) -> str:
        """The events as text; the arguments are those of EventList.table."""
        return self._events().table(**arguments)

    def total_average(self) -> FunctionEventAvg:
        """All events added up."""
        return self._events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Time of all events in microseconds, each without what it called."""
        return self._events().self_cpu_time_total

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing."""
        self._events()
        self.measured.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the program's calls and the time in each; needs with_stack=True."""
        self.measured.export_stacks(path, metric)

    def __repr__(self) -> str:
        return repr(self._events()) if self.entered else "<unfinished torch.autograd.profile>"

    def __str__(self) -> str:
        return str(self._events()) if self.entered else "<unfinished torch.autograd.profile>"


class emit_nvtx:
    """Context whose operators NVIDIA's profiler shows. Entering it raises RuntimeError: there is no CUDA."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        self.enabled = enabled

    def __enter__(self) -> Any:
        if self.enabled:
            raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")

    def __exit__(self, *exception: object) -> None:
        return None


emit_itt = _unsupported.kind("autograd.profiler.emit_itt", "use torch.profiler.profile and export_chrome_trace")
load_nvprof = _unsupported.function("autograd.profiler.load_nvprof", "there is no CUDA; use torch.profiler.profile")
