"""torch.profiler.profiler: profilers, their schedules, and named stretches of a program.

An observer of operator calls measures them; devices are not measured. Stands on core.modes.observing and the standard library.
"""

from __future__ import annotations

import enum
import functools
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.core.modes.observing import Given, stretch
from flambeau.profiler.averages import DeviceType, EventList
from flambeau.profiler.counts import KinetoStepTracker, ProfilerStats
from flambeau.profiler.execution_trace import ExecutionTraceObserver
from flambeau.profiler.recorder import Recorder
from flambeau.profiler.records import RecordScope

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "RecordScope",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """What is measured; flambeau measures the CPU."""

    CPU = 0
    CUDA = 1
    XPU = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What the profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """{ProfilerActivity.CPU}."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """True: torch.profiler.profile measures. Devices are not measured, see supported_activities."""
    return True


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A function from the number of a step to what is done in it: skip_first, then cycles of wait, warmup and active steps."""

    given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
    if min(given.values()) < 0 or active == 0:
        needs = ", ".join(f"{name}={value} (need {'>' if name == 'active' else '>='} 0)" for name, value in given.items())
        raise AssertionError(f"Invalid profiler schedule arguments. Got {needs}.")

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Callable[[Any], None]:
    """An on_trace_ready that writes a Chrome trace into a folder."""

    def write(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        prof.export_chrome_trace(os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")))

    return write


_current: list[Recorder] = []


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Measure every step."""
    return ProfilerAction.RECORD


class profile:
    """Context that measures operators, backward passes and record_function blocks of the thread it is entered in.

    activities: only the CPU counts. schedule: what to do in which step() (default: measure all). on_trace_ready: called with the
    profiler at the end of each measured cycle. record_shapes: events have the shapes of their arguments; with_stack: the
    program's calls that led to them; profile_memory: the bytes that are taken and given back; with_flops: the operations of
    products, convolutions, sums. with_modules: accepted, and not recorded.
    """

    interface: Callable[[Any], Any]  # makes the older interface to it (flambeau.profiler.older)

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        **_: Any,
    ):
        self.execution_trace_observer = execution_trace_observer
        if execution_trace_observer is None:
            self.execution_trace_observer = ExecutionTraceObserver.build_execution_trace_obs_from_env()
        self.with_flops, self.with_modules, self.experimental_config = with_flops, with_modules, experimental_config
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.acc_events = acc_events
        self.step_num = 0
        self.recorder: Recorder | None = None
        self._recorded: list[Any] = []  # in the last cycle, and in those before
        self._earlier: list[Any] = []
        self._list: EventList | None = None  # made when it is asked for
        self._costs: Any = None
        self.profiler: Any = None
        self._recorders: list[Recorder] = []
        self.metadata: dict[str, Any] = {}
        self.preset_metadata: dict[str, Any] = {}
        self._step: Callable[[], None] | None = None

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def _measure(self, wanted: bool) -> None:
        begun = time.perf_counter()
        if wanted and self.recorder is None:
            self.recorder = Recorder(self.record_shapes, self.profile_memory, self.with_stack, self.with_flops)
            if not self.acc_events:
                self._recorders.clear()
            self._recorders.append(self.recorder)
            self.profiler = type(self).interface(self)
            _current.append(self.recorder)
            self._costs = ProfilerStats()
            prepared = time.perf_counter()
            self._costs.profiler_prepare_call_duration_us = 1e6 * (prepared - begun)
            self.recorder.profiles = True
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.start(self.recorder)
            self.recorder.__enter__()
            self._costs.profiler_enable_call_duration_us = 1e6 * (time.perf_counter() - prepared)
        elif not wanted and self.recorder is not None:
            if self.recorder in _current:  # unless another profiler has stopped this one
                self.recorder.__exit__(None, None, None)
                _current.remove(self.recorder)
            ended = time.perf_counter()
            self._costs.profiler_disable_call_duration_us = 1e6 * (ended - begun)
            self._costs.profiling_window_duration_sec = (self.recorder.ended - self.recorder.began) / 1e9
            self._earlier += self._recorded if self.acc_events else []
            self._recorded, self._list = self.recorder.events, None
            self.recorder = None
            self._costs.parse_kineto_call_duration_us = 1e6 * (time.perf_counter() - ended)

    def _stats(self) -> Any:
        """What measuring cost in the last cycle; None before there is one."""
        return self._costs

    def _begin_step(self) -> None:
        if self.schedule is not None and self.recorder is not None:
            self._step = self.recorder.begin(f"ProfilerStep#{self.step_num}")

    def _end_step(self) -> None:
        if self._step is not None:
            self._step()
            self._step = None

    def start(self) -> None:
        """Begin."""
        self._measure(self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE))
        self._begin_step()

    def stop(self) -> None:
        """End, and hand the result to on_trace_ready."""
        self._end_step()
        if self.recorder is not None:
            self._measure(False)
            self._end_trace()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def _end_trace(self) -> None:
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()
            self.execution_trace_observer.cleanup()

    def step(self) -> None:
        """The next step of the schedule begins."""
        self._end_step()
        before = self._action()
        self.step_num += 1
        KinetoStepTracker.increment_step("ProfilerStep")
        after = self._action()
        if before is ProfilerAction.RECORD_AND_SAVE and self.recorder is not None:
            self._measure(False)
            self._end_trace()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self._measure(after in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE))
        self._begin_step()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _results(self) -> Any:
        """What was measured since the last start, as a list of events and as a tree."""
        from flambeau.profiler.results import Results

        return Results(self._recorders)

    def _events(self, what: str) -> EventList:
        if self.recorder is not None:
            return EventList(self.recorder.events, self.profile_memory, self.with_stack)
        assert self._costs is not None, f"Profiler must be initialized before {what}"
        if self._list is None:
            begun = time.perf_counter()
            self._list = EventList([*self._earlier, *self._recorded], self.profile_memory, self.with_stack)
            self._costs.function_events_build_tree_call_duration_us = 1e6 * (time.perf_counter() - begun)
            self._costs.number_of_events = len(self._list)
        return self._list

    def events(self) -> EventList:
        """The events in the order they began. AssertionError before there are any."""
        return self._events("accessing events")

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Events of one name (and of one of its shapes, or places) added up; `.table(sort_by=...)` prints them."""
        return self._events("getting key averages").key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing (compressed if the name ends in .gz)."""
        from flambeau.profiler.traces import write_trace

        self._events("exporting a trace")
        names = ("with_stack", "profile_memory", "record_shapes", "with_flops", "with_modules")
        told = {name: 1 for name in names if getattr(self, name)}
        adjust = bool(getattr(self.experimental_config, "adjust_profiler_step", False))
        write_trace(path, self._recorders, {**told, **self.preset_metadata, **self.metadata}, adjust)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the program's calls and the time in each, as flame graphs read them; needs with_stack=True."""
        self.events().export_stacks(path, metric)

    def _memory_profile(self) -> Any:
        """What the program's memory is for. ValueError unless the profiler had record_shapes, profile_memory and with_stack."""
        from flambeau.profiler._memory_profiler import MemoryProfile

        missing = [f"{name}=True" for name in ("record_shapes", "profile_memory", "with_stack") if not getattr(self, name)]
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        self._events("asking for memory")
        return MemoryProfile(self._results())

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write what becomes of the memory of a device (default: the CPU) as JSON: [times, bytes by category], or with a name
        that ends in .raw.json.gz every change; compressed with one that ends in .gz. Needs what _memory_profile needs.
        """
        from flambeau.profiler._memory_profiler import MemoryProfileTimeline

        written = MemoryProfileTimeline(self._memory_profile())
        if path.endswith(".html"):
            written.export_memory_timeline_html(path, device or "cpu")
        elif path.endswith("raw.json.gz"):
            written.export_memory_timeline_raw(path, device or "cpu")
        else:
            written.export_memory_timeline(path, device or "cpu")

    def add_metadata(self, key: str, value: str) -> None:
        """Have a text stand in the trace beside the events."""
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same of a value, given as JSON."""
        self.metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """The same, before the profiler has started, for every cycle."""
        self.preset_metadata[key] = json.loads(value)


class record_function(stretch):
    """Context and decorator: a stretch of the program that the profiler shows under a name. Costs nothing when none is on."""

    def __init__(self, name: str, args: str | None = None):
        super().__init__(name, None if args is None else Given((args,)))
        self.args = args

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return inside
