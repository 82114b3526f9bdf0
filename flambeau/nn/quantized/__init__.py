"""torch.nn.quantized: there are no quantized tensors, but FloatFunctional, of which models are made before, computes."""

from __future__ import annotations

from flambeau.core.operator import unsupported as _unsupported
from flambeau.nn.quantized.functional_modules import FloatFunctional

__all__ = ["FloatFunctional"]

globals().update(
    _unsupported.all_of(
        "nn.quantized.",
        "flambeau has no quantized tensors; use the module of torch.nn in float32, bfloat16 or float16",
        "",
        "BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d DeQuantize Embedding "
        "EmbeddingBag GroupNorm Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d LSTM LayerNorm LeakyReLU Linear "
        "MultiheadAttention PReLU QFunctional Quantize ReLU6 Sigmoid Softmax",
    )
)
