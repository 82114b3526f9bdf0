"""torch._refs.fft: the functions of torch.fft."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._refs.names import FFT

__all__ = list(FFT)


def __getattr__(name: str) -> Any:
    if name in FFT:
        return getattr(torch.fft, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
