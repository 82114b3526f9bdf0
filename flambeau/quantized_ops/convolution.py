"""Convolutions of quantized tensors with packed weights.

Each is one kernel (ops.quantized.products), which gathers patches of bytes; results have their channels last in memory, as
PyTorch's do. Stands on linear.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.base.dtype import float32
from flambeau.base.layout import Layout
from flambeau.ops.quantized.conversion import _choose_qparams_per_tensor
from flambeau.ops.quantized.products import Geometry, multiply
from flambeau.ops.quantized.tensor import CODES, PerTensor, QuantizedTensor, codes, wrapped
from flambeau.quantized_ops.linear import in_float, scalars_of
from flambeau.quantized_ops.packed import ConvParams

__all__ = ["OPERATORS"]

KEPT = 64  # layouts of activations of which a packed weight keeps what follows from them


def _channels_last(x: Any) -> Any:
    """(N, channels, ...) as (N, depth, height, width, channels) without gaps."""
    x = x.movedim(1, -1).contiguous()
    return x.reshape(x.shape[0], *[1] * (5 - x.dim()), *x.shape[1:])


def _three(numbers: Sequence[int], missing: int) -> tuple[int, ...]:
    return (missing,) * (3 - len(numbers)) + tuple(numbers)


def _geometry(x: Any, packed: ConvParams) -> tuple[Geometry, list[int]]:
    """What the kernel takes of such activations, and the result's sizes. RuntimeError if they don't fit the weight.

    A transposed convolution is the convolution of pixels that are spread among zero points with the weight turned around.
    """
    dims, taps = packed.dims, packed.weight.shape[2:]
    if x.dim() != dims + 2:
        raise RuntimeError(f"conv{dims}d(): expected a tensor of {dims + 2} dimensions, got {x.dim()}")
    if x.shape[1] != packed.channels:
        raise RuntimeError(
            f"Given groups={packed.groups()}, weight of size {list(packed.weight.shape)}, expected input{list(x.shape)} to have "
            f"{packed.channels} channels, but got {x.shape[1]} channels instead"
        )
    stride, padding, dilation = packed.stride(), packed.padding(), packed.dilation()
    spans, inside = [d * (k - 1) for d, k in zip(dilation, taps, strict=True)], list(x.shape[2:])
    if packed.transpose():
        inside = [(i - 1) * s + 1 for i, s in zip(inside, stride, strict=True)]
        more = packed.output_padding()
        sizes = [i - 2 * p + span + o for i, p, span, o in zip(inside, padding, spans, more, strict=True)]
        padding, stride = [span - p for span, p in zip(spans, padding, strict=True)], [1] * dims
    else:
        sizes = [(i + 2 * p - span - 1) // s + 1 for i, s, p, span in zip(inside, stride, padding, spans, strict=True)]
    if min(sizes) < 1:
        raise RuntimeError(f"Calculated output size per channel: {sizes}. Output size is too small")
    numbers = _three(taps, 1), _three(stride, 1), _three(padding, 0), _three(dilation, 1)
    return Geometry(_three(inside, 1), _three(sizes, 1), *numbers), sizes


def _spread(x: Any, packed: ConvParams) -> Any:
    """The integers of activations, as many zero points between them as the stride leaves."""
    integers = codes(x)
    if not packed.transpose() or max(packed.stride()) == 1:
        return integers
    sizes = [(i - 1) * s + 1 for i, s in zip(x.shape[2:], packed.stride(), strict=True)]
    wide = torch.full((*x.shape[:2], *sizes), x.q_zero_point(), dtype=integers.dtype)
    wide[(..., *[slice(None, None, s) for s in packed.stride()])] = integers  # type: ignore[index]
    return wide


def _product(x: Any, packed: ConvParams, result: str, scalars: Any) -> Any:
    """The convolution as `result` says, with its channels last in memory."""
    w, key = packed.rows, (result, x._layout)
    kept = packed.geometries.get(key)
    if kept is None:
        if x.dim() == 3 and packed.dims == 2 and packed.weight.shape[2] == 1:
            return _product(x, packed.along_one, result, scalars)
        geometry, sizes = _geometry(x, packed)
        dtype = CODES[torch.quint8] if result == "codes" else float32
        kept = geometry, Layout.contiguous((x.shape[0], *sizes, w.columns * w.groups), dtype, x._layout.device)
        if len(packed.geometries) >= KEPT:
            packed.geometries.clear()
        packed.geometries[key] = kept
    image = _channels_last(_spread(x, packed)).movedim(-1, 1)
    return multiply(image, w, kept[1], result, scalars, kept[0]).movedim(-1, 1)  # type: ignore[attr-defined]


def _convolved(x: Any, packed: ConvParams, scale: float, zero_point: int, relu: bool = False) -> Any:
    _check(x, packed)
    made = _product(x, packed, "codes", scalars_of(x, scale, zero_point, x.dtype, relu))
    return wrapped(made.view(CODES[x.dtype]), PerTensor(float(scale), int(zero_point)), x.dtype)


def _check(x: Any, packed: ConvParams) -> None:
    if not isinstance(x, QuantizedTensor) or x.dtype not in (torch.quint8, torch.qint8):
        raise RuntimeError(f"quantized::conv{packed.dims}d takes a tensor of quint8 or qint8, not {x.dtype}")


def _added(x: Any, other: Any, packed: ConvParams, scale: float, zero_point: int, relu: bool = False) -> Any:
    """The convolution and another quantized tensor added, rounded once."""
    _check(x, packed)
    made = _product(x, packed, "floats", in_float(x, False)) + other.dequantize()
    return torch.quantize_per_tensor(made.relu() if relu else made, scale, zero_point, x.dtype)


def _dynamic(x: Any, packed: ConvParams, reduce_range: bool = False) -> Any:
    """The convolution in float32 of a float tensor that is quantized for it by its own range. As in PyTorch the result is held
    to the same range and steps.
    """
    scale, zero_point = _choose_qparams_per_tensor(x, reduce_range)
    quantized = torch.quantize_per_tensor(x, scale, zero_point, torch.quint8)
    return _convolved(quantized, packed, scale, zero_point).dequantize()


def _listed(numbers: Sequence[int], dims: int, name: str) -> list[int]:
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
        stride, padding, dilation = [_listed(given, dims, name) for name, given in named]
        output_padding = _listed(output_padding, dims, "output_padding")
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
