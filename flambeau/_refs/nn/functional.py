"""torch._refs.nn.functional: the functions of torch.nn.functional."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._refs.names import FUNCTIONAL

__all__ = list(FUNCTIONAL)


def __getattr__(name: str) -> Any:
    if name in FUNCTIONAL:
        if name == "mish_":
            return _mish_
        from flambeau._refs.pointwise import reference_of

        return reference_of(getattr(torch.nn.functional, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _mish_(input: Any) -> Any:
    return torch.nn.functional.mish(input, inplace=True)
