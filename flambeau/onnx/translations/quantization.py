"""Translations of rounding to integers and back: fake quantization, and torch.ops.quantized_decomposed.

QuantizeLinear and DequantizeLinear where the operator set has the integers; arithmetic otherwise. Stands on `_builder`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import unsupported

_BYTES = (torch.uint8, torch.int8)
_SHORTS = (torch.uint16, torch.int16)  # since version 21


def _has_nodes(b: Builder, dtype: torch.dtype, zero_point: Any) -> bool:
    """Whether there are nodes for these integers; zero points that are no integers take arithmetic."""
    whole = not isinstance(zero_point, Value) or zero_point.dtype is None or not zero_point.dtype.is_floating_point
    return whole and (dtype in _BYTES or (dtype in _SHORTS and b.wanted >= 21))


def _parameter(b: Builder, x: Any, dtype: torch.dtype, axis: int | None) -> Value:
    """A scale or zero point in a dtype: a vector along an axis, otherwise without dimensions."""
    made = b.value(x, dtype)
    return b.squeeze(made, 0) if axis is None and made.rank == 1 else made


def _along(b: Builder, x: Any, rank: int, axis: int | None) -> Value:
    """A float scale or zero point as arithmetic takes it."""
    made = _parameter(b, x, torch.float32, axis)
    others = [d for d in range(rank) if d != axis]
    return b.unsqueeze(made, *others) if axis is not None and others else made


def _rounded(
    b: Builder, x: Value, scale: Any, zero_point: Any, axis: int | None, low: int, high: int, dtype: torch.dtype
) -> Value:
    """clamp(round(x / scale) + zero_point, low, high) in a dtype of integers."""
    x = b.cast(x, torch.float32)
    axis = None if axis is None else axis % x.rank
    limits = torch.iinfo(dtype)
    whole = (low, high) == (limits.min, limits.max)
    if _has_nodes(b, dtype, zero_point) and (whole or dtype in _BYTES):  # ONNX Runtime has no Clip of 16 bits
        parameters = _parameter(b, scale, torch.float32, axis), _parameter(b, zero_point, dtype, axis)
        made = b.op("QuantizeLinear", x, *parameters, axis=axis, dtype=dtype, shape=x.shape)
        return made if whole else b.op("Clip", made, low, high)
    return b.cast(_steps(b, x, scale, zero_point, axis, low, high), dtype)


def _steps(b: Builder, x: Value, scale: Any, zero_point: Any, axis: int | None, low: int, high: int) -> Value:
    """The same in floats."""
    steps, zero = b.op("Div", x, _along(b, scale, x.rank, axis)), _along(b, zero_point, x.rank, axis)
    if isinstance(zero_point, Value) and zero_point.dtype is not None and zero_point.dtype.is_floating_point:
        whole = b.op("Round", b.op("Add", steps, zero))  # zero points that needn't be whole are part of what is rounded
    else:
        whole = b.op("Add", b.op("Round", steps), zero)
    return b.op("Clip", whole, low, high)


def _numbers(b: Builder, x: Value, scale: Any, zero_point: Any, axis: int | None, dtype: torch.dtype) -> Value:
    """(x - zero_point) * scale in float32, of integers of a dtype."""
    axis = None if axis is None else axis % x.rank
    zero_point = 0 if zero_point is None else zero_point
    if _has_nodes(b, dtype, zero_point):
        parameters = _parameter(b, scale, torch.float32, axis), None
        if not (isinstance(zero_point, int) and zero_point == 0 and axis is not None):
            parameters = parameters[0], _parameter(b, zero_point, dtype, axis)
        return b.op("DequantizeLinear", x, *parameters, axis=axis, dtype=torch.float32, shape=x.shape)
    made = b.op("Sub", b.cast(x, torch.float32), _along(b, zero_point, x.rank, axis))
    return b.op("Mul", made, _along(b, scale, x.rank, axis))


# ---------------------------------------------------------------- fake quantization


def _integers(b: Builder, low: int, high: int) -> torch.dtype:
    """The dtype of the smallest integers that go from one number to another."""
    for dtype in (*_BYTES, *_SHORTS, torch.int32):
        limits = torch.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return dtype
    raise unsupported(b, "for integers of more than 32 bits")


def _fake(b: Builder, x: Value, scale: Any, zero_point: Any, axis: int | None, low: int, high: int) -> Value:
    dtype = _integers(b, low, high)
    if _has_nodes(b, dtype, zero_point):
        made = _rounded(b, x, scale, zero_point, axis, low, high, dtype)
    else:
        made, dtype = _steps(b, b.cast(x, torch.float32), scale, zero_point, axis, low, high), torch.float32
    return b.cast(_numbers(b, made, scale, zero_point, axis, dtype), b.out.dtype)


@translation("fake_quantize_per_tensor_affine", "_fake_quantize_learnable_per_tensor_affine")
def fake_quantize_per_tensor(
    b: Builder, x: Value, scale: Any, zero_point: Any, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Value:
    """The numbers that a tensor has after it is rounded to integers."""
    if isinstance(zero_point, Value) and zero_point.dtype.is_floating_point:
        zero_point = b.cast(b.op("Round", zero_point), torch.int32)
    return _fake(b, x, scale, zero_point, None, quant_min, quant_max)


@translation("fake_quantize_per_channel_affine")
def fake_quantize_per_channel(
    b: Builder, x: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    """The same with a scale and a zero point for each index of an axis."""
    return _fake(b, x, scale, zero_point, axis, quant_min, quant_max)


@translation("quantized_decomposed::fake_quant_per_channel")
def fake_quant_per_channel(
    b: Builder, x: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    """The same."""
    return _fake(b, x, scales, zero_points, axis, quant_min, quant_max)


# ---------------------------------------------------------------- tensors of integers


@translation("quantized_decomposed::quantize_per_tensor")
def quantize_per_tensor(
    b: Builder, x: Value, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: torch.dtype
) -> Value:
    """Numbers as integers."""
    return _rounded(b, x, scale, zero_point, None, _number(b, quant_min), _number(b, quant_max), dtype)


def _number(b: Builder, x: Any) -> int:
    """A limit as a number. UnsupportedOperatorError for one that the model computes."""
    if isinstance(x, Value):
        if x.const_value is None:
            raise unsupported(b, "with limits that the model computes; give numbers")
        return int(x.const_value)
    return int(x)


@translation("quantized_decomposed::dequantize_per_tensor")
def dequantize_per_tensor(
    b: Builder,
    x: Value,
    scale: Any,
    zero_point: Any,
    quant_min: Any,
    quant_max: Any,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Value:
    """Integers as numbers."""
    return b.cast(_numbers(b, x, scale, zero_point, None, dtype), b.out.dtype)


@translation("quantized_decomposed::quantize_per_channel")
def quantize_per_channel(
    b: Builder, x: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Value:
    """Numbers as integers, with a scale and a zero point for each index of an axis."""
    return _rounded(b, x, scales, zero_points, axis, quant_min, quant_max, dtype)


@translation("quantized_decomposed::dequantize_per_channel")
def dequantize_per_channel(
    b: Builder,
    x: Value,
    scales: Value,
    zero_points: Value | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Value:
    """Such integers as numbers."""
    return b.cast(_numbers(b, x, scales, zero_points, axis, dtype), b.out.dtype)


def _choice(range_of: Callable[[Builder, Value, int, int, float], tuple[Value, Value]]) -> Callable[..., Any]:
    def choose(b: Builder, x: Value, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype) -> tuple[Value, Value]:
        scale, zero_point = range_of(b, b.cast(x, torch.float32), quant_min, quant_max, eps)
        shaped = (b.cast(b.reshape(scale, [1]), torch.float64), b.cast(b.reshape(zero_point, [1]), torch.int64))
        return shaped

    return choose


def _of_range(b: Builder, x: Value, low: int, high: int, eps: float) -> tuple[Value, Value]:
    least = b.op("Min", b.op("ReduceMin", x, keepdims=0, shape=()), 0.0)
    greatest = b.op("Max", b.op("ReduceMax", x, keepdims=0, shape=()), 0.0)
    scale = b.op("Max", b.op("Div", b.op("Sub", greatest, least), float(high - low)), float(eps))
    zero_point = b.op("Sub", b.const(float(low), torch.float32), b.op("Round", b.op("Div", least, scale)))
    return scale, b.op("Clip", zero_point, float(low), float(high))


def _about_zero(b: Builder, x: Value, low: int, high: int, eps: float) -> tuple[Value, Value]:
    most = b.op("ReduceMax", b.op("Abs", x), keepdims=0, shape=())
    scale = b.op("Max", b.op("Div", most, (high - low) / 2), float(eps))
    return scale, b.const(0.0 if low < 0 else 128.0, torch.float32)


translation("quantized_decomposed::choose_qparams.tensor")(_choice(_of_range))
translation("quantized_decomposed::choose_qparams_symmetric.tensor")(_choice(_about_zero))
