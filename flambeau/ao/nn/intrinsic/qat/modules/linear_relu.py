"""A Linear and a ReLU, trained with a rounded weight. Stands on nn.qat."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn import qat as nnqat
from flambeau.ao.nn.intrinsic import _FusedModule

__all__ = ["LinearReLU"]


class LinearReLU(nnqat.Linear, _FusedModule):
    """qat.Linear followed by a ReLU."""

    _FLOAT_MODULE = nni.LinearReLU

    def __init__(self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None) -> None:
        super().__init__(in_features, out_features, bias, qconfig)

    def forward(self, input: Any) -> Any:
        """relu(linear(input))."""
        return nn.functional.relu(super().forward(input))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a fused float one becomes."""
        qconfig, linear = mod.qconfig, mod[0]
        made = cls(linear.in_features, linear.out_features, linear.bias is not None, qconfig)
        made.weight, made.bias = linear.weight, linear.bias
        return made

    def to_float(self) -> Any:
        """The float modules."""
        return nni.LinearReLU(super().to_float(), nn.ReLU())
