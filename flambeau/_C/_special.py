"""torch._C._special: how the code of graphs calls the functions of torch.special, with the room's name in front of theirs."""

from __future__ import annotations

from typing import Any

import flambeau as torch


def __getattr__(name: str) -> Any:
    if name.startswith("special_") and hasattr(torch.special, name.removeprefix("special_")):
        return getattr(torch.special, name.removeprefix("special_"))
    raise AttributeError(f"module {__name__!r} has no attribute '{name}'")
