"""torch.profiler: times of operators and of named stretches of a program, what they are given, memory, calls of Python.

The names that programs use; profiler.py has the profilers, recorder.py what they record.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from flambeau.profiler import older as older  # which the profilers' `profiler` is
from flambeau.profiler.averages import DeviceType
from flambeau.profiler.counts import KinetoStepTracker
from flambeau.profiler.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    _current,
    kineto_available,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from flambeau.profiler.records import ExperimentalConfig as _ExperimentalConfig
from flambeau.profiler.records import RecordScope

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "RecordScope",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def __getattr__(name: str) -> Any:
    """Parts that are imported at first use."""
    if name == "_memory_profiler":
        return importlib.import_module("flambeau.profiler._memory_profiler")
    if name == "_utils":
        return importlib.import_module("flambeau.profiler._utils")
    if name == "itt":
        return importlib.import_module("flambeau.profiler.itt")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _count_steps_of_optimizers() -> None:
    """Where another program watches this one, each step of an optimizer is one of the program's."""

    def count(*_: Any) -> None:
        KinetoStepTracker.increment_step("Optimizer")

    from flambeau.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(count)


if os.environ.get("KINETO_USE_DAEMON"):
    _count_steps_of_optimizers()
