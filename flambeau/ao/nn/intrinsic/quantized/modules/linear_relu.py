"""Linear modules with integer weights, each followed by a function. Stands on quantized.modules.linear."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn.quantized.modules import linear
from flambeau.ao.nn.quantized.modules.utils import _quantize_weight, qparams_of

__all__ = ["LinearLeakyReLU", "LinearReLU", "LinearTanh"]


class LinearReLU(linear.Linear):
    """Linear followed by a ReLU."""

    _FLOAT_MODULE: Any = nni.LinearReLU

    def forward(self, x: Any) -> Any:
        """The quantized result."""
        return torch.ops.quantized.linear_relu(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"


def _of_two(cls: Any, mod: Any, *more: Any) -> Any:
    """The module that an observed one of a Linear and a function becomes."""
    assert type(mod) is cls._FLOAT_MODULE, f"Input float module should be {cls._FLOAT_MODULE.__name__}"
    assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
    activation, own = mod, mod[0]
    observer = mod.qconfig.weight()
    observer(own.weight)
    assert observer.dtype is torch.qint8, "Weight observer must have dtype torch.qint8"
    made = cls(own.in_features, own.out_features, *more, dtype=observer.dtype)
    made.set_weight_bias(_quantize_weight(own.weight.float(), observer), own.bias)
    made.scale, made.zero_point = qparams_of(activation)
    return made


class LinearLeakyReLU(linear.Linear):
    """Linear followed by a LeakyReLU."""

    _FLOAT_MODULE: Any = nni.LinearLeakyReLU

    def __init__(
        self, in_features: int, out_features: int, negative_slope: float, bias: bool = True, dtype: Any = torch.qint8
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Any:
        """The quantized result."""
        operator = torch.ops.quantized.linear_leaky_relu
        return operator(x, self._packed_params._packed_params, self.scale, self.zero_point, self.negative_slope)

    def _get_name(self) -> str:
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that an observed LinearLeakyReLU becomes."""
        return _of_two(cls, mod, mod[1].negative_slope)


class LinearTanh(linear.Linear):
    """Linear followed by a Tanh."""

    _FLOAT_MODULE: Any = nni.LinearTanh

    def forward(self, x: Any) -> Any:
        """The quantized result."""
        return torch.ops.quantized.linear_tanh(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearTanh"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that an observed LinearTanh becomes."""
        return _of_two(cls, mod)
