"""torch._dynamo.external_utils: what compiled code asks from outside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.compiler import is_compiling

__all__ = ["get_nonrecursive_disable_wrapper", "is_compiling", "wrap_inline"]


def wrap_inline(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls fn, whose body a captured graph takes in."""

    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return inner


def get_nonrecursive_disable_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls fn, and is not captured itself."""
    return wrap_inline(fn)
