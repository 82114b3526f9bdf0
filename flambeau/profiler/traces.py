"""What a profiler measured in Chrome's format: operators, memory, calls of Python, and lines from calls to their nodes of
backward passes.

Stands on flambeau.profiler.tree.
"""

from __future__ import annotations

import json
import os
import platform
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flambeau.profiler import tree
from flambeau.profiler._utils import traverse_dfs
from flambeau.profiler.averages import settings, written
from flambeau.profiler.recorder import Recorder
from flambeau.profiler.records import EventType, ProfilerEvent
from flambeau.profiler.results import structured

__all__ = ["write_trace"]

_PYTHON = (EventType.PyCall, EventType.PyCCall)
_STEP = re.compile(r"ProfilerStep#\d+$")


def write_trace(path: str, recorders: Iterable[Recorder], metadata: Mapping[str, Any], adjust_steps: bool = False) -> None:
    """Write a file for chrome://tracing, compressed if its name ends in .gz. metadata: what stands beside the events;
    adjust_steps: steps of a schedule last as long as the call that they begin in.
    """
    import gzip

    found: list[dict[str, Any]] = []
    recorders = list(recorders)
    for recorder in recorders:
        found += _events(recorder, adjust_steps)
    found += _window(recorders)
    trace = {
        "schemaVersion": 1, "deviceProperties": [], "trace_id": uuid.uuid4().hex.upper(), **metadata,
        "host_name": platform.node(), "displayTimeUnit": "ms", "baseTimeNanoseconds": 0, "traceName": path,
        "traceEvents": [*_process(), *found],
    }  # fmt: skip
    with gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w") as file:
        json.dump(trace, file)


def _process() -> Iterator[dict[str, Any]]:
    pid = os.getpid()
    for name, value in (("name", "python"), ("labels", "CPU"), ("sort_index", pid)):
        yield {"ph": "M", "name": f"process_{name}", "pid": pid, "tid": 0, "args": {name: value}}


def _window(recorders: list[Recorder]) -> list[dict[str, Any]]:
    """From when to when it was measured."""
    if not recorders:
        return []
    start = min(recorder.began + recorder.epoch for recorder in recorders) / 1e3
    end = max((recorder.ended or recorder.began) + recorder.epoch for recorder in recorders) / 1e3
    shown = {"s": "g", "ph": "i"}
    return [
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": start,
         "dur": end - start, "args": {"Op count": 0}},
        {"ph": "M", "name": "process_sort_index", "ts": start, "pid": "Spans", "tid": 0, "args": {"sort_index": 1 << 29}},
        {**shown, "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": start},
        {**shown, "name": "Record Window End", "pid": "", "tid": "", "ts": end},
    ]  # fmt: skip


def _events(recorder: Recorder, adjust_steps: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    called: dict[int, ProfilerEvent] = {}  # by the number of the node: the last call that may have made it
    calls: dict[int, int] = {}
    modules: dict[int, int] = {}
    for number, event in enumerate(traverse_dfs(tree.build(recorder))):
        place = {"pid": os.getpid(), "tid": recorder.native if event.start_tid == 1 else event.start_tid}
        shown: dict[str, Any] = {"ph": "X", "name": event.name, **place, "ts": event.start_time_ns / 1e3}
        shown["dur"] = event.duration_time_ns / 1e3
        if event.tag is EventType.Allocation:
            del shown["dur"]
            shown.update(ph="i", cat="cpu_instant_event", s="t", args=_memory(event.extra_fields))
        elif event.tag in _PYTHON:
            calls[event.id] = len(calls) + 1
            shown.update(cat="python_function", args=_python(event, calls, modules))
        else:
            shown.update(cat="user_annotation" if event.source.is_user_annotation else "cpu_op", args=_operator(event))
            if adjust_steps and _STEP.match(event.name):
                _as_its_caller(shown, event)
            sequence = event.source.sequence_nr
            if sequence >= 0 and not event.source.is_of_gradients and not event.name.startswith("autograd::"):
                called[sequence] = event
            elif event.source.is_of_gradients and sequence in called and settings.links:
                ends = {"id": len(lines) // 2 + 1, **place, "cat": "fwdbwd", "name": "fwdbwd"}
                start = called.pop(sequence).start_time_ns / 1e3
                lines += [{"ph": "s", **ends, "ts": start}, {"ph": "f", **ends, "ts": shown["ts"], "bp": "e"}]
        shown["args"]["Ev Idx"] = number
        found.append(shown)
    return found + lines


def _memory(fields: Any) -> dict[str, Any]:
    return {
        "Total Reserved": 0, "Total Allocated": fields.total_allocated, "Bytes": fields.alloc_size, "Device Id": -1,
        "Device Type": 0, "Addr": fields.ptr,
    }  # fmt: skip


def _python(event: ProfilerEvent, calls: dict[int, int], modules: dict[int, int]) -> dict[str, Any]:
    above = event.parent
    while above is not None and above.tag not in _PYTHON:
        above = above.parent
    found: dict[str, Any] = {"Python parent id": None if above is None else calls[above.id], "Python id": calls[event.id]}
    module = getattr(event.extra_fields, "module", None)
    if module is not None:
        found["Python module id"] = modules.setdefault(module.self_ptr, len(modules))
    return found


def _operator(event: ProfilerEvent) -> dict[str, Any]:
    source = event.source
    found: dict[str, Any] = {"External id": source.id, "Record function id": source.record_function_id}
    if source.sequence_nr >= 0:
        found["Sequence number"] = source.sequence_nr
        found["Fwd thread id"] = int(source.is_of_gradients or event.name.startswith("autograd::"))
    if source.input_dtypes:
        if source.concrete_inputs:
            found["Concrete Inputs"] = ["" if x is None else str(x) for x in source.concrete_inputs]
        found["Input type"] = source.input_dtypes
        found["Input Strides"] = [structured(x, "strides") for x in source.inputs]
        found["Input Dims"] = [structured(x, "sizes") for x in source.inputs]
    found.update(written(source.kwinputs))
    if source.stack:
        found["Call stack"] = ";".join(source.stack)
    return found


def _as_its_caller(shown: dict[str, Any], event: ProfilerEvent) -> None:
    above = event.parent
    while above is not None and above.tag is not EventType.PyCall:
        above = above.parent
    if above is not None:
        shown["ts"], shown["dur"] = above.start_time_ns / 1e3, above.duration_time_ns / 1e3
