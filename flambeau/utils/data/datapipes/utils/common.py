"""torch.utils.data.datapipes.utils.common: what is asked of a function that a pipe is given."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["validate_input_col"]


def _is_local_fn(fn: Callable[..., Any]) -> bool:
    return "<locals>" in getattr(fn, "__qualname__", "")


def _check_unpickable_fn(fn: Any) -> None:
    """TypeError for what can't be called; a warning for a function that workers can't be sent."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    while isinstance(fn, functools.partial):
        fn = fn.func
    kind = "Lambda" if getattr(fn, "__name__", "") == "<lambda>" else "Local" if _is_local_fn(fn) else None
    if kind is not None:
        warnings.warn(
            f"{kind} function is not supported by pickle, please use regular python function or functools.partial instead.",
            stacklevel=3,
        )


def validate_input_col(fn: Callable[..., Any], input_col: Any) -> None:
    """ValueError if a function doesn't take as many arguments as there are columns."""
    try:
        signature = inspect.signature(fn)
    except ValueError:  # written in another language
        return
    count = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        name = getattr(fn, "__name__", type(fn).__name__)
        raise ValueError(f"The function {name} can't be called with {count} columns: {error}") from None
