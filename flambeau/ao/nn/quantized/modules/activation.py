"""Activations of quantized tensors with a scale and zero point for their results. Stands on torch.ops.quantized."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn.quantized.modules.utils import OfObserved

__all__ = ["ELU", "Hardswish", "LeakyReLU", "MultiheadAttention", "PReLU", "ReLU6", "Sigmoid", "Softmax"]

ops = torch.ops.quantized


class ReLU6(nn.ReLU):
    """min(max(x, 0), 6)."""

    def forward(self, input: Any) -> Any:
        """The integers held to the range."""
        return ops.relu6(input, self.inplace)

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """The module that a ReLU6 becomes."""
        return ReLU6(mod.inplace)


class Hardswish(OfObserved, nn.Hardswish):
    """Hardswish with this scale and zero point."""

    scale: Any
    zero_point: Any

    def __init__(self, scale: float, zero_point: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("zero_point", torch.tensor(zero_point))

    def forward(self, input: Any) -> Any:
        """The quantized activation."""
        return ops.hardswish(input, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedHardswish"

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> Hardswish:
        """The module that a Hardswish becomes, with this scale and zero point of the result."""
        return cls(scale, zero_point)


class ELU(OfObserved, nn.ELU):
    """ELU with this scale and zero point."""

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input: Any) -> Any:
        """The quantized activation."""
        return ops.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self) -> str:
        return "QuantizedELU"

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> ELU:
        """The module that a ELU becomes, with this scale and zero point of the result."""
        return cls(scale, zero_point, mod.alpha)


class LeakyReLU(OfObserved, nn.LeakyReLU):
    """LeakyReLU with this scale and zero point."""

    scale: Any
    zero_point: Any

    def __init__(
        self,
        scale: float,
        zero_point: int,
        negative_slope: float = 1e-2,
        inplace: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(negative_slope, inplace)
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("zero_point", torch.tensor(zero_point))

    def forward(self, input: Any) -> Any:
        """The quantized activation."""
        return ops.leaky_relu(input, self.negative_slope, self.inplace, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLeakyReLU"

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> LeakyReLU:
        """The module that a LeakyReLU becomes, with this scale and zero point of the result."""
        return cls(scale, zero_point, mod.negative_slope, mod.inplace)


class Sigmoid(OfObserved, nn.Sigmoid):
    """Sigmoid with this scale and zero point."""

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input: Any) -> Any:
        """The quantized activation."""
        return ops.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> Sigmoid:
        """The module that a Sigmoid becomes, with this scale and zero point of the result."""
        return cls(scale, zero_point)


class Softmax(OfObserved, nn.Softmax):
    """Softmax with this scale and zero point."""

    def __init__(self, dim: Any = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__()
        self.dim, self.scale, self.zero_point = dim, scale, zero_point

    def forward(self, input: Any) -> Any:
        """The quantized activation."""
        dim = self.dim
        if dim is None:
            dim = 0 if input.dim() in (0, 1, 3) else 1
        return ops.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedSoftmax"

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> Softmax:
        """The module that a Softmax becomes, with this scale and zero point of the result."""
        return cls(mod.dim, scale, zero_point)


class PReLU(OfObserved, nn.Module):
    """PReLU with quantized slopes, and this scale and zero point."""

    def __init__(self, output_scale: float, output_zero_point: int, num_parameters: int = 1) -> None:
        super().__init__()
        self.num_parameters, self.scale, self.zero_point = num_parameters, output_scale, output_zero_point
        slopes = torch.randn(num_parameters, dtype=torch.float)
        self.set_weight(torch.quantize_per_tensor(slopes, scale=1.0, zero_point=0, dtype=torch.quint8))

    def set_weight(self, w: Any) -> None:
        """Take on other slopes."""
        self.weight = w

    def forward(self, input: Any) -> Any:
        """The quantized activation."""
        return ops.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedPReLU"

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> PReLU:
        """The module that a PReLU becomes, with this scale and zero point of the result."""
        made = cls(scale, zero_point, mod.num_parameters)
        weight = mod.weight.float()
        observer = mod.qconfig.weight()
        observer(weight)
        if observer.dtype is not torch.quint8:
            raise AssertionError(f"PReLU's weight observer should have dtype quint8 but got {observer.dtype}")
        weight_scale, weight_zero_point = observer.calculate_qparams()
        made.set_weight(torch.quantize_per_tensor(weight, float(weight_scale), int(weight_zero_point), torch.quint8))
        return made


class MultiheadAttention(nn.Module):
    """NotImplementedError: keep attention in float32, or quantize its Linear modules."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("torch.ao.nn.quantized.MultiheadAttention is not implemented in flambeau: quantize the "
        "Linear modules of the attention (torch.ao.quantization.quantize_dynamic)")  # fmt: skip

    from_observed = from_float = classmethod(lambda cls, other: cls())
