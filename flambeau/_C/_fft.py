"""torch._C._fft: how the code of graphs calls the functions of torch.fft, with the room's name in front of theirs."""

from __future__ import annotations

from typing import Any

import flambeau as torch


def __getattr__(name: str) -> Any:
    if name.startswith("fft_") and hasattr(torch.fft, name.removeprefix("fft_")):
        return getattr(torch.fft, name.removeprefix("fft_"))
    raise AttributeError(f"module {__name__!r} has no attribute '{name}'")
