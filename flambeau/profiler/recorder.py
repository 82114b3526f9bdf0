"""What the profiler records: an event for every operator, by PyTorch's name, every node of a backward pass, every stretch.

A public function that is an operator of PyTorch's is an event. Where PyTorch computes it by others, and so does this package,
those are events inside of it; where it is one kernel here, what its body calls isn't shown. Any other public function is Python
code around operators, and only those are events. Beside them: memory that is taken and given back, and calls of Python functions.
Stands on core.modes.observing and the names of dispatcher.dispatch_modes; flambeau.profiler.tree puts it together.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from itertools import count
from types import FunctionType
from typing import Any, NamedTuple

from flambeau.base.device import device as Device
from flambeau.base.layout import contiguous_format
from flambeau.core.autograd.node import AccumulateGrad, held_gradient, next_sequence
from flambeau.core.modes.modes import active, local
from flambeau.core.modes.observing import Given, Observer
from flambeau.core.tensor.tensor import Tensor
from flambeau.profiler.allocations import Identities, Watch
from flambeau.profiler.averages import FunctionEvent
from flambeau.profiler.records import AllocationFields, RecordScope
from flambeau.profiler.threads import ThreadCalls

__all__ = ["Allocation", "Recorder"]

_INDEXING = (Tensor.__getitem__, Tensor.__setitem__)
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_ids = count(1).__next__  # of all profilers' events
_EVALUATION = "autograd::engine::evaluate_function: "


class Allocation(NamedTuple):
    """Memory that was taken or given back: when, in which order, and by which thread."""

    fields: AllocationFields
    order: int
    time: int
    thread: int


class Recorder(Observer):
    """Measures what a thread computes. Each event's beginning and end has a number of one count, for times may be equal."""

    def __init__(self, shapes: bool = False, memory: bool = False, stacks: bool = False, flops: bool = False) -> None:
        self.events: list[FunctionEvent] = []
        self.open: list[FunctionEvent] = []
        self.shapes, self.memory, self.stacks, self.flops = shapes, memory, stacks, flops
        self.tick = count(1).__next__
        self.identities = Identities()
        self.allocations: list[Allocation] = []
        self.watch = Watch(self._held) if memory else None
        self.calls: ThreadCalls | None = None
        self.listener: Any = None  # an execution trace that is told of the events
        self.profiles = False  # whether a profiler is behind it
        self.thread, self.native = threading.get_ident(), threading.get_native_id()
        #: What to add to times to have those since the epoch, and when it began and ended.
        self.epoch = time.time_ns() - time.perf_counter_ns()
        self.began = self.ended = 0
        self._apart = False  # whether a body takes its operators one by one, instead of several in a kernel
        self._evaluation: FunctionEvent | None = None

    def __enter__(self) -> Any:
        _names()  # loads what knows them, which takes a while the first time
        if self.watch is not None:
            self.watch.start()
        self.began = time.perf_counter_ns()
        entered = super().__enter__()
        if self.stacks:
            self.calls = ThreadCalls(self.tick, self.identities)
            self.calls.start()
        return entered

    def __exit__(self, *exception: object) -> None:
        if self.calls is not None:
            self.calls.stop()
        super().__exit__(*exception)
        if self.watch is not None:
            self.watch.stop()
        for event in reversed(self.open):
            self.finish(event)
        self.ended = time.perf_counter_ns()

    def start(self, name: str) -> FunctionEvent:
        """An event begins."""
        parent = self.open[-1] if self.open else None
        event = FunctionEvent(name, time.perf_counter_ns(), parent, self.thread, _ids())
        event.began = self.tick()
        self.open.append(event)
        self.events.append(event)
        if self.stacks:
            event.stack = _program()
        if self.listener is not None:
            self.listener.begins(event)
        return event

    def _given(self, event: FunctionEvent, values: Sequence[Any]) -> None:
        """What an event is given."""
        if self.shapes and values:
            event.take(values, self.identities)
        if self.listener is not None:
            self.listener.given(event, values, self.identities.of)

    def finish(self, event: FunctionEvent, end: int | None = None) -> None:
        """An event ends, and what was left open inside of it."""
        event.end, event.ended = end or time.perf_counter_ns(), self.tick()
        if event in self.open:
            place = self.open.index(event)
            for inside in reversed(self.open[place:]):
                inside.end, inside.ended = event.end, event.ended
                if self.listener is not None:
                    self.listener.ends(inside)
            del self.open[place:]

    def _held(self, ptr: int, size: int, total: int) -> None:
        """Memory is taken or given back: a part of the innermost event of this thread, or an event of its own."""
        now, thread = time.perf_counter_ns(), threading.get_ident()
        fields = AllocationFields(ptr, size, total, Device("cpu"))
        self.allocations.append(Allocation(fields, self.tick(), now, thread))
        if self.open and thread == self.thread:
            self.open[-1].self_cpu_memory_usage += size
            return
        event = FunctionEvent("[memory]", now, None, thread, _ids())
        event.self_cpu_memory_usage = size
        self.events.append(event)

    def begin(self, name: str, given: Given | None = None) -> Callable[[], None]:
        """A stretch of the program; gives what ends it."""
        event = self.start(name)
        event.is_user_annotation = given is None or not given.is_operator
        event.scope = RecordScope.USER_SCOPE.value
        if given is not None:
            self._given(event, given.values)
            if self.shapes:
                event.kwinputs = dict(given.keywords)
        if name.startswith("ProfilerStep#"):
            event.name = "ProfilerStep*"
        around = super().begin(name, given)
        if around is None:
            return functools.partial(self.finish, event)

        def end() -> None:
            self.finish(event)
            around()

        return end

    def aside(self, name: str) -> Callable[[], None]:
        """What goes on beside the program; gives what ends it, on any thread."""
        event = self.start(name)
        self.open.pop()
        event.is_async = True
        event.end, event.ended = event.start, self.tick()

        def end() -> None:
            event.end = time.perf_counter_ns()

        return end

    def _measure(self, event: FunctionEvent, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of a call inside an event."""
        end = None
        try:
            result = call(*args, **kwargs)
            end = time.perf_counter_ns()
            if event.sequence_nr >= 0 and not event.is_of_gradients:
                made = getattr(next(_inputs().tensors([result]), None), "_node", None)
                event.sequence_nr = max(event.sequence_nr, _number(made) if made is not None else -1)
            if self.watch is not None:
                self.watch.look(_inputs().tensors([result]))
            if self.listener is not None:
                self.listener.gives(event, result, self.identities.of)
        finally:
            self.finish(event, end)
        return result

    # ---- calls

    def called(self, function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A public function: an event, or what is called inside of it."""
        name, opened = _shown(function)
        if name in _BY_ARGUMENTS:
            name = _BY_ARGUMENTS[name](name, *args, **kwargs)
        if not name or (self.open and self.open[-1].name == f"aten::{name}"):  # or the method around the function
            return (self._one_by_one if function in _INDEXING else self.go_on)(function, own, args, kwargs)
        looks = self.shapes or self.flops or self.listener is not None
        given, schema = _inputs().bound(function, name, args, kwargs) if looks else ([], None)
        if self.watch is not None:
            self.watch.look(_inputs().tensors([given or args]))
        event = self.start(f"aten::{name}")
        event.sequence_nr = self._sequence(args, kwargs)
        event.schema = "" if schema is None else str(schema)
        if self.flops and schema is not None:
            event.flops = _flops()(name, given)
        self._given(event, given)
        steps = None if self.outer is not None else _steps()(name, args, kwargs, int(self._apart))
        if steps is not None:
            return self._measure(event, steps, *args, **kwargs)
        answer = self._one_by_one if opened else self.go_on if local.dispatch_modes else self._closed
        return self._measure(event, answer, function, own, args, kwargs)

    def _sequence(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """The number that the operator's node of the graph has if it gets one; -1 where it can't."""
        if not local.grad or self._in_steps() or next(_inputs().tensors([args, *kwargs.values()]), None) is None:
            return -1
        return _next_sequence()

    def _in_steps(self) -> bool:
        return bool(self.open) and self.open[-1].name[6:] in _steps().__globals__["STEPS"]

    def _one_by_one(self, *call: Any) -> Any:
        if self._apart:
            return self.go_on(*call)
        self._apart = True
        active.enter()
        try:
            return self.go_on(*call)
        finally:
            active.leave()
            self._apart = False

    def _closed(self, *call: Any) -> Any:
        return self._together(self.alone, *call)

    def _together(self, call: Callable[..., Any], *args: Any) -> Any:
        """call(*args) as it is without a profiler: several operators may be one kernel."""
        if not self._apart:
            return call(*args)
        self._apart = False
        active.leave()
        try:
            return call(*args)
        finally:
            active.enter()
            self._apart = True

    def operator(self, name: str, call: Callable[..., Any], *args: Any) -> Any:
        """An operator that a program defines; what it is made of is seen as well."""
        if name.startswith("profiler::"):  # the ends of a block are no part of it
            return super().operator(name, call, *args)
        event = self.start(name)
        self._given(event, args[1] if len(args) > 1 and isinstance(args[1], tuple) else args)
        return self._measure(event, super().operator, name, call, *args)

    # ---- backward passes

    def evaluates(self, node: Any) -> None:
        """The engine's turn to a node ends that of the one before."""
        super().evaluates(node)
        if self._evaluation is not None:
            self.finish(self._evaluation)
        self._evaluation = None if node is None else self.start(_EVALUATION + node.name())
        if self._evaluation is not None:
            self._evaluation.sequence_nr = _number(node)

    def applies(self, node: Any, call: Callable[..., Any], *args: Any) -> Any:
        """A node of the graph."""
        event = self.start(node.name())
        event.sequence_nr, event.scope = _number(node), RecordScope.BACKWARD_FUNCTION.value
        event.is_of_gradients = True
        self._given(event, next((x for x in args if isinstance(x, (list, tuple))), ()))
        if self.shapes:
            saved = _inputs().tensors([getattr(node, "saved", None)])
            event.saved = [_inputs().recorded(tensor, self.identities) for tensor in saved]
        leaf = node.reference() if isinstance(node, AccumulateGrad) else None
        if leaf is None or held_gradient(leaf) is not None:
            return self._measure(event, self._together, super().applies, node, call, *args)
        return self._measure(event, self._first_gradient, leaf, super().applies, node, call, *args)

    def _first_gradient(self, leaf: Tensor, applied: Callable[..., Any], *args: Any) -> Any:
        """A leaf gets its first gradient: what has arrived becomes its own, unless that was copied."""
        inside = len(self.open[-1].cpu_children)
        result = self._together(applied, *args)
        given = held_gradient(leaf)
        if isinstance(given, Tensor) and len(self.open[-1].cpu_children) == inside:
            events = [self.start(name) for name in ("aten::detach", "detach")]
            for event in events:
                self._given(event, [given])
            for event in reversed(events):
                self.finish(event)
        return result


def _number(node: Any) -> int:
    """The number of a node; -1 of a leaf's."""
    return -1 if node.name().endswith("AccumulateGrad") else int(node.sequence)


def _next_sequence() -> int:
    """The number of the node that is made next."""
    made: Any = next_sequence.__self__  # type: ignore[attr-defined]
    return int(repr(made).removeprefix("count(").removesuffix(")"))  # Python 3.14 has no other way to look at it


def _program() -> list[str]:
    """The program's calls, innermost first, without this package's."""
    return [
        f"{frame.f_code.co_filename}({line}): {frame.f_code.co_name}"
        for frame, line in traceback.walk_stack(sys._getframe(1))
        if not frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_code.co_filename[0] != "<"
    ]


def _names() -> Any:
    from flambeau.dispatcher import dispatch_modes, public_names

    return public_names, dispatch_modes


@functools.cache
def _steps() -> Any:
    from flambeau.profiler.steps import in_steps

    return in_steps


@functools.cache
def _flops() -> Any:
    from flambeau.profiler.flops import flops

    return flops


@functools.cache
def _inputs() -> Any:
    from flambeau.profiler import inputs

    return inputs


@functools.cache
def _shown(function: FunctionType) -> tuple[str, bool]:
    """The operator that a public function is, "" for none, and whether what it is made of is shown."""
    public_names, dispatch_modes = _names()
    name = public_names.called(function) or function.__name__ * (function.__name__ in _BY_ARGUMENTS)
    return name, dispatch_modes.made_of_others(function, name)


def _contiguous(name: str, tensor: Any, memory_format: Any = contiguous_format) -> str:
    return "" if tensor.is_contiguous(memory_format=memory_format) else name


def _lift(name: str, data: Any = None, *_: Any, **__: Any) -> str:
    return "" if isinstance(data, Tensor) else "lift_fresh"


def _unique(
    name: str, input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> str:
    return name if dim is None else "unique_dim"


def _maximum(name: str, *_: Any, return_indices: bool = False, **__: Any) -> str:
    return name + "_with_indices" * bool(return_indices)


def _upsampling(
    name: str, input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", *_: Any, **__: Any
) -> str:
    dims = input.dim() - 2
    linear = {"linear": "linear1d", "bilinear": "bilinear2d", "trilinear": "trilinear3d", "bicubic": "bicubic2d"}
    made = linear.get(mode) or f"{mode.replace('nearest-exact', 'nearest_exact')}{dims}d"
    return f"_upsample_{made}" if mode == "nearest-exact" else f"upsample_{made}"


#: Names that follow from a call's arguments; "" where PyTorch computes nothing.
_BY_ARGUMENTS: dict[str, Callable[..., str]] = {
    "contiguous": _contiguous,
    "as_tensor": _lift,
    "_unique2": _unique,
    "interpolate": _upsampling,
    "max_pool1d": _maximum,
    "max_pool2d": _maximum,
    "max_pool3d": _maximum,
}
