"""Calls of Python functions while a profiler measures with stacks: the program's, and those of the parts of this package that
are written as programs are.

What stands for compiled code, the layers below, isn't shown; the public functions that it is called by are, as calls of functions
that are not written in Python. Calls of modules say which one, the end of an optimizer's step which one that was.
Stands on sys.setprofile; used by flambeau.profiler.threads.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from itertools import count
from types import CodeType, FrameType
from typing import Any

from flambeau.core.operator.arguments import LOOKING
from flambeau.profiler.allocations import Identities
from flambeau.profiler.records import FrameState, ModuleInfo, OptimizerInfo, PyCallFields, PyCCallFields, TensorMetadata

__all__ = ["Call", "Calls", "Objects"]

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
#: The folders of the package whose functions stand for compiled code, and those that measure.
_HIDDEN = tuple(_PACKAGE + name + os.sep for name in (
    "base", "ir", "codegen", "core", "ops", "transform", "dispatcher", "profiler", "_C", "compile"))  # fmt: skip
_LIBRARY = os.path.dirname(os.__file__) + os.sep
#: Compiled code; the program's, and what is written as that is; Python's own, shown where such code calls it; public functions.
_HIDDEN_CODE, _SHOWN_CODE, _LIBRARY_CODE, _PUBLIC_CODE = range(4)


class Call:
    """A call: `ended` stays None until it returns."""

    __slots__ = ("began", "end", "ended", "fields", "frame", "name", "start", "thread")

    def __init__(self, name: str, fields: Any, began: int, thread: int) -> None:
        self.name, self.fields, self.began, self.thread = name, fields, began, thread
        self.start = time.perf_counter_ns()
        self.ended: int | None = None
        self.end = 0
        self.frame: Any = None

    @property
    def is_python(self) -> bool:
        """Whether a Python function was called."""
        return isinstance(self.fields, PyCallFields)


class Objects:
    """Modules and optimizers that calls are of: each is looked at once."""

    def __init__(self, identities: Identities) -> None:
        self._identities = identities
        self._modules: dict[int, tuple[ModuleInfo, str]] = {}
        self._optimizers: dict[int, OptimizerInfo] = {}
        self._numbers: dict[str, Callable[[], int]] = {}

    def _tensor(self, tensor: Any) -> TensorMetadata | None:
        return None if tensor is None else TensorMetadata(tensor, self._identities.of(tensor))

    def module(self, frame: FrameType) -> tuple[ModuleInfo, str]:
        """The module whose call a frame is, and the call's name."""
        module: Any = frame.f_locals["self"]
        known = self._modules.get(id(module))
        if known is None:
            cls = type(module)
            parameters = [
                (name, self._tensor(p), self._tensor(p.grad)) for name, p in module._parameters.items() if p is not None
            ]
            number = self._numbers.setdefault(cls.__name__, count().__next__)()
            info = ModuleInfo(cls.__name__, id(cls), id(module), parameters)
            known = self._modules[id(module)] = info, f"nn.Module: {cls.__name__}_{number}"
        return known

    def optimizer(self, frame: FrameType) -> OptimizerInfo:
        """The optimizer whose step ends in a frame."""
        optimizer: Any = frame.f_locals["self"]
        known = self._optimizers.get(id(optimizer))
        if known is None:
            parameters = []
            for group in optimizer.param_groups:
                for p in group["params"]:
                    state = [(k, self._tensor(v)) for k, v in optimizer.state.get(p, {}).items() if hasattr(v, "_storage")]
                    parameters.append((self._tensor(p), self._tensor(p.grad), state))
            known = self._optimizers[id(optimizer)] = OptimizerInfo(id(optimizer), parameters)
        return known


class Calls:
    """The calls of a thread between start and stop. tick: counts beginnings and ends; thread: the number of the thread."""

    def __init__(self, tick: Callable[[], int], objects: Objects, thread: int) -> None:
        self.calls: list[Call] = []
        self._tick, self._objects, self._thread = tick, objects, thread
        self._open: list[Call] = []
        self._codes: dict[CodeType, tuple[int, str]] = {}
        self._before: Any = None
        self._closed = False
        self._module_call, self._step = _entry_points()

    def going_on(self, frame: FrameType | None) -> None:
        """The calls that lead to a frame are going on."""
        frames = []
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        for each in reversed(frames):
            self._called(each)

    def start(self) -> None:
        """Begin to look at this thread."""
        self._before = sys.getprofile()
        sys.setprofile(self.seen)

    def stop(self) -> None:
        """Look at this thread no more."""
        sys.setprofile(self._before)

    def close(self) -> None:
        """End what is still going on."""
        self._closed = True
        open_, self._open = self._open, []  # the thread may be at work on the list
        for call in reversed(open_):
            self._end(call)

    # ---- what the interpreter tells

    def seen(self, frame: FrameType, event: str, what: Any) -> None:
        """As profile functions are told."""
        if self._closed:
            return
        if event == "call":
            self._called(frame)
        elif event == "return":
            self._left(frame)
        elif event == "c_call":
            if self._visible(frame) and what is not sys.setprofile:
                self._begin(Call(repr(what), PyCCallFields(self._state(frame)), self._tick(), self._thread), what)
        else:
            open_ = self._open
            if open_ and open_[-1].frame is what:
                self._end(open_.pop())

    def _begin(self, call: Call, frame: Any) -> None:
        call.frame = frame
        self.calls.append(call)
        self._open.append(call)

    def _end(self, call: Call) -> None:
        call.end, call.ended = time.perf_counter_ns(), self._tick()
        call.frame = None

    def _left(self, frame: FrameType) -> None:
        open_ = self._open
        for place in range(len(open_) - 1, -1, -1):
            if open_[place].frame is frame:
                for call in reversed(open_[place:]):
                    self._end(call)
                del open_[place:]
                return

    def _called(self, frame: FrameType) -> None:
        code = frame.f_code
        kind, _ = self._kind(code)
        if kind == _HIDDEN_CODE or (kind == _LIBRARY_CODE and not self._visible(frame)):
            return
        caller = frame.f_back
        if kind == _PUBLIC_CODE:
            shown = caller is not None and self._visible(caller)
            if shown and not code.co_name.startswith("__"):
                fields = PyCCallFields(self._state(caller))  # type: ignore[arg-type]
                self._begin(Call(_builtin(frame), fields, self._tick(), self._thread), frame)
            return
        while caller is not None and not self._visible(caller):
            caller = caller.f_back
        here = self._state(frame)
        name, module, optimizer = here.name, None, None
        if code is self._module_call:
            module, name = self._objects.module(frame)
        elif code is self._step:
            optimizer = self._objects.optimizer(frame)
        above = here if caller is None else self._state(caller)
        self._begin(Call(name, PyCallFields(here, above, module, optimizer), self._tick(), self._thread), frame)

    def _kind(self, code: CodeType) -> tuple[int, str]:
        known = self._codes.get(code)
        if known is None:
            path = code.co_filename
            if path == LOOKING:
                known = _PUBLIC_CODE, ""
            elif path.startswith(_HIDDEN) or path.startswith("<flambeau"):
                known = _HIDDEN_CODE, ""
            elif path.startswith(("<", _LIBRARY)) and "-packages" not in path and not path.startswith(_PACKAGE):
                known = _LIBRARY_CODE, _short(path)
            else:
                known = _SHOWN_CODE, _short(path)
            self._codes[code] = known
        return known

    def _visible(self, frame: FrameType) -> bool:
        """Whether calls of this frame are shown."""
        kind = self._kind(frame.f_code)[0]
        while kind == _LIBRARY_CODE and frame.f_back is not None:
            frame = frame.f_back
            kind = self._kind(frame.f_code)[0]
        return kind in (_SHOWN_CODE, _LIBRARY_CODE)

    def _state(self, frame: FrameType) -> FrameState:
        code = frame.f_code
        return FrameState(self._kind(code)[1], frame.f_lineno or code.co_firstlineno, code.co_name)


def _entry_points() -> tuple[CodeType, CodeType]:
    """The code that every call of a module goes through, and that which ends an optimizer's step."""
    from flambeau.nn.modules.module import Module
    from flambeau.optim.optimizer import Optimizer

    return Module.__call__.__code__, Optimizer._optimizer_step_code.__code__


def _builtin(frame: FrameType) -> str:
    """A public function as PyTorch's is shown, which is compiled."""
    args = frame.f_locals.get("args") or ()
    name = frame.f_code.co_name
    if args and hasattr(args[0], "_storage") and hasattr(type(args[0]), name) and not hasattr(sys.modules["flambeau"], name):
        return f"<built-in method {name} of {type(args[0]).__name__} object at {id(args[0]):#x}>"
    return f"<built-in method {name} of type object at {id(type(None)):#x}>"


def _short(path: str) -> str:
    """A file's path below the folder that it was found in."""
    roots = [os.path.abspath(each or os.getcwd()) + os.sep for each in sys.path]
    root = max((each for each in roots if path.startswith(each)), key=len, default="")
    return path[len(root) :]
