"""Batch norms of quantized tensors. Stands on torch.ops.quantized."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn.quantized.modules.utils import OfObserved

__all__ = ["BatchNorm2d", "BatchNorm3d"]


class _BatchNorm(OfObserved, nn.modules.batchnorm._BatchNorm):
    """What both have in common: the means and variances of training, and buffers `scale` and `zero_point` of the result."""

    _dims: int
    _relu = ""
    _FUSED: Any = ()
    scale: Any
    zero_point: Any

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(num_features, eps, momentum, True, True, device=device, dtype=dtype)
        self.register_buffer("scale", torch.tensor(1.0))
        self.register_buffer("zero_point", torch.tensor(0))

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() != self._dims + 2:
            raise ValueError(f"Input shape must be `(N, C, {'H, W' if self._dims == 2 else 'H, W, D'})`!")

    def forward(self, input: Any) -> Any:
        """The quantized batch norm."""
        self._check_input_dim(input)
        operator = getattr(torch.ops.quantized, f"batch_norm{self._dims}d{self._relu}")
        return operator(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps, float(self.scale), int(self.zero_point)
        )

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> Any:
        """The module that a batch norm becomes, with this scale and zero point of the result."""
        if isinstance(mod, (nni.BNReLU2d, nni.BNReLU3d)):
            mod = mod[0]
        made = cls(mod.num_features, mod.eps)
        for name in ("weight", "bias", "running_mean", "running_var"):
            setattr(made, name, getattr(mod, name))
        made.scale, made.zero_point = torch.tensor(float(scale)), torch.tensor(int(zero_point))
        return made


class BatchNorm2d(_BatchNorm):
    """A batch norm of quantized images."""

    _dims = 2

    def _get_name(self) -> str:
        return "QuantizedBatchNorm2d"


class BatchNorm3d(_BatchNorm):
    """A batch norm of quantized volumes."""

    _dims = 3

    def _get_name(self) -> str:
        return "QuantizedBatchNorm3d"
