"""A Linear and a batch norm, trained with a rounded weight. Stands on conv_fused's way."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn.intrinsic import _FusedModule
from flambeau.ao.nn.intrinsic.qat.modules.batch_norm import TrainedBatchNorm
from flambeau.nn.utils.fusion import fuse_linear_bn_weights

__all__ = ["LinearBn1d"]


class LinearBn1d(TrainedBatchNorm, nn.Linear, _FusedModule):
    """Linear and BatchNorm1d; the weight that is rounded is the one that inference will have."""

    _FLOAT_MODULE = nni.LinearBn1d

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        eps: float = 1e-05,
        momentum: float = 0.1,
        freeze_bn: bool = False,
        qconfig: Any = None,
    ) -> None:
        nn.Linear.__init__(self, in_features, out_features, False)
        assert qconfig, "qconfig must be provided for QAT module"
        self.qconfig, self.freeze_bn = qconfig, freeze_bn if self.training else True
        self.bn = nn.BatchNorm1d(out_features, eps, momentum, True, True)
        self.weight_fake_quant = qconfig.weight()
        if bias:
            self.bias = nn.Parameter(torch.empty(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_bn_parameters()
        if self.training and not freeze_bn:
            self.update_bn_stats()
        else:
            self.freeze_bn_stats()

    def forward(self, input: Any) -> Any:
        """bn(linear(input))."""
        assert self.bn.running_var is not None
        factor = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        weight = self.weight_fake_quant(self.weight * factor.reshape(-1, 1))
        zero_bias = torch.zeros(self.out_features) if self.bias is None else torch.zeros_like(self.bias)
        made = nn.functional.linear(input, weight, zero_bias) / factor.reshape(1, -1)
        return self.bn(made if self.bias is None else made + self.bias.reshape(1, -1))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a fused float one with a qconfig becomes; parameters are shared."""
        assert type(mod) is nni.LinearBn1d, f"qat.{cls.__name__}.from_float only works for {nni.LinearBn1d.__name__}"
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
        assert mod.qconfig, "Input float module must have a valid config"
        linear, bn = mod[0], mod[1]
        made = cls(linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum, False, mod.qconfig)
        made.weight, made.bias = linear.weight, linear.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made.bn, name, getattr(bn, name))
        return made

    def to_float(self) -> Any:
        """A Linear with the batch norm taken in."""
        made = nn.Linear(self.in_features, self.out_features)
        bn = self.bn
        made.weight, made.bias = fuse_linear_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        return made
