"""torch._C._profiler: where in a program a call was made."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Any

__all__ = ["CapturedTraceback", "gather_traceback", "symbolize_tracebacks"]


class CapturedTraceback:
    """The frames of a call, innermost first, as (file, line, function)."""

    def __init__(self, frames: Sequence[tuple[str, int, str]]) -> None:
        self.frames = tuple(frames)


def gather_traceback(python: bool, script: bool, cpp: bool) -> CapturedTraceback:
    """Where the caller is; of Python's frames only, which are all that there are."""
    frames = traceback.walk_stack(sys._getframe(1)) if python else ()
    return CapturedTraceback([(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames])


def symbolize_tracebacks(tracebacks: Sequence[CapturedTraceback]) -> list[list[dict[str, Any]]]:
    """The frames of each as dicts of filename, line and name."""
    return [[{"filename": file, "line": line, "name": name} for file, line, name in x.frames] for x in tracebacks]
