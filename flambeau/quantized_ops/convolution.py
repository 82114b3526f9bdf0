"""Convolutions of quantized tensors with packed weights.

Integers without their zero points, their products and sums below 2 ** 24 are exact in float32, in which they are computed; the
sums are scaled, get the bias and are rounded in one pass, as those of products are. Stands on linear and nn.functional.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.base.dtype import float32
from flambeau.ops.quantized.conversion import _choose_qparams_per_tensor
from flambeau.ops.quantized.tensor import PerTensor, QuantizedTensor, codes
from flambeau.quantized_ops.linear import rounded
from flambeau.quantized_ops.packed import ConvParams

__all__ = ["OPERATORS"]

F = torch.nn.functional
_FORWARD = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _sums(x: Any, packed: ConvParams) -> Any:
    """The sums of the products of a quantized tensor's integers and the weight's, without their zero points."""
    dims = packed.dims
    if x.dim() != dims + 2:
        raise RuntimeError(f"conv{dims}d(): expected a tensor of {dims + 2} dimensions, got {x.dim()}")
    numbers = codes(x).to(float32, memory_format=_LAST.get(dims + 2, torch.preserve_format)) - float(x.q_zero_point())  # type: ignore[attr-defined]
    arguments = packed.stride(), packed.padding()
    if packed.transpose():
        return _TRANSPOSED[dims](
            numbers, packed.numbers, None, *arguments, packed.output_padding(), packed.groups(), packed.dilation()
        )
    return _FORWARD[dims](numbers, packed.numbers, None, *arguments, packed.dilation(), packed.groups())


def _column(vector: Any, dims: int) -> Any:
    return vector.reshape(1, -1, *[1] * dims)


def _convolved(x: Any, packed: ConvParams, scale: float, zero_point: int, relu: bool = False) -> Any:
    if not isinstance(x, QuantizedTensor) or x.dtype not in (torch.quint8, torch.qint8):
        raise RuntimeError(f"quantized::conv{packed.dims}d takes a tensor of quint8 or qint8, not {x.dtype}")
    sums = _sums(x, packed)
    units = packed.scales * x.q_scale()
    bias = 0.0 if packed.bias() is None else _column(packed.bias().detach() / units, packed.dims)
    return rounded(sums, bias, _column(units / scale, packed.dims), scale, zero_point, x.dtype, relu)


def _added(x: Any, other: Any, packed: ConvParams, scale: float, zero_point: int, relu: bool = False) -> Any:
    """The convolution and another quantized tensor added, rounded once."""
    units = _column(packed.scales * x.q_scale(), packed.dims)
    made = _sums(x, packed) * units + other.dequantize()
    if packed.bias() is not None:
        made = made + _column(packed.bias().detach(), packed.dims)
    return torch.quantize_per_tensor(made.relu() if relu else made, scale, zero_point, x.dtype)


def _dynamic(x: Any, packed: ConvParams, reduce_range: bool = False) -> Any:
    """The convolution in float32 of a float tensor that is quantized for it by its own range. As in PyTorch the result is held
    to the same range and steps.
    """
    scale, zero_point = _choose_qparams_per_tensor(x, reduce_range)
    quantized = torch.quantize_per_tensor(x, scale, zero_point, torch.quint8)
    return _convolved(quantized, packed, scale, zero_point).dequantize()


def _spread(numbers: Sequence[int], dims: int, name: str) -> list[int]:
    if len(numbers) != dims:
        raise RuntimeError(f"Specify {name} as a list of {dims} numbers")
    return list(numbers)


def _pack(dims: int, transposed: bool) -> Any:
    def prepack(weight: Any, bias: Any, stride: Any, padding: Any, *more: Any) -> ConvParams:
        output_padding, dilation, groups = more if transposed else ([0] * dims, *more)
        if weight.dim() != dims + 2:
            raise RuntimeError(f"Weights are expected to have {dims + 2} dimensions, found: {weight.dim()}")
        if weight.dtype is not torch.qint8:
            raise RuntimeError(f"quantized::conv{dims}d_prepack: expected a weight of qint8, got {weight.dtype}")
        if groups < 1 or weight.shape[0] % groups:
            raise RuntimeError(f"the number of channels {weight.shape[0]} must be divisible by groups {groups}")
        channels = weight.shape[1] * groups if transposed else weight.shape[0]
        if bias is not None and tuple(bias.shape) != (channels,):
            raise RuntimeError(f"bias should have K elements: {channels}")
        if not isinstance(weight._quantizer, PerTensor) and (transposed or weight.q_per_channel_axis() != 0):
            raise RuntimeError(
                "Per Channel Quantization is currently disabled for transposed conv" if transposed else "axis != 0"
            )
        named = ("stride", stride), ("padding", padding), ("dilation", dilation)
        stride, padding, dilation = [_spread(given, dims, name) for name, given in named]
        output_padding = _spread(output_padding, dims, "output_padding")
        return ConvParams(dims, weight, bias, stride, padding, dilation, groups, output_padding, transposed)

    return prepack


def _older(relu: bool) -> Any:
    """The form in which the convolution's numbers are given once more; those of the packed weight count."""

    def convolution(
        x: Any, packed: Any, stride: Any, padding: Any, dilation: Any, groups: int, scale: float, zero_point: int
    ) -> Any:
        return _convolved(x, packed, scale, zero_point, relu)

    return convolution


def _relu(x: Any, packed: Any, scale: float, zero_point: int) -> Any:
    return _convolved(x, packed, scale, zero_point, relu=True)


def _table() -> dict[str, Any]:
    made: dict[str, Any] = {
        "conv2d_add": _added,
        "conv2d_add_relu": functools.partial(_added, relu=True),
        "conv_prepack": _pack(2, False),
        "conv_unpack": ConvParams.unpack,
        "conv2d": _older(False),
        "conv2d_relu": _older(True),
        "conv3d": _older(False),
        "conv3d_relu": _older(True),
        "conv1d": _convolved,
        "conv1d_relu": _relu,
    }
    facts = "stride padding output_padding dilation groups transpose unpack".split()
    for dims in (1, 2, 3):
        for name, transposed in ((f"conv{dims}d", False), (f"conv_transpose{dims}d", True)):
            made[f"{name}_transpose"] = ConvParams.transpose
            made[f"{name}_prepack"] = _pack(dims, transposed)
            made[f"{name}_dynamic"] = _dynamic
            made.update((f"{name}_{fact}", getattr(ConvParams, fact)) for fact in facts)
        made[f"conv_transpose{dims}d"] = _convolved
    for dims in (2, 3):
        made[f"conv{dims}d.new"], made[f"conv{dims}d_relu.new"] = _convolved, _relu
    return made


#: The kernels by operator.
OPERATORS = _table()
