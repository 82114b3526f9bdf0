"""What the profiler records: an event for every operator, by PyTorch's name, every node of a backward pass, every stretch.

A public function that is an operator of PyTorch's is an event. Where PyTorch computes it by others, and so does this package,
those are events inside of it; where it is one kernel here, what its body calls isn't shown. Any other public function is Python
code around operators, and only those are events. Stands on core.modes.observing and the names of dispatcher.dispatch_modes.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any

from flambeau.base.layout import contiguous_format
from flambeau.core.modes.modes import active
from flambeau.core.modes.observing import Given, Observer
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import builtin_schemas
from flambeau.profiler.averages import FunctionEvent

__all__ = ["Recorder"]

_INDEXING = (Tensor.__getitem__, Tensor.__setitem__)
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_EVALUATION = "autograd::engine::evaluate_function: "


class Recorder(Observer):
    """Measures what a thread computes."""

    def __init__(self, shapes: bool = False, memory: bool = False, stacks: bool = False) -> None:
        self.events: list[FunctionEvent] = []
        self.open: list[FunctionEvent] = []
        self.shapes, self.memory, self.stacks = shapes, memory, stacks
        self._apart = False     # whether a body takes its operators one by one, instead of several in a kernel
        self._evaluation: FunctionEvent | None = None

    def __enter__(self) -> Any:
        _names()    # loads what knows them, which takes a while the first time
        return super().__enter__()

    def start(self, name: str) -> FunctionEvent:
        """An event begins."""
        parent = self.open[-1] if self.open else None
        event = FunctionEvent(name, time.perf_counter_ns(), parent, threading.get_ident(), len(self.events) + 1)
        self.open.append(event)
        self.events.append(event)
        if self.stacks:
            event.stack = _program()
        return event

    def finish(self, event: FunctionEvent) -> None:
        """An event ends, and what was left open inside of it."""
        event.end = time.perf_counter_ns()
        if event in self.open:
            del self.open[self.open.index(event) :]

    def begin(self, name: str, given: Given | None = None) -> Callable[[], None]:
        """A stretch of the program; gives what ends it."""
        event = self.start(name)
        event.is_user_annotation = given is None or not given.is_operator
        if given is not None and self.shapes:
            event.input_shapes = [list(x.shape) if isinstance(x, Tensor) else [] for x in given.values]
            event.kwinputs = dict(given.keywords)
        if name.startswith("ProfilerStep#"):
            event.name = "ProfilerStep*"
        return functools.partial(self.finish, event)

    def aside(self, name: str) -> Callable[[], None]:
        """What goes on beside the program; gives what ends it, on any thread."""
        event = self.start(name)
        self.open.pop()
        event.end = event.start

        def end() -> None:
            event.end = time.perf_counter_ns()
        return end

    def _measure(self, event: FunctionEvent, given: Sequence[Any], call: Callable[..., Any], *args: Any) -> Any:
        """call(*args) inside an event; `given`: the arguments of the operator."""
        try:
            result = call(*args)
        finally:
            self.finish(event)
        if self.memory:
            inside = frozenset().union(*[child.made for child in event.cpu_children])
            held = {id(x._storage) for x in _tensors(given)}
            made = {id(x._storage): x._storage.nbytes() for x in _tensors([result])}
            event.self_cpu_memory_usage = sum(size for at, size in made.items() if at not in held and at not in inside)
            event.made = inside.union(made)
        return result

    # ---- calls

    def called(self, function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A public function: an event, or what is called inside of it."""
        name, opened = _shown(function)
        if name in _BY_ARGUMENTS:
            name = _BY_ARGUMENTS[name](name, *args, **kwargs)
        if not name or (self.open and self.open[-1].name == f"aten::{name}"):   # or the method around the function
            return (self._one_by_one if function in _INDEXING else self.go_on)(function, own, args, kwargs)
        shapes = _shapes(name, args, kwargs) if self.shapes else []
        event = self.start(f"aten::{name}")
        event.input_shapes = shapes
        answer = self.go_on if opened else self._closed
        return self._measure(event, [*args, *kwargs.values()], answer, function, own, args, kwargs)

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
        if name.startswith("profiler::"):   # the ends of a block are no part of it
            return super().operator(name, call, *args)
        return self._measure(self.start(name), args, super().operator, name, call, *args)

    # ---- backward passes

    def evaluates(self, node: Any) -> None:
        """The engine's turn to a node ends that of the one before."""
        super().evaluates(node)
        if self._evaluation is not None:
            self.finish(self._evaluation)
        self._evaluation = None if node is None else self.start(_EVALUATION + node.name())

    def applies(self, node: Any, call: Callable[..., Any], *args: Any) -> Any:
        """A node of the graph."""
        return self._measure(self.start(node.name()), args, self._together, super().applies, node, call, *args)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from _tensors(x)


def _shapes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[list[int]]:
    """The shape of every argument in the order of the operator's schema; [] for those that are no tensors."""
    from flambeau.dispatcher import calling, dispatch_modes

    found = dispatch_modes.resolve(name, args, kwargs) if builtin_schemas.overloads_of(f"aten::{name}") else None
    given: Sequence[Any] = [*args, *kwargs.values()]
    if found is not None:
        given = calling.bind(found[0]._schema, found[1], found[2], numbers=True)
    return [list(x.shape) if isinstance(x, Tensor) else [] for x in given]


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
    "contiguous": _contiguous, "as_tensor": _lift, "_unique2": _unique, "interpolate": _upsampling,
    "max_pool1d": _maximum, "max_pool2d": _maximum, "max_pool3d": _maximum,
}
