"""While a module is traced, max, min and math.pow make symbolic numbers of symbolic numbers, instead of asking which is larger.

As in torch.export, `builtins` is changed for the length of the trace. Used by `_export`.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as torch
from flambeau.base.symbolic.numbers import is_symbolic_number

__all__ = ["symbolic_builtins"]


def _extreme(own: Callable[..., Any], of_numbers: Callable[[Any, Any], Any], *args: Any, **kwargs: Any) -> Any:
    items = list(args) if len(args) > 1 else None
    if items is None and len(args) == 1 and isinstance(args[0], (list, tuple)):
        items = list(args[0])
    if kwargs or not items or not any(map(is_symbolic_number, items)) or any(isinstance(x, torch.Tensor) for x in items):
        return own(*args, **kwargs)
    return functools.reduce(of_numbers, items)


@contextlib.contextmanager
def symbolic_builtins() -> Iterator[None]:
    """Until the end of the block."""
    before = builtins.max, builtins.min, math.pow
    power = math.pow

    def pow_(x: Any, y: Any) -> Any:
        return x**y if is_symbolic_number(x) or is_symbolic_number(y) else power(x, y)

    builtins.max = functools.partial(_extreme, before[0], torch.sym_max)  # type: ignore[assignment]
    builtins.min = functools.partial(_extreme, before[1], torch.sym_min)  # type: ignore[assignment]
    math.pow = pow_
    try:
        yield
    finally:
        builtins.max, builtins.min, math.pow = before
