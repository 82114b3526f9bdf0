"""torch._refs.special: the functions of torch.special."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._refs.names import SPECIAL

__all__ = list(SPECIAL)


def __getattr__(name: str) -> Any:
    if name in SPECIAL:
        from flambeau._refs.pointwise import reference_of

        return reference_of(getattr(torch.special, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
