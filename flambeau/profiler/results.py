"""What a profiler measured, as torch._C._autograd._ProfilerResult shows it: a list of events, and the tree.

Stands on flambeau.profiler.tree.
"""

from __future__ import annotations

from typing import Any

from flambeau.profiler.averages import DeviceType, FunctionEvent
from flambeau.profiler.recorder import Recorder
from flambeau.profiler.records import EventType, ProfilerEvent
from flambeau.profiler.tree import build, events_of

__all__ = ["KinetoEvent", "Results", "structured"]


class KinetoEvent:
    """An event as torch._C._autograd._KinetoEvent shows it: by methods."""

    def __init__(self, event: ProfilerEvent) -> None:
        source = event.source or FunctionEvent(event.name, 0, None, event.start_tid)
        for name, value in _answers(event, source).items():
            setattr(self, name, _constant(value))


def _constant(value: Any) -> Any:
    return lambda: value


def _answers(event: ProfilerEvent, source: FunctionEvent) -> dict[str, Any]:
    """What a KinetoEvent answers, by the name of the method."""
    memory = event.tag is EventType.Allocation
    kind = "user_annotation" if source.is_user_annotation else "cpu_op"
    return {
        "name": event.name, "start_ns": event.start_time_ns, "end_ns": event.end_time_ns,
        "duration_ns": event.duration_time_ns, "device_type": DeviceType.CPU, "device_index": -1 if memory else 0,
        "device_resource_id": event.start_tid, "correlation_id": event.correlation_id, "linked_correlation_id": 0,
        "external_id": event.correlation_id, "start_thread_id": event.start_tid, "end_thread_id": event.start_tid,
        "fwd_thread_id": max(source.fwd_thread, 0), "sequence_nr": source.sequence_nr, "scope": source.scope,
        "shapes": source.input_shapes, "dtypes": source.input_dtypes, "concrete_inputs": source.concrete_inputs,
        "kwinputs": source.kwinputs, "stack": source.stack, "is_async": source.is_async, "flops": source.flops,
        "nbytes": event.extra_fields.alloc_size if memory else 0, "is_user_annotation": source.is_user_annotation,
        "is_python_function": False, "is_hidden_event": False, "flow_id": 0, "flow_type": 0, "flow_start": False,
        "overload_name": "", "extra_meta": {}, "metadata_json": "", "cuda_elapsed_us": -1, "privateuse1_elapsed_us": -1,
        "activity_type": "cpu_instant_event" if memory else kind, "python_id": -1, "python_parent_id": -1,
        "python_module_id": -1,
        "structured_input_shapes": [structured(x, "sizes") for x in source.inputs],
        "structured_input_strides": [structured(x, "strides") for x in source.inputs],
    }  # fmt: skip


def structured(value: Any, what: str) -> list[Any]:
    """Sizes or strides of an input; a list of them of a list of tensors; [] of what is none."""
    return [structured(x, what) for x in value] if isinstance(value, list) else getattr(value, what, [])


class Results:
    """What a profiler measured: `events`, and `experimental_event_tree`, which is built when it is first asked for."""

    def __init__(self, recorders: list[Recorder]) -> None:
        self._recorders = recorders
        self._tree: list[ProfilerEvent] | None = None
        self._events: list[KinetoEvent] | None = None

    def experimental_event_tree(self) -> list[ProfilerEvent]:
        """The roots, in the order they began."""
        if self._tree is None:
            self._tree = [root for recorder in self._recorders for root in build(recorder)]
        return self._tree

    def events(self) -> list[KinetoEvent]:
        """Operators and memory, in the order they began."""
        if self._events is None:
            found = [e for recorder in self._recorders for e in events_of(recorder)
                     if e.tag in (EventType.TorchOp, EventType.Allocation)]  # fmt: skip
            self._events = [KinetoEvent(event) for event in sorted(found, key=lambda event: event.start_time_ns)]
        return self._events

    def trace_start_ns(self) -> int:
        """When it began, since the epoch."""
        return min((recorder.began + recorder.epoch for recorder in self._recorders), default=0)
