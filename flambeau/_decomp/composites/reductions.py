"""Variances and deviations as exported graphs have them."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._decomp.composites.registry import composite

__all__: list[str] = []

aten = torch.ops.aten


def _spread(name: str) -> None:
    corrected = getattr(aten, name).correction

    def plain(self: Any, unbiased: bool = True) -> Any:
        return corrected(self, None, correction=int(unbiased))

    def along(self: Any, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
        return corrected(self, dim, correction=int(unbiased), keepdim=keepdim)

    composite(getattr(aten, name).default)(plain)
    composite(getattr(aten, name).dim)(along)


for _name in ("std", "std_mean", "var", "var_mean"):
    _spread(_name)
