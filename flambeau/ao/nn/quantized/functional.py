"""torch.ao.nn.quantized.functional: functions of quantized tensors. Stands on nn.functional and torch.ops.quantized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.nn.modules.utils import _pair, _single, _triple

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool2d",
    "avg_pool3d",
    "celu",
    "clamp",
    "conv1d",
    "conv2d",
    "conv3d",
    "elu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "interpolate",
    "leaky_relu",
    "linear",
    "max_pool1d",
    "max_pool2d",
    "threshold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

F, ops = torch.nn.functional, torch.ops.quantized


def _check(name: str, input: Any) -> None:
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")


def _same(name: str) -> Callable[..., Any]:
    """The function of nn.functional, for quantized tensors only."""
    own = getattr(F, name)

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        _check(name, input)
        return own(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"torch.nn.functional.{name} of a quantized tensor. ValueError for others."
    return function


avg_pool2d, avg_pool3d = _same("avg_pool2d"), _same("avg_pool3d")
adaptive_avg_pool2d, adaptive_avg_pool3d = _same("adaptive_avg_pool2d"), _same("adaptive_avg_pool3d")
interpolate, hardtanh, threshold = _same("interpolate"), _same("hardtanh"), _same("threshold")
max_pool1d, max_pool2d = _same("max_pool1d"), _same("max_pool2d")


def _convolution(dims: int, as_tuple: Callable[[Any], Any]) -> Callable[..., Any]:
    def convolution(
        input: Any,
        weight: Any,
        bias: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        scale: float = 1.0,
        zero_point: int = 0,
        dtype: Any = torch.quint8,
    ) -> Any:
        if padding_mode != "zeros":
            raise NotImplementedError("Only zero-padding is supported!")
        if input.dtype is not torch.quint8:
            raise NotImplementedError("Only torch.quint8 is supported for activation tensor!")
        if weight.dtype is not torch.qint8:
            raise NotImplementedError("Only torch.qint8 is supported for weight tensor!")
        if input.ndim != dims + 2:
            raise ValueError(f"Input shape must be `{({1: '(N, C, L)', 2: '(N, C, H, W)', 3: '(N, C, D, H, W)'})[dims]}`!")
        numbers = [list(as_tuple(n)) for n in (stride, padding, dilation)]
        packed = getattr(ops, f"conv{dims}d_prepack")(weight, bias, *numbers, groups)
        operator = ops.conv1d if dims == 1 else getattr(ops, f"conv{dims}d").new
        return operator(input, packed, scale, zero_point)

    convolution.__name__ = convolution.__qualname__ = f"conv{dims}d"
    convolution.__doc__ = f"A convolution in {dims} dimensions, with a scale and zero point for the result."
    return convolution


conv1d, conv2d, conv3d = _convolution(1, _single), _convolution(2, _pair), _convolution(3, _triple)


def linear(input: Any, weight: Any, bias: Any = None, scale: Any = None, zero_point: Any = None) -> Any:
    """The product with a quantized weight (out, in); scale and zero point are the input's where none are given."""
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    return ops.linear(input, ops.linear_prepack(weight, bias), scale, zero_point)


def celu(input: Any, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """CELU with this scale and zero point."""
    _check("celu", input)
    return ops.celu(input, scale, zero_point, alpha)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False, scale: Any = None, zero_point: Any = None) -> Any:
    """LeakyReLU, with another scale and zero point if they are given."""
    if scale is not None and zero_point is not None:
        assert not inplace, "Cannot rescale with `inplace`"
        made = torch._empty_affine_quantized(input.shape, scale=scale, zero_point=int(zero_point), dtype=input.dtype)
        return made.copy_(ops.leaky_relu(input, negative_slope, False, scale, int(zero_point)))
    return F.leaky_relu(input, negative_slope, inplace)


def hardswish(input: Any, scale: float, zero_point: int) -> Any:
    """Hardswish with this scale and zero point."""
    _check("hardswish", input)
    return ops.hardswish(input, scale, zero_point)


def elu(input: Any, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """ELU with this scale and zero point."""
    _check("elu", input)
    return ops.elu(input, scale, zero_point, alpha)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """Hardsigmoid; the result's scale is 1 / 256."""
    _check("hardsigmoid", input)
    return F.hardsigmoid(input, inplace)


def clamp(input: Any, min_: float, max_: float) -> Any:
    """Held to a range."""
    _check("clamp", input)
    return torch.clamp(input, min_, max_)


def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None) -> Any:
    """The older name of interpolate."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """interpolate(mode="bilinear", align_corners=True)."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """interpolate(mode="nearest")."""
    return interpolate(input, size, scale_factor, mode="nearest")
