"""Dropout of quantized tensors: nothing, as they are for inference. Stands on nn."""

from __future__ import annotations

from typing import Any

from flambeau import nn

__all__ = ["Dropout"]


class Dropout(nn.Dropout):
    """The tensor itself."""

    def forward(self, input: Any) -> Any:
        """input."""
        return input

    def _get_name(self) -> str:
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Dropout:
        """The module that a Dropout becomes."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> Dropout:
        """The same: the range of the result is that of the input."""
        return cls(mod.p, mod.inplace)
