"""Linear with a rounded weight. Stands on utils."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.ao.nn.quantized.reference.modules.utils import ReferenceQuantizedModule

__all__ = ["Linear"]


class Linear(ReferenceQuantizedModule, nn.Linear):
    """nn.Linear whose weight is quantized and dequantized at each call; weight_qparams: by what."""

    _IS_REFERENCE = True

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias_: bool = True,
        device: Any = None,
        dtype: Any = None,
        weight_qparams: dict[str, Any] | None = None,
    ) -> None:
        nn.Linear.__init__(self, in_features, out_features, bias_, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, x: Any) -> Any:
        """linear(x, the rounded weight, bias)."""
        return nn.functional.linear(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_linear: Any, weight_qparams: dict[str, Any]) -> Any:
        """The reference module of a Linear; parameters are shared."""
        weight = float_linear.weight
        made = cls(
            float_linear.in_features,
            float_linear.out_features,
            float_linear.bias is not None,
            device=weight.device,
            dtype=weight.dtype,
            weight_qparams=weight_qparams,
        )
        made.weight = nn.Parameter(weight.detach())
        if float_linear.bias is not None:
            made.bias = nn.Parameter(float_linear.bias.detach())
        return made
