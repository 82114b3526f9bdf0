"""torch.profiler.profiler: a face of flambeau.profiler."""

from __future__ import annotations

from flambeau.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Measure every step."""
    return ProfilerAction.RECORD
