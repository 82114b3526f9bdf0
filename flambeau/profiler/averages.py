"""Events of the profiler: one call each, and tables of their sums."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


class FunctionEvent:
    """One measured call.

    Times are microseconds, as in PyTorch: cpu_time_total with what it called, self_cpu_time_total without.
    """

    def __init__(self, name: str, start: int, parent: FunctionEvent | None, thread: int):
        self.name = self.key = name
        self.start, self.end, self.thread = start, start, thread
        self.cpu_parent = parent
        self.cpu_children: list[FunctionEvent] = []
        if parent is not None:
            parent.cpu_children.append(self)
        self.count = 1

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

    def chrome(self) -> dict[str, Any]:
        """The event in Chrome's format."""
        return {
            "ph": "X",
            "cat": "cpu_op",
            "name": self.name,
            "pid": 0,
            "tid": self.thread,
            "ts": self.start / 1e3,
            "dur": self.cpu_time_total,
        }

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name}: {self.cpu_time_total:.3f} us>"


class FunctionEventAvg:
    """The calls of one name added up."""

    def __init__(self, key: str):
        self.key = self.name = key
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0

    def add(self, event: FunctionEvent) -> None:
        """Count one more call; time inside a call of the same name counts once."""
        self.count += 1
        self.self_cpu_time_total += event.self_cpu_time_total
        above = event.cpu_parent
        while above is not None and above.name != event.name:
            above = above.cpu_parent
        if above is None:
            self.cpu_time_total += event.cpu_time_total

    @property
    def cpu_time(self) -> float:
        """Time of one call."""
        return self.cpu_time_total / self.count

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={_time(self.self_cpu_time_total)} "
            f"cpu_time={_time(self.cpu_time)} count={self.count}>"
        )


def _time(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1e3:.3f}ms" if microseconds >= 1e3 else f"{microseconds:.3f}us"


def _share(time: float, total: float) -> str:
    return "NaN" if total == 0 else f"{100 * time / total:.2f}%"


class EventList(list[Any]):
    """Events, or sums of them."""

    @property
    def self_cpu_time_total(self) -> float:
        """Time of all events, each without what it called."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, *_: Any, **__: Any) -> EventList:
        """The events of each name added up."""
        sums: dict[str, FunctionEventAvg] = {}
        for event in self:
            sums.setdefault(event.name, FunctionEventAvg(event.name)).add(event)
        return EventList(sums.values())

    def total_average(self) -> FunctionEventAvg:
        """All events added up."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.count += event.count
            total.cpu_time_total += event.cpu_time_total
            total.self_cpu_time_total += event.self_cpu_time_total
        return total

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing (compressed if the name ends in .gz)."""
        import gzip

        trace = {"traceEvents": [event.chrome() for event in self]}
        with gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w") as file:
            json.dump(trace, file)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Stacks are not recorded: raises NotImplementedError."""
        raise NotImplementedError(
            "torch.profiler.profile.export_stacks is not implemented in flambeau: use python -m cProfile"
        )

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        **_: Any,
    ) -> str:
        """Names, times and counts as text; sort_by: an attribute such as "cpu_time_total"."""
        rows = list(self)
        if sort_by is not None:
            rows.sort(
                key=lambda event: getattr(event, sort_by.replace("cuda", "cpu").replace("device", "cpu")), reverse=True
            )
        total = self.self_cpu_time_total
        width = min(max([len(event.key) for event in self] + [0]) + 4, max_name_column_width)
        heads = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
        widths = [width] + [12] * (len(heads) - 1)

        def row(cells: Iterable[str]) -> str:
            return "".join(cell.rjust(size) + "  " for cell, size in zip(cells, widths))

        line = row("-" * size for size in widths)
        lines = [header] if header else []
        lines += [line, row(heads), line]
        for event in rows[:row_limit] if row_limit >= 0 else rows:
            name = event.key if len(event.key) < width else event.key[: width - 3] + "..."
            cells = (
                _share(event.self_cpu_time_total, total),
                _time(event.self_cpu_time_total),
                _share(event.cpu_time_total, total),
                _time(event.cpu_time_total),
                _time(event.cpu_time),
                str(event.count),
            )
            lines.append(row((name, *cells)))
        return "\n".join([*lines, line, f"Self CPU time total: {_time(total)}", ""])

    def __str__(self) -> str:
        return self.table()
