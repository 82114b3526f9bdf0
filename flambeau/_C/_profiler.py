"""torch._C._profiler: where in a program a call was made, and the profiler's records under PyTorch's names.

The records stand in flambeau.profiler.records, which is loaded when one is asked for.
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from flambeau.core.modes.observing import Given, stretch

__all__ = ["CapturedTraceback", "_RecordFunctionFast", "gather_traceback", "symbolize_tracebacks"]


class CapturedTraceback:
    """The frames of a call, innermost first, as (file, line, function)."""

    def __init__(self, frames: Sequence[tuple[str, int, str]]) -> None:
        self.frames = tuple(frames)


class _RecordFunctionFast(stretch):
    """Context, to be entered any number of times: what the profiler shows as an operator of this name with these arguments.

    Numbers, texts and truth values of keyword_values stand in traces; others are left out with a warning.
    """

    def __init__(
        self, name: str, input_values: Sequence[Any] | None = None, keyword_values: dict[str, Any] | None = None
    ) -> None:
        keywords = {}
        for key, value in (keyword_values or {}).items():
            if isinstance(value, (str, int, float, bool)):
                keywords[key] = value
            else:
                warnings.warn(
                    f"Only string, int, float and bool kwinputs are recorded, not {key} of {type(value).__name__}", stacklevel=2
                )
        super().__init__(name, Given(tuple(input_values or ()), keywords, True))


def gather_traceback(python: bool, script: bool, cpp: bool) -> CapturedTraceback:
    """Where the caller is; of Python's frames only, which are all that there are."""
    frames = traceback.walk_stack(sys._getframe(1)) if python else ()
    return CapturedTraceback([(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames])


def symbolize_tracebacks(tracebacks: Sequence[CapturedTraceback]) -> list[list[dict[str, Any]]]:
    """The frames of each as dicts of filename, line and name."""
    return [[{"filename": file, "line": line, "name": name} for file, line, name in x.frames] for x in tracebacks]


#: By PyTorch's name: the record's own.
_RECORDS = {
    "ActiveProfilerType": "ActiveProfilerType", "ProfilerState": "ProfilerState", "RecordScope": "RecordScope",
    "_EventType": "EventType", "_ExperimentalConfig": "ExperimentalConfig", "_ExtraFields_Allocation": "AllocationFields",
    "_ExtraFields_Backend": "BackendFields", "_ExtraFields_Kineto": "KinetoFields",
    "_ExtraFields_OutOfMemory": "OutOfMemoryFields", "_ExtraFields_PyCCall": "PyCCallFields",
    "_ExtraFields_PyCall": "PyCallFields", "_ExtraFields_TorchOp": "TorchOpFields", "_ExtraFields_Vulkan": "VulkanFields",
    "_NNModuleInfo": "ModuleInfo", "_OptimizerInfo": "OptimizerInfo", "_ProfilerEvent": "ProfilerEvent",
    "_PyFrameState": "FrameState", "_TensorMetadata": "TensorMetadata",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _RECORDS:
        return getattr(importlib.import_module("flambeau.profiler.records"), _RECORDS[name])
    if name == "ProfilerActivity":
        return importlib.import_module("flambeau.profiler").ProfilerActivity
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _settings() -> Any:
    return importlib.import_module("flambeau.profiler.averages").settings


def _set_record_concrete_inputs_enabled_val(value: bool) -> None:
    """Whether events have the arguments that are no tensors."""
    _settings().concrete_inputs = bool(value)


def _set_fwd_bwd_enabled_val(value: bool) -> None:
    """Whether traces link calls with their nodes of backward passes."""
    _settings().links = bool(value)


def _set_cuda_sync_enabled_val(value: bool) -> None:
    """Accepted: no device is measured."""


def _get_approximate_time() -> int:
    """A clock that only moves forward, in nanoseconds."""
    return time.perf_counter_ns()


def symbolize_addresses(addresses: Sequence[int], mode: str = "fast") -> list[dict[str, Any]]:
    """Not implemented: places in compiled libraries."""
    raise NotImplementedError(
        "torch._C._profiler.symbolize_addresses is not implemented in flambeau, which has no compiled library of its own: ask a "
        "debugger, or gather_traceback for the frames of Python"
    )
