"""The table of operators that are taken apart before any other table is asked, and what stands for them there.

Used by the files of the room, by export.decomp_utils and export._decompose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["COMPOSITES", "Composite", "composite"]

COMPOSITES: dict[Any, Callable[..., Any]] = {}


class Composite:
    """What a table of decompositions has for such an operator: called with its arguments, it calls the other ones."""

    __slots__ = ("operator",)

    def __init__(self, operator: Any) -> None:
        self.operator = operator

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rule = COMPOSITES.get(self.operator)
        made = NotImplemented if rule is None else rule(*args, **kwargs)
        return self.operator(*args, **kwargs) if made is NotImplemented else made


def composite(*operators: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: what PyTorch computes these operators by."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for operator in operators:
            COMPOSITES[operator] = function
        return function

    return register
