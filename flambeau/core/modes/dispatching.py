"""Which classes of tensors answer operators below autograd: those with a `__torch_dispatch__` of their own.

Stands on modes; used by core.modes.overrides and interception, and by the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.core.modes.modes import local

__all__ = ["any_dispatching", "dispatching", "not_below"]

_dispatching: dict[type, bool] = {}


def not_below(func: Callable, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """`__torch_dispatch__ = not_below` in a class: its tensors are plain ones below autograd."""
    before, local.classes_answer, stack = local.classes_answer, False, local.dispatch_modes[:]
    local.dispatch_modes[:] = []
    try:
        return func(*args, **(kwargs or {}))
    finally:
        local.classes_answer, local.dispatch_modes[:] = before, stack


def dispatching(cls: type) -> bool:
    """Whether tensors of `cls` answer operators below autograd."""
    found = _dispatching.get(cls)
    if found is None:
        found = _dispatching[cls] = getattr(cls, "__torch_dispatch__", not_below) is not not_below
    return found


def any_dispatching(operands: Iterable[Any]) -> bool:
    """Whether one of the operands answers operators below autograd."""
    return local.classes_answer and any([dispatching(x.__class__) for x in operands])
