"""torch._refs.linalg: the functions of torch.linalg."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._refs.names import LINALG

__all__ = list(LINALG)


def __getattr__(name: str) -> Any:
    if name in LINALG:
        return getattr(torch.linalg, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
