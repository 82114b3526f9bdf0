"""What decompositions are written with: the decorator that registers them, and factories with the arguments that PyTorch names.

Used by the files of `decompositions`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau._decomp.registry import register_decomposition
from flambeau.dispatcher.aten.composites.helpers import full, like, scalar, where

__all__ = ["arange", "aten", "computed_in_float32", "decomposes", "full", "like", "scalar", "where"]

aten = torch.ops.aten
_CPU = torch.device("cpu")
Rule = Callable[..., Any]


def decomposes(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: the decomposition of `aten.<name>`, names with their overloads."""

    def register(rule: Rule) -> Rule:
        for name in names:
            packet, _, overload = name.partition(".")
            register_decomposition(getattr(getattr(aten, packet), overload))(rule)
        return rule

    return register


def computed_in_float32(rule: Rule) -> Rule:
    """A rule that half-precision tensors are converted for, and its results back."""

    @functools.wraps(rule)
    def converted(*args: Any, **kwargs: Any) -> Any:
        low = next((x.dtype for x in args if isinstance(x, torch.Tensor) and x.dtype in (torch.float16, torch.bfloat16)), None)
        if low is None:
            return rule(*args, **kwargs)
        given = [_to(x, torch.float32) if isinstance(x, torch.Tensor) and x.dtype is low else x for x in args]
        made = rule(*given, **kwargs)
        return tuple(_to(x, low) for x in made) if isinstance(made, tuple) else _to(made, low)

    return converted


def _to(x: torch.Tensor, dtype: torch.dtype) -> Any:
    return aten._to_copy.default(x, dtype=dtype)


def arange(start: Any, end: Any, step: Any = None, dtype: torch.dtype | None = None) -> Any:
    """Numbers in a row."""
    named = {} if dtype is None else {"dtype": dtype}
    steps = () if step is None else (step,)
    return aten.arange.start_step(start, end, *steps, **named, layout=torch.strided, device=_CPU, pin_memory=False)
