"""torch.distributed.rpc.functions: functions whose result comes later."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["async_execution"]


def async_execution(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function that returns a torch.futures.Future: its caller's result is the Future's, and no thread waits for it
    where it runs.
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper._wrapped_async_rpc_function = fn  # type: ignore[attr-defined]
    return wrapper
