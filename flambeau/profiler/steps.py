"""Factories in PyTorch's steps: memory first, then what fills it. This package computes them in one.

While a profiler measures they are taken one after the other, so that it shows which memory is whose, and what filling costs.
Stands on the public operators; used by flambeau.profiler.recorder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.base.layout import preserve_format
from flambeau.base.memory_order import is_dense
from flambeau.core.modes.modes import active, local
from flambeau.core.tensor.tensor import Tensor

__all__ = ["STEPS", "in_steps"]


def in_steps(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], modes: int) -> Callable[..., Any] | None:
    """How `aten::name` is computed in steps; None where it isn't, as where somebody else may answer. modes: how many special
    modes are the profiler's own.
    """
    steps = STEPS.get(name)
    if steps is None or active.count > modes or local.dispatch_modes or local.draws is not None:
        return None
    if kwargs.get("out") is not None or "names" in kwargs or kwargs.get("layout") not in (None, torch.strided):
        return None
    if name.endswith("_like"):
        given = args[0] if args else kwargs.get("input")
        if not isinstance(given, Tensor) or given.is_nested or given.layout is not torch.strided:
            return None
        if not is_dense(given.shape, given.stride()) or kwargs.get("memory_format") not in (None, preserve_format):
            return None
    return steps


def _filled(make: str, fill: str, *values: Any) -> Callable[..., Any]:
    """torch.make(...), then its method `fill` with these values."""

    def steps(*args: Any, requires_grad: bool = False, generator: Any = None, **options: Any) -> Any:
        made = getattr(torch, make)(*args, **options)
        with torch.no_grad():
            getattr(made, fill)(*values, **({} if generator is None else {"generator": generator}))
        return made.requires_grad_() if requires_grad else made

    return steps


def _full(size: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False, **options: Any) -> Any:
    if dtype is None and isinstance(fill_value, (bool, int, complex)):
        wide = {bool: torch.bool, int: torch.int64}
        dtype = wide.get(type(fill_value)) or (torch.complex128 if _default_is_double() else torch.complex64)
    return _filled("empty", "fill_", fill_value)(size, dtype=dtype, requires_grad=requires_grad, **options)


def _default_is_double() -> bool:
    return torch.get_default_dtype() is torch.float64


def _full_like(input: Any, fill_value: Any, *, requires_grad: bool = False, **options: Any) -> Any:
    return _filled("empty_like", "fill_", fill_value)(input, requires_grad=requires_grad, **options)


def _empty_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any) -> Any:
    made = torch.empty_strided(input.shape, input.stride(), dtype=dtype or input.dtype, device=device or input.device)
    return made.requires_grad_() if requires_grad else made


#: By operator: what is done in its place.
STEPS: dict[str, Callable[..., Any]] = {
    "ones": _filled("empty", "fill_", 1.0), "zeros": _filled("empty", "zero_"), "full": _full,
    "rand": _filled("empty", "uniform_"), "randn": _filled("empty", "normal_"),
    "empty_like": _empty_like, "ones_like": _filled("empty_like", "fill_", 1.0), "zeros_like": _filled("empty_like", "zero_"),
    "full_like": _full_like, "rand_like": _filled("empty_like", "uniform_"), "randn_like": _filled("empty_like", "normal_"),
}  # fmt: skip
