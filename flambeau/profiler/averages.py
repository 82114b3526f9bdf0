"""Events of the profiler: one call each, and tables of their sums."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


class DeviceType(enum.Enum):
    """Where an event took place."""

    CPU = 0
    CUDA = 1


class Settings:
    """What torch._C._profiler switches for all profilers."""

    concrete_inputs = True  # events have the arguments that are no tensors
    links = True  # traces link calls with their nodes of backward passes


settings = Settings()


class Interval(NamedTuple):
    """When something began and ended, in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """How long it took."""
        return self.end - self.start


class FunctionEvent:
    """One measured call.

    Times are microseconds, as in PyTorch: cpu_time_total with what it called, self_cpu_time_total without. Where the profiler was
    asked for them, input_shapes has the shape of every argument of the operator ([] for what is no tensor), stack the program's
    calls, innermost first, and cpu_memory_usage the bytes that the operator's results hold and its arguments didn't.
    """

    def __init__(self, name: str, start: int, parent: FunctionEvent | None, thread: int, number: int = 0):
        self.name = self.trace_name = name
        self.id = number
        self.start, self.end, self.thread = start, start, thread
        self.cpu_parent = parent
        self.cpu_children: list[FunctionEvent] = []
        if parent is not None:
            parent.cpu_children.append(self)
        self.count = 1
        self.input_shapes: list[list[int]] = []
        self.kwinputs: dict[str, Any] = {}
        self.stack: list[str] = []
        self.self_cpu_memory_usage = 0
        self.is_user_annotation = False
        self.device_type = DeviceType.CPU
        self.began = self.ended = 0  # the order of beginnings and ends
        self.inputs: list[Any] = []  # as events of the tree have them
        self.saved: list[Any] = []  # of a node of a backward pass
        self.concrete_inputs: list[Any] = []
        self.input_dtypes: list[str] = []
        self.scope = 0
        self.sequence_nr = self.node_id = self.fwd_thread = -1
        self.is_async = self.is_remote = self.is_legacy = self.is_of_gradients = False
        self.is_python_function = False
        self.use_device: str | None = None
        self.record_function_id = 0  # that of an execution trace
        self.schema = ""
        self.device_index, self.flops, self.overload_name = 0, 0, ""

    def take(self, given: Sequence[Any], identities: Any) -> None:
        """What the operator is given."""
        from flambeau.profiler import inputs

        self.inputs = [inputs.recorded(x, identities) for x in given]
        self.input_shapes = inputs.shapes(given)
        self.input_dtypes = [inputs.types(x) for x in given]
        if settings.concrete_inputs:
            self.concrete_inputs = [inputs.concrete(x) for x in given]

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def time_range(self) -> Interval:
        """From begin to end."""
        return Interval(self.start / 1e3, self.end / 1e3)

    @property
    def cpu_time_total(self) -> float:
        """Time from begin to end."""
        return (self.end - self.start) / 1e3

    @property
    def self_cpu_time_total(self) -> float:
        """Time without that of the calls inside."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def cpu_time(self) -> float:
        """Time of one call."""
        return self.cpu_time_total / self.count

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes, with those of the calls inside."""
        return self.self_cpu_memory_usage + sum(child.cpu_memory_usage for child in self.cpu_children)

    def chrome(self) -> dict[str, Any]:
        """The event in Chrome's format."""
        event = {
            "ph": "X",
            "cat": "user_annotation" if self.is_user_annotation else "cpu_op",
            "name": self.trace_name,
            "pid": os.getpid(),
            "tid": self.thread,
            "ts": self.start / 1e3,
            "dur": self.cpu_time_total,
        }
        details: dict[str, Any] = {"External id": self.id}
        if self.input_shapes:
            details["Input Dims"] = self.input_shapes
        details.update(written(self.kwinputs))
        if self.stack:
            details["Call stack"] = ";".join(self.stack)
        return {**event, "args": details}

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={_time(self.cpu_time)} start_us={self.start / 1e3} "
            f"end_us={self.end / 1e3} cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


def written(keywords: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name as PyTorch's traces have them: a stream by its number only, texts without quotation marks in them."""
    return {
        key: "None" if isinstance(value, str) and '"' in value else value
        for key, value in keywords.items()
        if key != "stream" or isinstance(value, int)
    }


class FunctionEventAvg:
    """The calls of one name, of one of its shapes of arguments or of one place in the program, added up."""

    def __init__(self, key: str, input_shapes: Any = "", stack: Sequence[str] = ()):
        self.key = self.name = key
        self.input_shapes, self.stack = input_shapes, list(stack)
        self.count = self.flops = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.is_user_annotation = False
        self.device_type = DeviceType.CPU

    def add(self, event: FunctionEvent) -> None:
        """Count one more call; time inside a call of the same name counts once."""
        self.count += 1
        self.flops += event.flops
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        above = event.cpu_parent
        while above is not None and above.name != event.name:
            above = above.cpu_parent
        if above is None:
            self.cpu_time_total += event.cpu_time_total
            self.cpu_memory_usage += event.cpu_memory_usage
        self.is_user_annotation = event.is_user_annotation

    @property
    def cpu_time(self) -> float:
        """Time of one call."""
        return self.cpu_time_total / self.count

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={_time(self.self_cpu_time_total)} "
            f"cpu_time={_time(self.cpu_time)} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"count={self.count}>"
        )


def _time(microseconds: float, unit: str | None = None) -> str:
    if unit == "s" or (unit is None and microseconds >= 1e6):
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1e3:.3f}ms" if unit == "ms" or (unit is None and microseconds >= 1e3) else f"{microseconds:.3f}us"


def _cut(text: str, width: int) -> str:
    return text if len(text) < width else text[: width - 3] + "..."


def _bytes(count: int) -> str:
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def _share(time: float, total: float) -> str:
    return "NaN" if total == 0 else f"{100 * time / total:.2f}%"


_SPACELESS = str.maketrans(" ;\t\n", "____")


class EventList(list[Any]):
    """Events, or sums of them; whether memory and stacks were measured, which tables have columns for."""

    def __init__(self, events: Iterable[Any] = (), profile_memory: bool = False, with_stack: bool = False) -> None:
        super().__init__(events)
        self.profile_memory, self.with_stack = profile_memory, with_stack

    @property
    def self_cpu_time_total(self) -> float:
        """Time of all events, each without what it called."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """The events of each name added up; apart by the shapes of their arguments, or by that many of the program's calls."""
        sums: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shapes else ""
            stack = event.stack[:group_by_stack_n] if group_by_stack_n > 0 else ()
            key = (event.key, str(shapes), *stack)
            found = sums.get(key)
            if found is None:
                found = sums[key] = FunctionEventAvg(event.key, shapes, stack)
            found.add(event)
        return EventList(sums.values(), self.profile_memory, self.with_stack)

    def total_average(self) -> FunctionEventAvg:
        """All events added up."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.count += event.count
            total.cpu_time_total += event.cpu_time_total
            total.self_cpu_time_total += event.self_cpu_time_total
            total.cpu_memory_usage += event.cpu_memory_usage
        return total

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing (compressed if the name ends in .gz)."""
        import gzip

        process = {"ph": "M", "name": "process_name", "pid": os.getpid(), "tid": 0, "args": {"name": "python"}}
        trace = {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": [process, *[event.chrome() for event in self]]}
        with gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w") as file:
            json.dump(trace, file)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the program's calls behind every event and a figure, as flame graphs read them. ValueError for another metric;
        AssertionError where the profiler wasn't asked for stacks.
        """
        assert self.with_stack, "export_stacks() requires with_stack=True"
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        with open(path, "w") as file:
            for event in self:
                figure = int(getattr(event, metric))
                if event.stack and figure > 0:
                    calls = ";".join(call.translate(_SPACELESS) for call in reversed(event.stack))
                    file.write(f"{calls} {figure}\n")

    @staticmethod
    def supported_export_stacks_metrics() -> list[str]:
        """What export_stacks takes for a metric: time on the CPU."""
        return ["self_cpu_time_total"]

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Names, times and counts as text; sort_by: an attribute such as "cpu_time_total"; time_unit: "s", "ms" or "us"."""
        rows = [event for event in self if not top_level_events_only or getattr(event, "cpu_parent", None) is None]
        if not rows:
            return ""
        if sort_by is not None:
            metric = sort_by.replace("cuda", "cpu").replace("device", "cpu")
            rows.sort(key=lambda event: getattr(event, metric), reverse=True)
        total = self.self_cpu_time_total
        columns: list[tuple[str, int, Callable[[Any], str]]] = [
            ("Self CPU %", 12, lambda event: _share(event.self_cpu_time_total, total)),
            ("Self CPU", 12, lambda event: _time(event.self_cpu_time_total, time_unit)),
            ("CPU total %", 12, lambda event: _share(event.cpu_time_total, total)),
            ("CPU total", 12, lambda event: _time(event.cpu_time_total, time_unit)),
            ("CPU time avg", 12, lambda event: _time(event.cpu_time, time_unit)),
        ]
        if self.profile_memory:
            columns += [
                ("CPU Mem", 12, lambda event: _bytes(event.cpu_memory_usage)),
                ("Self CPU Mem", 12, lambda event: _bytes(event.self_cpu_memory_usage)),
            ]
        columns.append(("# of Calls", 12, lambda event: str(event.count)))
        if any(event.input_shapes for event in self):
            wide = min(max(len(str(event.input_shapes)) for event in self) + 4, max_shapes_column_width)
            columns.append(("Input Shapes", wide, lambda event: _cut(str(event.input_shapes), wide)))
        placed = any(event.stack for event in self)
        if placed:
            wide = min(max(len(call) for event in self for call in event.stack or [""]) + 4, max_src_column_width)
            columns.append(("Source Location", wide, lambda event: _cut(event.stack[0] if event.stack else "", wide)))
        counted = [event.flops for event in self if event.flops]
        if counted:
            from flambeau.profiler.flops import scaled

            unit, scale = scaled(min(counted))
            columns.append((f"Total {unit}", 12, lambda event: f"{event.flops / scale:.3f}" if event.flops else "--"))
        width = min(max(len(event.key) for event in self) + 4, max_name_column_width)
        columns.insert(0, ("Name", width, lambda event: _cut(event.key, width)))

        def row(cells: Iterable[str]) -> str:
            return "".join(cell.rjust(size) + "  " for cell, (_, size, _) in zip(cells, columns))

        line = row("-" * size for _, size, _ in columns)
        lines = [header] if header else []
        lines += [line, row(head for head, _, _ in columns), line]
        for event in rows[:row_limit] if row_limit >= 0 else rows:
            lines.append(row(cell(event) for _, _, cell in columns))
            if placed:  # the calls behind the first one, each in a row of its own
                at = [head for head, _, _ in columns].index("Source Location")
                lines += [row([""] * at + [_cut(call, columns[at][1])]) for call in event.stack[1:]]
        return "\n".join([*lines, line, f"Self CPU time total: {_time(total, time_unit)}", ""])

    def __str__(self) -> str:
        return self.table()
