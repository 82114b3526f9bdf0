"""Norms of quantized tensors with a scale and zero point for their results. Stands on torch.ops.quantized."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn.quantized.modules.utils import OfObserved

__all__ = ["GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm"]

ops = torch.ops.quantized


class LayerNorm(OfObserved, nn.LayerNorm):
    """nn.LayerNorm of quantized tensors; weight and bias are floats."""

    scale: Any
    zero_point: Any

    def __init__(
        self,
        normalized_shape: Any,
        weight: Any,
        bias: Any,
        scale: float,
        zero_point: int,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine, device=device, dtype=dtype)
        self.weight, self.bias = weight, bias
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("zero_point", torch.tensor(zero_point))

    def forward(self, input: Any) -> Any:
        """The quantized norm."""
        return ops.layer_norm(
            input, self.normalized_shape, weight=self.weight, bias=self.bias, eps=self.eps,
            output_scale=self.scale, output_zero_point=self.zero_point,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "QuantizedLayerNorm"

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> LayerNorm:
        """The module that a LayerNorm becomes, with this scale and zero point of the result."""
        return cls(mod.normalized_shape, mod.weight, mod.bias, scale, zero_point, mod.eps, mod.elementwise_affine)


class GroupNorm(OfObserved, nn.GroupNorm):
    """nn.GroupNorm of quantized tensors; weight and bias are floats."""

    scale: Any
    zero_point: Any

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        weight: Any,
        bias: Any,
        scale: float,
        zero_point: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_groups, num_channels, eps, affine, device=device, dtype=dtype)
        self.weight, self.bias = weight, bias
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("zero_point", torch.tensor(zero_point))

    def forward(self, input: Any) -> Any:
        """The quantized norm."""
        return ops.group_norm(input, self.num_groups, self.weight, self.bias, self.eps, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedGroupNorm"

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> GroupNorm:
        """The module that a GroupNorm becomes, with this scale and zero point of the result."""
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias, scale, zero_point, mod.eps, mod.affine)


class _InstanceNorm(OfObserved):
    """What the three have in common."""

    weight: Any
    bias: Any
    eps: float

    def __init__(
        self,
        num_features: int,
        weight: Any,
        bias: Any,
        scale: float,
        zero_point: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)  # type: ignore[call-arg]
        self.weight, self.bias = weight, bias
        self.register_buffer("scale", torch.tensor(scale))  # type: ignore[attr-defined]
        self.register_buffer("zero_point", torch.tensor(zero_point))  # type: ignore[attr-defined]

    def forward(self, input: Any) -> Any:
        """The quantized norm."""
        return ops.instance_norm(input, self.weight, self.bias, self.eps, self.scale, self.zero_point)  # type: ignore[attr-defined]

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> Any:
        """The module that a norm becomes, with this scale and zero point of the result."""
        return cls(mod.num_features, mod.weight, mod.bias, scale, zero_point, mod.eps, mod.affine)


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """nn.InstanceNorm1d of quantized tensors."""


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """nn.InstanceNorm2d of quantized tensors."""


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """nn.InstanceNorm3d of quantized tensors."""
