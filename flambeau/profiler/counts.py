"""Counts beside the events: a program's steps, and what measuring cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = ["KinetoStepTracker", "ProfilerStats"]


class KinetoStepTracker:
    """Counts the steps of a program: the most that any of those who count has made."""

    _current_step = 0
    _step_dict: ClassVar[dict[str, int]] = {}

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Somebody begins to count, from where the program is."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Somebody counts no more; whether they did."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Somebody has made a step; gives the program's."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The program's."""
        return cls._current_step


@dataclass
class ProfilerStats:
    """What measuring cost: durations in microseconds, the window that was measured in seconds."""

    profiling_window_duration_sec: float = 0
    number_of_events: int = 0
    profiler_prepare_call_duration_us: float = 0
    profiler_enable_call_duration_us: float = 0
    profiler_disable_call_duration_us: float = 0
    parse_kineto_call_duration_us: float = 0
    function_events_build_tree_call_duration_us: float = 0
