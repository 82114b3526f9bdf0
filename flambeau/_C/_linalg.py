"""torch._C._linalg: how the code of graphs calls the functions of torch.linalg, with the room's name in front of theirs."""

from __future__ import annotations

from typing import Any

import flambeau as torch


def __getattr__(name: str) -> Any:
    if name.startswith("linalg_") and hasattr(torch.linalg, name.removeprefix("linalg_")):
        return getattr(torch.linalg, name.removeprefix("linalg_"))
    operator = None if name.startswith("__") else getattr(torch.ops.aten, name, None)
    if operator is not None:
        return operator
    raise AttributeError(f"module {__name__!r} has no attribute '{name}'")
