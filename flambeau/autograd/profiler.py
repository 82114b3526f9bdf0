"""torch.autograd.profiler: the older interface of flambeau.profiler.

`profile` is a context that measures one stretch of a program. NVTX and ITT, which other profilers read, are not there, as in
PyTorch's builds for the CPU.
"""

from __future__ import annotations

from typing import Any

import flambeau.profiler as _profiler
from flambeau.core.modes.observing import Given
from flambeau.core.operator import unsupported as _unsupported
from flambeau.profiler import DeviceType, ProfilerActivity, kineto_available, record_function
from flambeau.profiler.averages import EventList, FunctionEvent, FunctionEventAvg
from flambeau.profiler.counts import KinetoStepTracker
from flambeau.profiler.older import profile

__all__ = [
    "DeviceType",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "KinetoStepTracker",
    "ProfilerActivity",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "load_nvprof",
    "profile",
    "record_function",
]


def _profiler_enabled() -> bool:
    """Whether a profiler is measuring."""
    return bool(_profiler._current)


def __getattr__(name: str) -> Any:
    if name == "_is_profiler_enabled":
        return _profiler_enabled()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _record_function_with_args_enter(name: str, *args: Any) -> record_function:
    """Begin a stretch that the profiler shows with the shapes of these arguments; gives what ends it."""
    made = record_function(name)
    made.given = Given(args) if args else None
    made.__enter__()
    return made


def _record_function_with_args_exit(handle: record_function) -> None:
    """End such a stretch."""
    handle.__exit__(None, None, None)


def _disable_profiler() -> None:
    """Stop what is measuring."""
    while _profiler._current:
        _profiler._current.pop().__exit__(None, None, None)


class emit_nvtx:
    """Context whose operators NVIDIA's profiler shows. Entering it raises RuntimeError: there is no CUDA."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        self.enabled = enabled

    def __enter__(self) -> Any:
        if self.enabled:
            raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")

    def __exit__(self, *exception: object) -> None:
        return None


emit_itt = _unsupported.kind("autograd.profiler.emit_itt", "use torch.profiler.profile and export_chrome_trace")
load_nvprof = _unsupported.function("autograd.profiler.load_nvprof", "there is no CUDA; use torch.profiler.profile")
