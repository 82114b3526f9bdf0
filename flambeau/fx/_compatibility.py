"""torch.fx._compatibility: the decorator that marks what PyTorch promises to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[T], T]:
    """Mark a function or class as one that stays as it is, or as one that may change."""

    def mark(thing: T) -> T:
        _MARKED_WITH_COMPATIBILITY.setdefault(thing)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(thing)
        return thing

    return mark
