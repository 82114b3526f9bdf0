"""Convolutions with integer weights to whose results another tensor is added. Stands on quantized.modules.conv."""

from __future__ import annotations

from typing import Any, ClassVar

import flambeau as torch
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn.quantized.modules import conv

__all__ = ["ConvAdd2d", "ConvAddReLU2d"]


class ConvAdd2d(conv.Conv2d):
    """conv(input) + extra_input."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvAdd2d
    _end = ""

    def forward(self, input: Any, extra_input: Any) -> Any:  # type: ignore[override]
        """The quantized sum."""
        operator = getattr(torch.ops.quantized, f"conv2d_add{self._end}")
        return operator(self._padded(input), extra_input, self._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedConvAdd2d"


class ConvAddReLU2d(ConvAdd2d):
    """relu(conv(input) + extra_input)."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvAddReLU2d
    _end = "_relu"

    def _get_name(self) -> str:
        return "QuantizedConvAddReLU2d"
