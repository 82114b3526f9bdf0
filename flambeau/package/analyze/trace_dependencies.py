"""Which modules run when a function is called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["trace_dependencies"]


def trace_dependencies(callable: Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> list[str]:
    """The names of the modules whose functions are called by callable(*args), for each args of the inputs."""
    found: set[str] = set()

    def record(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            name = frame.f_globals.get("__name__")
            if name:
                found.add(name)

    before = sys.getprofile()
    try:
        sys.setprofile(record)
        for args in inputs:
            callable(*args)
    finally:
        sys.setprofile(before)
    return list(found)
