"""torch._VF: the namespace's functions by the name under which older model code calls them (`_VF.lstm`, `_VF.unique_dim`)."""

from __future__ import annotations

from typing import Any

import flambeau as torch


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(torch, name)
