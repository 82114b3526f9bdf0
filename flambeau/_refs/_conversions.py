"""torch._refs._conversions: conversions to a dtype, which are methods of tensors, and complex numbers from two real ones."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._refs.names import CONVERSIONS

__all__ = list(CONVERSIONS)


def __getattr__(name: str) -> Any:
    if name in CONVERSIONS:
        return getattr(torch if name in ("complex", "polar") else torch.Tensor, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
