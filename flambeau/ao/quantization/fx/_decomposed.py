"""torch.ops.quantized_decomposed: quantization written in ordinary tensors of integers, as exported programs have it.

Stands on torch.library and the public operators; torch.ops loads it when the namespace is first asked for.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.ao.quantization.utils import _INTEGER_LIMITS, validate_qmin_qmax

__all__: list[str] = []

quantized_decomposed_lib = torch.library.Library("quantized_decomposed", "DEF")
_LIMITS: dict[Any, tuple[int, int]] = _INTEGER_LIMITS | {
    dtype: (int(torch.finfo(dtype).min), int(torch.finfo(dtype).max)) for dtype in (torch.float8_e5m2, torch.float8_e4m3fn)
}


def _check_range(quant_min: int, quant_max: int, dtype: Any) -> None:
    if dtype not in _LIMITS:
        raise ValueError(f"Unsupported dtype: {dtype}")
    lower, upper = _LIMITS[dtype]
    if quant_min < lower:
        raise AssertionError(f"quant_min out of bounds for dtype, quant_min_lower_bound: {lower} quant_min: {quant_min}")
    if quant_max > upper:
        raise AssertionError(f"quant_max out of bounds for dtype, quant_max_upper_bound: {upper} quant_max: {quant_max}")


def _as_float(input: Any) -> Any:
    """The input as float32, of half precision too. AssertionError for other dtypes."""
    if input.dtype in (torch.float16, torch.bfloat16):
        input = input.to(torch.float32)
    if input.dtype is not torch.float32:
        raise AssertionError(f"Expecting input to have dtype torch.float32, but got dtype: {input.dtype}")
    return input


def _one(what: str, x: Any) -> Any:
    if x.numel() != 1:
        raise AssertionError(f"Expecting {what} tensor to be one element, but received : {x.numel()}")
    return x


def _check_stored(input: Any, dtype: Any) -> None:
    if input.dtype != dtype:
        raise AssertionError(f"Expecting input to have dtype: {dtype}, but got {input.dtype}")


def _rounded(input: Any, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: Any) -> Any:
    return torch.clamp(torch.round(input * (1.0 / scale)) + zero_point, quant_min, quant_max).to(dtype)


def _along(x: Any, dims: int, axis: int) -> Any:
    """A vector as a tensor of `dims` dimensions along one of them."""
    shape = [1] * dims
    shape[axis] = -1
    return x.reshape(shape)


# ---------------------------------------------------------------- of whole tensors


def quantize_per_tensor(input: Any, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: Any) -> Any:
    """clamp(round(input / scale) + zero_point, quant_min, quant_max) in a dtype of integers."""
    input = _as_float(input)
    _check_range(quant_min, quant_max, dtype)
    return _rounded(input, scale, zero_point, quant_min, quant_max, dtype)


def quantize_per_tensor_tensor(input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any) -> Any:
    """The same with a scale and zero point in tensors of one element."""
    _one("zero_point", zero_point), _one("scale", scale)
    return quantize_per_tensor(input, scale.item(), zero_point.item(), quant_min, quant_max, dtype)


def quantize_per_tensor_tensor2(input: Any, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: Any) -> Any:
    """The same with everything in tensors of one element."""
    return quantize_per_tensor_tensor(input, scale, zero_point, quant_min.item(), quant_max.item(), dtype)


def dequantize_per_tensor(
    input: Any, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: Any, *, out_dtype: Any = None
) -> Any:
    """(input - zero_point) * scale in float32 or out_dtype."""
    _check_stored(input, dtype)
    if dtype not in _LIMITS:
        raise ValueError(f"Unsupported dtype in dequantize_per_tensor: {dtype}")
    return (input.to(out_dtype or torch.float32) - zero_point) * scale


def dequantize_per_tensor_tensor(
    input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any, *, out_dtype: Any = None
) -> Any:
    """The same with a scale and zero point in tensors of one element."""
    _one("zero_point", zero_point), _one("scale", scale)
    return dequantize_per_tensor(input, scale.item(), zero_point.item(), quant_min, quant_max, dtype, out_dtype=out_dtype)


def dequantize_per_tensor_tensor2(
    input: Any, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: Any, *, out_dtype: Any = None
) -> Any:
    """The same with everything in tensors of one element."""
    return dequantize_per_tensor_tensor(input, scale, zero_point, quant_min.item(), quant_max.item(), dtype, out_dtype=out_dtype)


def _affine_qparams(low: Any, high: Any, quant_min: int, quant_max: int, eps: float) -> tuple[Any, Any]:
    # A vector of float32, so that the zero point of an input in half precision isn't rounded to half precision.
    scale = torch.max((high - low) / float(quant_max - quant_min), torch.tensor([eps], device=low.device))
    zero_point = torch.clamp(quant_min - torch.round(low / scale).to(torch.int), quant_min, quant_max)
    return scale.to(torch.float64), zero_point.to(torch.int64)


def _check_choice(input: Any, quant_min: int, quant_max: int, dtype: Any) -> None:
    if input.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise AssertionError(f"Expecting input to have dtype torch.float32/16/b16, but got dtype: {input.dtype}")
    if dtype not in _LIMITS:
        raise AssertionError(f"Expecting target dtype to be one of {_LIMITS.keys()}, but got: {dtype}")
    validate_qmin_qmax(quant_min, quant_max)


def choose_qparams_tensor(input: Any, quant_min: int, quant_max: int, eps: float, dtype: Any) -> tuple[Any, Any]:
    """The scale (float64) and zero point (int64) of a tensor's range, each of one element."""
    _check_choice(input, quant_min, quant_max, dtype)
    low, high = torch.aminmax(input)
    scale, zero_point = _affine_qparams(low.clamp(max=0), high.clamp(min=0), quant_min, quant_max, eps)
    return scale.reshape(1), zero_point.reshape(1)


def choose_qparams_symmetric_tensor(input: Any, quant_min: int, quant_max: int, eps: float, dtype: Any) -> tuple[Any, Any]:
    """The same for a range about 0: the zero point is the dtype's middle."""
    _check_choice(input, quant_min, quant_max, dtype)
    most = input.abs().max()
    scale = torch.clamp(most / (float(quant_max - quant_min) / 2), min=eps).to(torch.float64).reshape(1)
    middle = 128 if dtype is torch.uint8 else 0
    return scale, torch.full((1,), middle, dtype=torch.int64)


# ---------------------------------------------------------------- by channel, token and group


def quantize_per_channel(input: Any, scales: Any, zero_points: Any, axis: int, quant_min: int, quant_max: int, dtype: Any) -> Any:
    """quantize_per_tensor with a scale and zero point for each index of an axis."""
    input = _as_float(input)
    if axis >= input.dim():
        raise AssertionError(f"Expecting axis to be < {input.dim()}")
    _check_range(quant_min, quant_max, dtype)
    return _rounded(input, _along(scales, input.dim(), axis), _along(zero_points, input.dim(), axis), quant_min, quant_max, dtype)


def dequantize_per_channel(
    input: Any, scales: Any, zero_points: Any, axis: int, quant_min: int, quant_max: int, dtype: Any, *, out_dtype: Any = None
) -> Any:
    """dequantize_per_tensor with a scale and, if given, a zero point for each index of an axis."""
    _check_stored(input, dtype)
    if axis >= input.dim():
        raise AssertionError(f"Expecting axis to be < {input.dim()}")
    _check_range(quant_min, quant_max, dtype)
    shifted = input if zero_points is None else input - _along(zero_points, input.dim(), axis)
    return (shifted * _along(scales, input.dim(), axis)).to(out_dtype or torch.float32)


def _choose_qparams_per_token(input: Any, dtype: Any) -> tuple[Any, Any]:
    if dtype is not torch.int8:
        raise Exception(f"unsupported dtype in choose_qparams_per_token: {dtype}")
    most = 127
    scales = input.abs().amax(dim=-1, keepdim=True)
    if scales.dtype is torch.float16:
        scales = scales.float()
    scales = scales.clamp(min=1e-5).div(most)
    return scales, torch.zeros_like(scales)


def _choose_qparams_per_token_asymmetric_impl(input: Any, dtype: Any) -> tuple[Any, Any]:
    low, high = torch.aminmax(input, dim=-1, keepdim=True)
    low, high = low.clamp(max=0), high.clamp(min=0)
    quant_min, quant_max = -128, 127
    scale = ((high - low) / float(quant_max - quant_min)).clamp(min=torch.finfo(torch.float32).eps)
    below, above = low / scale, high / scale
    zero_point = torch.where(quant_min + below + quant_max + above > 0, quant_min - below, quant_max - above)
    zero_point = torch.clamp(zero_point, quant_min, quant_max).round()
    return scale.to(torch.float64), zero_point.to(torch.int64)


def _check_per_token(input: Any, scales: Any, zero_points: Any) -> None:
    tokens = 1
    for size in list(input.size())[:-1]:
        tokens *= size
    for what, given in (("scales", scales), ("zero_points", zero_points)):
        if tokens != given.numel():
            raise AssertionError(f"num_tokens: {tokens} {what}: {given.size()}")


def quantize_per_token(input: Any, scales: Any, zero_points: Any, quant_min: int, quant_max: int, dtype: Any) -> Any:
    """quantize_per_tensor with a scale and zero point for each row of the last dimension."""
    _check_range(quant_min, quant_max, dtype)
    _check_per_token(input, scales, zero_points)
    return input.mul(1.0 / scales).add(zero_points).round().clamp(quant_min, quant_max).to(dtype)


def dequantize_per_token(
    input: Any, scales: Any, zero_points: Any, quant_min: int, quant_max: int, dtype: Any, output_dtype: Any
) -> Any:
    """(input - zero_point) * scale for each row of the last dimension."""
    return ((input - zero_points) * scales).to(output_dtype)


def _check_groups(input: Any, group_size: int, scales: Any, zero_points: Any) -> None:
    if group_size <= 1:
        raise AssertionError("group_size must be > 1")
    if group_size > input.shape[-1] and scales.shape[-1] == 1:
        return
    if input.shape[-1] % group_size != 0:
        raise AssertionError("input.shape[-1] must be divisible by group_size")
    if input.dim() != 2:
        raise AssertionError("input must be 2-dimensional")


def quantize_per_channel_group(
    input: Any, scales: Any, zero_points: Any, quant_min: int, quant_max: int, dtype: Any, group_size: int = 128
) -> Any:
    """A matrix whose rows have a scale and zero point for each group of group_size elements."""
    if group_size > input.shape[-1] and scales.shape[-1] == 1:
        group_size = input.shape[-1]
    _check_groups(input, group_size, scales, zero_points)
    rows = input.reshape(-1, group_size)
    if torch.isnan(rows).sum() != 0:
        raise AssertionError("to_quant must not contain NaNs")
    by_row = rows.mul(1.0 / scales.reshape(-1, 1)).add(zero_points.reshape(-1, 1)).round()
    return by_row.clamp_(quant_min, quant_max).to(dtype).reshape_as(input)


def dequantize_per_channel_group(
    w_int8: Any,
    scales: Any,
    zero_points: Any,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    group_size: int = 128,
    output_dtype: Any = torch.float32,
) -> Any:
    """The numbers of such a matrix."""
    if group_size > w_int8.shape[-1] and scales.shape[-1] == 1:
        group_size = w_int8.shape[-1]
    _check_groups(w_int8, group_size, scales, zero_points)
    rows = w_int8.reshape(-1, group_size)
    shift = 0 if zero_points is None else zero_points.reshape(-1, 1)
    return rows.sub(shift).mul(scales.reshape(-1, 1)).reshape_as(w_int8).to(output_dtype)


class _FakeQuantPerChannel(torch.autograd.Function):
    """Quantized and dequantized by channel; gradients pass where nothing was cut off."""

    @staticmethod
    def forward(ctx: Any, input: Any, scales: Any, zero_points: Any, axis: int, quant_min: int, quant_max: int) -> Any:
        if input.dtype is not torch.float32 or scales.dtype is not torch.float32:
            raise AssertionError(f"Expecting input to have dtype torch.float32, but got dtype: {input.dtype}")
        at, shift = _along(scales, input.dim(), axis), _along(zero_points, input.dim(), axis)
        whole = torch.round(input * (1.0 / at)) + shift
        held = torch.clamp(whole, quant_min, quant_max)
        ctx.save_for_backward((whole >= quant_min) & (whole <= quant_max))
        return ((held - shift) * at).to(input.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (inside,) = ctx.saved_tensors
        return gradient * inside, None, None, None, None, None


def _convert_element_type_no_fuse(input: Any, dtype: Any) -> Any:
    return input.to(dtype)


# ---------------------------------------------------------------- the operators

_QMINMAX = "int quant_min, int quant_max"
_PAIR = "(Tensor, Tensor)"
_OUT = "*, ScalarType? out_dtype=None"
_WHOLE = f"Tensor input, Tensor scale, Tensor zero_point, {_QMINMAX}, ScalarType dtype"
_PLAIN = f"Tensor input, float scale, int zero_point, {_QMINMAX}, ScalarType dtype"
_OPERATORS: dict[str, Any] = {
    f"quantize_per_tensor({_PLAIN}) -> Tensor": quantize_per_tensor,
    f"quantize_per_tensor.tensor({_WHOLE}) -> Tensor": (quantize_per_tensor_tensor),
    "quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, "
    "ScalarType dtype) -> Tensor": quantize_per_tensor_tensor2,
    f"dequantize_per_tensor({_PLAIN}, {_OUT}) -> Tensor": (dequantize_per_tensor),
    f"dequantize_per_tensor.tensor({_WHOLE}, {_OUT}) -> Tensor": (dequantize_per_tensor_tensor),
    "dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, "
    f"ScalarType dtype, {_OUT}) -> Tensor": dequantize_per_tensor_tensor2,
    f"choose_qparams.tensor(Tensor input, {_QMINMAX}, float eps, ScalarType dtype) -> {_PAIR}": choose_qparams_tensor,
    f"choose_qparams_symmetric.tensor(Tensor input, {_QMINMAX}, float eps, ScalarType dtype) -> {_PAIR}": (
        choose_qparams_symmetric_tensor
    ),
    f"quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, {_QMINMAX}, ScalarType dtype) -> Tensor": (
        quantize_per_channel
    ),
    f"dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, {_QMINMAX}, ScalarType dtype, {_OUT}) "
    "-> Tensor": dequantize_per_channel,
    f"choose_qparams_per_token(Tensor input, ScalarType dtype) -> {_PAIR}": _choose_qparams_per_token,
    f"_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> {_PAIR}": (
        _choose_qparams_per_token_asymmetric_impl
    ),
    f"choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> {_PAIR}": _choose_qparams_per_token_asymmetric_impl,
    f"quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, {_QMINMAX}, ScalarType dtype) -> Tensor": (
        quantize_per_token
    ),
    f"dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, {_QMINMAX}, ScalarType dtype, "
    "ScalarType output_dtype) -> Tensor": dequantize_per_token,
    f"quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, {_QMINMAX}, ScalarType dtype, "
    "int group_size) -> Tensor": quantize_per_channel_group,
    f"dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, {_QMINMAX}, ScalarType dtype, "
    "int group_size, ScalarType output_dtype) -> Tensor": dequantize_per_channel_group,
    f"fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, {_QMINMAX}) -> Tensor": (
        _FakeQuantPerChannel.apply
    ),
    "convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor": _convert_element_type_no_fuse,
}


def _register() -> None:
    for schema, kernel in _OPERATORS.items():
        quantized_decomposed_lib.define(schema)
        differentiable = kernel is _FakeQuantPerChannel.apply
        quantized_decomposed_lib.impl(
            schema.partition("(")[0], kernel, "CompositeImplicitAutograd" if differentiable else "CompositeExplicitAutograd"
        )


_register()
