"""torch.profiler: wall-clock times of operators and of named stretches of a program.

A mode that sees operator calls measures them; memory, shapes and devices are not recorded. Stands on core.modes.modes and
the standard library.
"""

from __future__ import annotations

import enum
import functools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.core.modes.modes import Mode
from flambeau.core.operator import unsupported as _unsupported
from flambeau.profiler.averages import EventList, FunctionEvent

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

ExecutionTraceObserver = _unsupported.kind(
    "profiler.ExecutionTraceObserver", "use torch.profiler.profile and export_chrome_trace"
)


class ProfilerActivity(enum.Enum):
    """What is measured; flambeau measures the CPU."""

    CPU = 0
    CUDA = 1
    XPU = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


class DeviceType(enum.Enum):
    """Where an event took place."""

    CPU = 0
    CUDA = 1


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
    """False: times are taken in Python."""
    return False


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A function from the number of a step to what is done in it: skip_first, then cycles of wait, warmup and active steps."""

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


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """An on_trace_ready that writes a Chrome trace into a folder."""

    def write(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        prof.export_chrome_trace(
            os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else ""))
        )

    return write


class _Recorder(Mode):
    """Measures every operator call of a thread."""

    def __init__(self) -> None:
        self.events: list[FunctionEvent] = []
        self.depth: list[FunctionEvent] = []

    def begin(self, name: str) -> FunctionEvent:
        event = FunctionEvent(
            name, time.perf_counter_ns(), self.depth[-1] if self.depth else None, threading.get_ident()
        )
        self.depth.append(event)
        self.events.append(event)
        return event

    def finish(self, event: FunctionEvent) -> None:
        event.end = time.perf_counter_ns()
        if self.depth and self.depth[-1] is event:
            self.depth.pop()

    def handle(self, operator: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(operator, "name", None) or getattr(operator, "__name__", "call")
        # an operator of torch.ops says its name with the namespace and the overload
        title = name().partition(".")[0] if callable(name) else f"aten::{name}"
        if title.startswith("profiler::"):  # the ends of a block are no part of it
            return call(*args, **kwargs)
        event = self.begin(title)
        try:
            return call(*args, **kwargs)
        finally:
            self.finish(event)


_current: list[_Recorder] = []


class profile:
    """Context that measures operators and record_function blocks of the thread it is entered in.

    activities: only the CPU counts. schedule: what to do in which step() (default: measure all). on_trace_ready: called with the
    profiler at the end of each measured cycle. record_shapes, profile_memory, with_stack, with_flops, with_modules: accepted;
    these columns are not recorded.
    """

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
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.step_num = 0
        self.recorder: _Recorder | None = None
        self.recorded: list[FunctionEvent] = []

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def _measure(self, wanted: bool) -> None:
        if wanted and self.recorder is None:
            self.recorder = _Recorder()
            self.recorder.__enter__()
            _current.append(self.recorder)
        elif not wanted and self.recorder is not None:
            if self.recorder in _current:  # unless another profiler has stopped this one
                self.recorder.__exit__(None, None, None)
                _current.remove(self.recorder)
            self.recorded, self.recorder = self.recorder.events, None

    def start(self) -> None:
        """Begin."""
        self._measure(self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE))

    def stop(self) -> None:
        """End, and hand the result to on_trace_ready."""
        if self.recorder is not None:
            self._measure(False)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def step(self) -> None:
        """The next step of the schedule begins."""
        before = self._action()
        self.step_num += 1
        after = self._action()
        if before is ProfilerAction.RECORD_AND_SAVE and self.recorder is not None:
            self._measure(False)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self._measure(after in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE))

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def events(self) -> EventList:
        """The events in the order they began."""
        return EventList(self.recorder.events if self.recorder is not None else self.recorded)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any) -> EventList:
        """Events of one name added up; `.table(sort_by=...)` prints them."""
        return self.events().key_averages()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing (compressed if the name ends in .gz)."""
        self.events().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Stacks are not recorded: raises NotImplementedError."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Accepted; traces hold events only."""

    add_metadata_json = add_metadata


class record_function:
    """Context and decorator: a stretch of the program that the profiler shows under a name. Costs nothing when none is on."""

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self.open: list[tuple[_Recorder, FunctionEvent]] = []

    def __enter__(self) -> record_function:
        if _current:
            self.open.append((_current[-1], _current[-1].begin(self.name)))
        return self

    def __exit__(self, *exception: object) -> None:
        if self.open:
            recorder, event = self.open.pop()
            recorder.finish(event)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return inside
