"""Translations of normalizations: batch, layer, group, instance, RMS. Kept whole where the operator set has them."""

from __future__ import annotations

from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx._types import numpy_dtype
from flambeau.onnx.translations._common import sized
from flambeau.onnx.translations.reduction import reduced, spread


def _row(b: Builder, number: int, size: Any, dtype: torch.dtype) -> Value:
    if isinstance(size, Size):
        return b.full([size], number, dtype)
    return b.const(np.full(size, number, numpy_dtype(dtype)), dtype)


def _scaled(b: Builder, x: Value, weight: Value | None, bias: Value | None, rank: int) -> Value:
    """Channels times their weights, with their biases, for tensors of a rank."""
    shape = x.shape
    for op_type, y in (("Mul", weight), ("Add", bias)):
        if y is not None:
            x = b.op(op_type, x, b.unsqueeze(y, *range(1, rank - 1)) if rank > 2 else y, shape=shape)
    return x


@translation("batch_norm")
def batch_norm(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Value:
    """Batch norm: with the running statistics, or those of the batch while training."""
    if training or running_mean is None or running_var is None:
        axes = [d for d in range(x.rank) if d != 1]
        variance, mean = spread(b, x, axes, 0, True)
        away = b.op("Sub", x, mean)
        made = b.op("Div", away, b.op("Sqrt", b.op("Add", variance, float(eps))), shape=x.shape)
        return _scaled(b, made, weight, bias, x.rank)
    channels = b.size(x, 1)
    weight = _row(b, 1, channels, x.dtype) if weight is None else weight
    bias = _row(b, 0, channels, x.dtype) if bias is None else bias
    return b.op("BatchNormalization", x, weight, bias, running_mean, running_var, epsilon=float(eps))


@translation("_native_batch_norm_legit_no_training")
def batch_norm_with_running(
    b: Builder, x: Value, weight: Any, bias: Any, mean: Value, variance: Value, momentum: float, eps: float
) -> tuple[Any, ...]:
    """Batch norm with the running statistics."""
    return batch_norm(b, x, weight, bias, mean, variance, False, momentum, eps), None, None


@translation("native_batch_norm", "_native_batch_norm_legit")
def native_batch_norm(
    b: Builder, x: Value, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    """Batch norm, of whose results only the first is written."""
    return batch_norm(b, x, weight, bias, mean, variance, training, momentum, eps), None, None


@translation("layer_norm")
def layer_norm(
    b: Builder,
    x: Value,
    normalized_shape: list[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = False,
) -> Value:
    """Layer norm; whole from version 17 on."""
    dims = len(normalized_shape)
    if b.wanted >= 17:
        if weight is None:
            weight = b.const(np.ones(normalized_shape), x.dtype)
        return b.op("LayerNormalization", x, weight, bias, axis=-dims, epsilon=float(eps))
    variance, mean = spread(b, x, list(range(-dims, 0)), 0, True)
    made = b.op("Div", b.op("Sub", x, mean), b.op("Sqrt", b.op("Add", variance, float(eps))), shape=x.shape)
    for op_type, y in (("Mul", weight), ("Add", bias)):
        made = made if y is None else b.op(op_type, made, y)
    return made


@translation("native_layer_norm")
def native_layer_norm(b: Builder, x: Value, normalized_shape: list[int], weight: Any, bias: Any, eps: float) -> tuple[Any, ...]:
    """Layer norm, of whose results only the first is written."""
    return layer_norm(b, x, normalized_shape, weight, bias, eps), None, None


@translation("rms_norm", "_fused_rms_norm")
def rms_norm(b: Builder, x: Value, normalized_shape: list[int], weight: Value | None = None, eps: float | None = None) -> Value:
    """Divided by the root of the mean of squares; whole from version 23 on."""
    dims = len(normalized_shape)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    if b.wanted >= 23:
        weight = b.const(np.ones(normalized_shape), x.dtype) if weight is None else weight
        return b.op("RMSNormalization", x, weight, axis=-dims, epsilon=float(eps))
    mean = reduced(b, "ReduceMean", b.op("Mul", x, x), list(range(-dims, 0)), True)
    made = b.op("Mul", x, b.op("Reciprocal", b.op("Sqrt", b.op("Add", mean, float(eps)))))
    return made if weight is None else b.op("Mul", made, weight)


@translation("group_norm")
def group_norm(
    b: Builder,
    x: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = False,
) -> Value:
    """Group norm: whole from version 21 on; before, the groups are normalized as instances."""
    (channels,) = sized(b, x, 1)
    if b.wanted >= 21:
        weight = _row(b, 1, channels, x.dtype) if weight is None else weight
        bias = _row(b, 0, channels, x.dtype) if bias is None else bias
        return b.op("GroupNormalization", x, weight, bias, num_groups=num_groups, epsilon=float(eps))
    ones, zeros = _row(b, 1, num_groups, x.dtype), _row(b, 0, num_groups, x.dtype)
    sizes = b.sizes(x)
    groups = b.reshape(x, [sizes[0], num_groups, -1])
    made = b.reshape(b.op("InstanceNormalization", groups, ones, zeros, epsilon=float(eps)), sizes)
    return _scaled(b, made, weight, bias, x.rank)


@translation("native_group_norm")
def native_group_norm(
    b: Builder, x: Value, weight: Any, bias: Any, n: Any, c: Any, hw: Any, group: int, eps: float
) -> tuple[Any, ...]:
    """Group norm, of whose results only the first is written."""
    return group_norm(b, x, group, weight, bias, eps), None, None


@translation("instance_norm")
def instance_norm(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Value:
    """Instance norm: each channel of each image for itself."""
    if not use_input_stats:
        return batch_norm(b, x, weight, bias, running_mean, running_var, False, momentum, eps)
    channels = b.size(x, 1)
    weight = _row(b, 1, channels, x.dtype) if weight is None else weight
    bias = _row(b, 0, channels, x.dtype) if bias is None else bias
    return b.op("InstanceNormalization", x, weight, bias, epsilon=float(eps))
