"""The profiler's tree: what was measured put together, and numbers for tensors and their memory.

An event stands below what had begun and not ended in its thread. Memory has a number from when it is taken until it is given
back; what a tensor pointed to at different times, and what shares memory, has one more number in common.
Stands on flambeau.profiler.recorder's results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.profiler.recorder import Recorder
from flambeau.profiler.records import EventType, ProfilerEvent, PyCallFields, RecordScope, TorchOpFields, tensors_in

__all__ = ["build", "events_of"]


def build(recorder: Recorder) -> list[ProfilerEvent]:
    """The roots of the tree, in the order they began."""
    events = sorted(events_of(recorder), key=lambda event: event.began)
    if recorder.memory:
        _number(events)
    roots: list[ProfilerEvent] = []
    open_: dict[int, list[ProfilerEvent]] = {}
    for event in events:
        above = open_.setdefault(event.start_tid, [])
        while above and above[-1].ended < event.began:
            above.pop()
        if above:
            event.parent = above[-1]
            above[-1].children.append(event)
        else:
            roots.append(event)
        if event.ended > event.began:
            above.append(event)
    return roots


def events_of(recorder: Recorder) -> Iterator[ProfilerEvent]:
    """An event for each thing that was measured, in no order, none below another."""
    threads: dict[int, int] = {recorder.thread: 1}
    last = recorder.tick()

    def made(name: str, tag: EventType, fields: Any, began: int, ended: int, start: int, end: int, thread: int) -> ProfilerEvent:
        times = start + recorder.epoch, end + recorder.epoch
        return ProfilerEvent(name, tag, fields, began, ended, times, threads.setdefault(thread, len(threads) + 1))

    for each in recorder.events:
        if each.began:  # others are of memory
            fields = TorchOpFields(each.trace_name, each.inputs, RecordScope(each.scope), each.sequence_nr)
            ended = each.ended or last
            event = made(each.trace_name, EventType.TorchOp, fields, each.began, ended, each.start, each.end, each.thread)
            event.correlation_id, event.source = each.id, each
            fields.saved = each.saved
            yield event
    for memory in recorder.allocations:
        yield made(
            "[memory]", EventType.Allocation, memory.fields, memory.order, memory.order, memory.time, memory.time, memory.thread
        )
    if recorder.calls is not None:
        for call in recorder.calls.calls:
            tag = EventType.PyCall if call.is_python else EventType.PyCCall
            end = call.end if call.ended is not None else call.start
            yield made(call.name, tag, call.fields, call.began, call.ended or last, call.start, end, call.thread)


class _Numbers:
    """Numbers of memory, and which of it is of one tensor (union-find)."""

    def __init__(self) -> None:
        self.living: dict[int, int] = {}  # by address
        self.count = 0
        self.joined: list[int] = [0]  # by the number of the memory: one that it is joined with
        self.seen: dict[int, int] = {}  # by tensor: the memory that it was last seen with

    def fresh(self, ptr: int) -> int:
        """A number for memory at an address."""
        self.count += 1
        self.living[ptr] = self.count
        self.joined.append(self.count)
        return self.count

    def root(self, number: int) -> int:
        """The number that stands for all that this one is joined with: the lowest."""
        while self.joined[number] != number:
            self.joined[number] = number = self.joined[self.joined[number]]
        return number

    def join(self, a: int, b: int) -> None:
        """Both are of one tensor."""
        a, b = sorted((self.root(a), self.root(b)))
        self.joined[b] = a


def _number(events: list[ProfilerEvent]) -> None:
    """Give tensors and memory their numbers, in the order that they were seen in."""
    numbers = _Numbers()
    tensors, memory = [], []
    told: set[int] = set()  # modules and optimizers are looked at once, and shown in many events
    for event in events:
        fields = event.extra_fields
        if event.tag is EventType.Allocation:
            if fields.alloc_size > 0:
                fields.allocation_id = numbers.fresh(fields.ptr)
            else:
                known = numbers.living.pop(fields.ptr, None)
                if known is None:
                    known = numbers.fresh(fields.ptr)
                    del numbers.living[fields.ptr]
                fields.allocation_id = known
            memory.append(fields)
        for tensor in _tensors(fields):
            if tensor.storage_data_ptr is None or id(tensor) in told:
                continue
            told.add(id(tensor))
            known = numbers.living.get(tensor.storage_data_ptr)
            tensor.allocation_id = known if known is not None else numbers.fresh(tensor.storage_data_ptr)
            before = numbers.seen.setdefault(tensor.impl_ptr, tensor.allocation_id)
            numbers.join(before, tensor.allocation_id)
            tensors.append(tensor)
    found: dict[int, int] = {}
    for root in sorted({numbers.root(tensor.allocation_id) for tensor in tensors}):
        found[root] = len(found)
    for tensor in tensors:
        tensor.id = found[numbers.root(tensor.allocation_id)]
    shown = {tensor.allocation_id for tensor in tensors}
    for fields in memory:
        if fields.allocation_id in shown:
            fields.id = found[numbers.root(fields.allocation_id)]


def _tensors(fields: Any) -> list[Any]:
    if isinstance(fields, TorchOpFields):
        return tensors_in([*fields.inputs, *fields.saved])
    if isinstance(fields, PyCallFields):
        found: list[Any] = []
        if fields.module is not None:
            found = [x for _, p, g in fields.module.parameters for x in (p, g)]
        elif fields.optimizer is not None:
            found = [x for p, g, state in fields.optimizer.parameters for x in (p, g, *[s for _, s in state])]
        return [x for x in found if x is not None]
    return []
