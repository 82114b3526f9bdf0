"""The table that the files of this room fill: implementations by the operator's name, or by that with an overload.

Stands on nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["IMPLEMENTATIONS", "implementation"]

IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {}


def implementation(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare what answers `aten.<name>`, or one overload of it, `<name>.<overload>`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names or (function.__name__,):
            IMPLEMENTATIONS[name] = function
        return function

    return register
