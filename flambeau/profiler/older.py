"""The older interface, torch.autograd.profiler.profile, which `torch.profiler.profile.profiler` is one of.

Stands on flambeau.profiler.profiler; flambeau.autograd.profiler shows it.
"""

from __future__ import annotations

from typing import Any

from flambeau.profiler import profiler as _profiler
from flambeau.profiler.averages import EventList, FunctionEventAvg
from flambeau.profiler.counts import ProfilerStats

__all__ = ["profile"]


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
        self._results: Any = None
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.measured = _profiler.profile(record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack)

    @classmethod
    def around(cls, measured: _profiler.profile) -> profile:
        """What `torch.profiler.profile.profiler` is: this interface to what it measures."""
        made = cls.__new__(cls)
        made.enabled = made.entered = True
        made._results, made.measured = None, measured
        made.record_shapes, made.profile_memory = measured.record_shapes, measured.profile_memory
        made.with_stack = measured.with_stack
        return made

    @property
    def _stats(self) -> ProfilerStats:
        """What measuring cost."""
        return self.measured._stats()

    @property
    def kineto_results(self) -> Any:
        """The list of events and the tree of them."""
        if self._results is None and self.measured.recorder is None:
            self._results = self.measured._results()
        return self._results or self.measured._results()

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


_profiler.profile.interface = profile.around
