"""Modules that compute with integers, and those that quantize and dequantize. Stands on the other modules here."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.ao.nn.quantized.modules.activation import (
    ELU,
    Hardswish,
    LeakyReLU,
    MultiheadAttention,
    PReLU,
    ReLU6,
    Sigmoid,
    Softmax,
)
from flambeau.ao.nn.quantized.modules.batchnorm import BatchNorm2d, BatchNorm3d
from flambeau.ao.nn.quantized.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from flambeau.ao.nn.quantized.modules.dropout import Dropout
from flambeau.ao.nn.quantized.modules.embedding_ops import Embedding, EmbeddingBag
from flambeau.ao.nn.quantized.modules.functional_modules import FloatFunctional, FXFloatFunctional, QFunctional
from flambeau.ao.nn.quantized.modules.linear import Linear
from flambeau.ao.nn.quantized.modules.normalization import GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm
from flambeau.ao.nn.quantized.modules.rnn import LSTM
from flambeau.nn import Module
from flambeau.nn.modules.pooling import MaxPool2d as MaxPool2d

__all__ = [
    "ELU",
    "LSTM",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "DeQuantize",
    "Dropout",
    "Embedding",
    "EmbeddingBag",
    "FXFloatFunctional",
    "FloatFunctional",
    "GroupNorm",
    "Hardswish",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MultiheadAttention",
    "PReLU",
    "QFunctional",
    "Quantize",
    "ReLU6",
    "Sigmoid",
    "Softmax",
]


class Quantize(Module):
    """Quantizes a float tensor as a whole, with a scale and zero point that are buffers."""

    scale: Any
    zero_point: Any

    def __init__(self, scale: Any, zero_point: Any, dtype: Any, factory_kwargs: Any = None) -> None:
        super().__init__()
        place = {k: v for k, v in (factory_kwargs or {}).items() if k == "device"}
        self.register_buffer("scale", torch.tensor([scale], **place))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.long, **place))
        self.dtype = dtype

    def forward(self, X: Any) -> Any:
        """The quantized tensor."""
        return torch.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Quantize:
        """The module that an observed QuantStub becomes."""
        assert hasattr(mod, "activation_post_process")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(scale.float().item(), zero_point.long().item(), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """The numbers of a quantized tensor."""

    def forward(self, Xq: Any) -> Any:
        """float32."""
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """The module that a DeQuantStub becomes."""
        return DeQuantize()
