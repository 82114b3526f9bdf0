"""Variances and deviations as exported graphs have them."""

from __future__ import annotations

from typing import Any

from flambeau.dispatcher.aten.composites.registry import aten, composite

__all__: list[str] = []


def _spread(name: str) -> None:
    def plain(self: Any, unbiased: bool = True) -> Any:
        return getattr(aten, name).correction(self, None, correction=int(unbiased))

    def along(self: Any, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
        return getattr(aten, name).correction(self, dim, correction=int(unbiased), keepdim=keepdim)

    composite(f"{name}.default")(plain)
    composite(f"{name}.dim")(along)


for _name in ("std", "std_mean", "var", "var_mean"):
    _spread(_name)
