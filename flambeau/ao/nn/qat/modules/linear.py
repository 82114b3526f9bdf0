"""A Linear whose weight is rounded while it is trained. Stands on nn."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.ao.nn.intrinsic import LinearReLU
from flambeau.nn.utils.parametrize import is_parametrized, transfer_parametrizations_and_params, type_before_parametrizations

__all__ = ["Linear"]


class Linear(nn.Linear):
    """nn.Linear with `weight_fake_quant`, which qconfig.weight makes. AssertionError without a qconfig."""

    _FLOAT_MODULE: Any = nn.Linear

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        assert qconfig, "qconfig must be provided for QAT module"
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Any) -> Any:
        """The product with the rounded weight."""
        return nn.functional.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a float one with a qconfig becomes; parameters are shared."""
        assert type_before_parametrizations(mod) == cls._FLOAT_MODULE, (
            f" qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}"
        )
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
        assert mod.qconfig, "Input float module must have a valid qconfig"
        if type_before_parametrizations(mod) == LinearReLU:
            mod = mod[0]
        made = cls(mod.in_features, mod.out_features, bias=mod.bias is not None, qconfig=mod.qconfig)
        if is_parametrized(mod, "weight"):
            transfer_parametrizations_and_params(mod, made, "weight")
        else:
            made.weight = mod.weight
        if is_parametrized(mod, "bias"):
            transfer_parametrizations_and_params(mod, made, "bias")
        else:
            made.bias = mod.bias
        return made

    def to_float(self) -> Any:
        """A float module with these parameters."""
        made = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        made.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            made.bias = nn.Parameter(self.bias.detach())
        made.train(self.training)
        return made
