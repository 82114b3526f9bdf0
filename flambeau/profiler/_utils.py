"""torch.profiler._utils: walks over the profiler's tree, and what it says of time: of each event's own, of what a device had
in its queue, and of where it had nothing to do.

Works on what `experimental_event_tree()` and `events()` of a profiler's results give, whoever made them.
"""

from __future__ import annotations

import re
import statistics
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flambeau.profiler.averages import DeviceType

__all__ = [
    "BasicEvaluation", "EventKey", "EventMetrics", "Interval", "argmax", "index_of_first_match", "source_code_location",
    "traverse_bfs", "traverse_dfs",
]  # fmt: skip

_NOWHERE = "No source code location found"
_PYTHON = re.compile(r"\.py\(.*\)")
#: A queue is worth a look while it runs dry after it held this many kernels.
_FULL = 4


def traverse_dfs(
    tree: Iterable[Any], children_fn: Callable[[Any], Iterable[Any]] = lambda event: event.children, reverse: bool = False
) -> Iterator[Any]:
    """The events of a tree, each before those below it."""
    stack = list(tree) if reverse else list(tree)[::-1]
    while stack:
        event = stack.pop()
        yield event
        below = list(children_fn(event))
        stack += below if reverse else below[::-1]


def traverse_bfs(
    tree: Iterable[Any], children_fn: Callable[[Any], Iterable[Any]] = lambda event: event.children, reverse: bool = False
) -> Iterator[Any]:
    """The events of a tree, level by level."""
    waiting = deque(list(tree)[::-1] if reverse else tree)
    while waiting:
        event = waiting.popleft()
        yield event
        below = list(children_fn(event))
        waiting += below[::-1] if reverse else below


@dataclass
class EventMetrics:
    """What an event's time went into, in nanoseconds."""

    duration_time_ns: int = 0
    self_time_ns: int = 0
    idle_time_ns: int = 0
    queue_depth: int = 0

    @property
    def fraction_idle_time(self) -> float:
        """The share of it in which the device had nothing to do."""
        return self.idle_time_ns / self.duration_time_ns if self.duration_time_ns else 0.0


@dataclass
class Interval:
    """A stretch of time, and how many kernels waited at its end."""

    start: int
    end: int
    queue_depth: int = 0


class EventKey:
    """An event, equal to itself alone, as a key of dicts."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def __hash__(self) -> int:
        return hash(self.event.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventKey) and bool(self.event.id == other.event.id)

    def __repr__(self) -> str:
        return f"{self.event.name}"

    def intervals_overlap(self, intervals: Iterable[Interval]) -> int:
        """How much of the event is covered by these intervals; what several cover counts once."""
        covered, reached = 0, self.event.start_time_ns
        for interval in sorted(intervals, key=lambda interval: interval.start):
            start, end = max(interval.start, reached), min(interval.end, self.event.end_time_ns)
            if end > start:
                covered += end - start
                reached = end
        return covered


@dataclass
class BasicEvaluation:
    """What a profiler (`prof.profiler`) measured, by event: `metrics`.

    events: in the order they began, event_keys: the same as keys; cuda_events: launches of kernels and the kernels,
    queue_depth_list: how many were waiting after each, idle intervals where there were none.
    """

    profile: Any
    metrics: dict[EventKey, EventMetrics] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.compute_self_time()
        self.event_keys = sorted(self.metrics, key=lambda key: key.event.start_time_ns)
        self.events = [key.event for key in self.event_keys]
        self.cuda_events: list[Any] = []
        self.queue_depth_list = self.compute_queue_depth()
        self.compute_idle_time()

    def compute_self_time(self) -> None:
        """Each event's time, and that without what stands below it."""
        for event in traverse_dfs(self.profile.kineto_results.experimental_event_tree()):
            inside = sum(child.duration_time_ns for child in event.children)
            self.metrics[EventKey(event)] = EventMetrics(event.duration_time_ns, event.duration_time_ns - inside)

    def compute_queue_depth(self) -> list[Interval]:
        """How many kernels had been launched and not begun, after each launch and each beginning; [] without a device. Sets
        cuda_events and the events' queue_depth.
        """
        measured = self.profile.kineto_results.events()
        kernels = [e for e in measured if e.device_type() == DeviceType.CUDA and "mem" not in _name(e).lower()]
        begun = {e.linked_correlation_id() for e in kernels}
        launches = [e for e in measured if _is_launch(e) and e.linked_correlation_id() in begun]
        self.cuda_events = sorted([*launches, *kernels], key=lambda event: event.start_ns())
        depths, depth = [], 0
        for event in self.cuda_events:
            depth += 1 if event.device_type() == DeviceType.CPU else -1
            depths.append(Interval(event.start_ns(), event.start_ns() + event.duration_ns(), max(depth, 0)))
        starts = [interval.start for interval in depths]
        for key in self.event_keys:
            before = bisect_right(starts, key.event.start_time_ns)
            self.metrics[key].queue_depth = depths[before - 1].queue_depth if before else 0
        return depths

    def compute_idle_time(self) -> None:
        """For how long of each event the device had nothing to do."""
        intervals: list[Interval] = []
        if self.queue_depth_list and self.events:
            idle_since: int | None = self.events[0].start_time_ns
            for each in self.queue_depth_list:
                if each.queue_depth and idle_since is not None:
                    intervals.append(Interval(idle_since, each.start))
                    idle_since = None
                elif not each.queue_depth and idle_since is None:
                    idle_since = each.end
            if idle_since is not None:
                intervals.append(Interval(idle_since, self.events[-1].end_time_ns))
        for key in self.event_keys:
            self.metrics[key].idle_time_ns = key.intervals_overlap(intervals)

    def _draining(self) -> list[Interval]:
        """From where the queue held most to where it was empty, for each time that it had been filled well."""
        found: list[Interval] = []
        peak: Interval | None = None
        for each in self.queue_depth_list:
            if not each.queue_depth:
                if peak is not None and peak.queue_depth >= _FULL:
                    found.append(Interval(peak.start, each.start))
                peak = None
            elif peak is None or each.queue_depth >= peak.queue_depth:
                peak = each
        return found

    def rank_events(self, length: int) -> list[EventKey]:
        """The events that held a device up most: those while its queue ran dry, by their own time and the share of idleness."""
        draining = self._draining()
        found = [key for key in self.metrics if key.intervals_overlap(draining)]
        if not found:
            return []
        idle = _standardized([self.metrics[key].fraction_idle_time for key in found])
        own = _standardized([self.metrics[key].self_time_ns for key in found])
        scores = {key: i + 0.6 * o for key, i, o in zip(found, idle, own)}
        return sorted(found, key=scores.__getitem__, reverse=True)[:length]

    def get_optimizable_events(self, length: int = 1, print_enable: bool = True) -> list[EventKey]:
        """rank_events(length), printed with where in the program they are."""
        found = self.rank_events(length)
        if print_enable:
            lines = ["Optimizable events:\n" if found else "No events to optimize\n"]
            for key in found:
                share = f"{self.metrics[key].fraction_idle_time * 100:.2f}%"
                rule = "-" * 80
                lines.append(
                    f"{rule}\nEvent:                {key.event}\nSource code location: {source_code_location(key.event)}\n"
                    f"Percentage idle time: {share}\n{rule}"
                )
            print("\n".join(lines))
        return found


def _is_launch(event: Any) -> bool:
    return bool(event.device_type() == DeviceType.CPU and _name(event).startswith("cudaLaunchKernel"))


def _name(event: Any) -> str:
    return str(event.name if isinstance(event.name, str) else event.name())


def _standardized(values: Sequence[float]) -> list[float]:
    """How many standard deviations each value is above their mean."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    mean = statistics.fmean(values)
    return [(value - mean) / spread if spread else 0.0 for value in values]


def index_of_first_match(
    seq: Sequence[Any], predicate: Callable[[Any], bool], start: int = 0, end: int | None = None
) -> int | None:
    """Where the first item in seq[start:end] is that fits; None for none."""
    stop = len(seq) if end is None or end >= len(seq) else end
    return next((place for place in range(start, stop) if predicate(seq[place])), None)


def argmax(
    seq: Sequence[Any], key: Callable[[Any], Any] = lambda item: item, start: int = 0, end: int | None = None
) -> int | None:
    """Where the first of the largest items in seq[start:end] is; None if there are none."""
    return max(range(start, len(seq) if end is None else end), key=lambda place: key(seq[place]), default=None)


def source_code_location(event: Any) -> str:
    """The innermost call of Python that an event stands in."""
    while event is not None:
        if _PYTHON.search(event.name):
            return str(event.name)
        event = event.parent
    return _NOWHERE
