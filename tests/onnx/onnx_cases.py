"""How the tables of operators are written: `case(function, *tensors)`. Used by onnx_cases_*."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch

randn = torch.randn


class Cases(list):
    """Functions and their arguments."""

    def __call__(self, function: Callable[..., Any], *args: torch.Tensor) -> None:
        self.append((function, args))


def ints(*shape: int) -> torch.Tensor:
    """Small numbers."""
    return torch.randint(0, 5, shape)
