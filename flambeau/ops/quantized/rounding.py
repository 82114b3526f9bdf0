"""From numbers to the integers of quantized tensors and back, as scalar expressions: one kernel each.

Stands on core.operator.variants; used by ops.quantized.conversion.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import float32, float64
from flambeau.core.operator.annotations import Number, Operand
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s

__all__ = ["codes_in_float", "codes_of", "codes_of_kernel", "numbers_in_kernel", "numbers_of", "small_codes"]

_INNER: dict[str, Any] = {"method": False, "function": False, "inplace": False, "out": False, "differentiable": False}


def _within(steps: Any, low: Any, high: Any) -> Any:
    return s.where(steps <= low, low, s.where(steps < high, steps, high))


def _held(steps: Any, low: Any, high: Any, result: Any) -> Any:
    """Steps held to a range, as integers; a NaN counts as the greatest."""
    return s.cast(_within(steps, low, high), result)


def _counted(steps: Any, limit: Any, odd: Any, low: Any, high: Any, result: Any) -> Any:
    """The same, where NaNs and what lies beyond the limit count as `odd`: PyTorch rounds these through int64 or int32."""
    return _held(s.where(abs(steps) <= limit, steps, odd), low, high, result)


# PyTorch rounds in four ways, which differ where a number lies half way between two integers.


@pointwise(kind=lambda common, result: (float64, result), name="_quantized_codes", **_INNER)
def codes_of(input: Tensor, inverse: Operand, zero_point: Operand, low: Number = 0, high: Number = 255, result=None):
    """What quantize_per_tensor does: the zero point is added first, and both are rounded once, as by a fused multiply-add."""
    return _held(s.round(s.cast(s.cast(input * inverse + zero_point, float32), float64)), low, high, result)


@pointwise(kind=lambda common, result: (float64, result), name="_quantized_codes_in_float", **_INNER)
def codes_in_float(
    input: Tensor,
    inverse: Operand,
    zero_point: Operand,
    low: Number = 0,
    high: Number = 255,
    limit: Number = 0,
    odd: Number = 0,
    result=None,
):
    """What quantize_per_channel does, and every rounding to qint32: the zero point is added first."""
    steps = s.cast(s.cast(s.cast(input * inverse, float32), float64) + zero_point, float32)
    return _counted(s.round(s.cast(steps, float64)), limit, odd, low, high, result)


@pointwise(kind=lambda common, result: (float32, result), name="_quantized_small_codes", **_INNER)
def small_codes(
    input: Tensor,
    inverse: Operand,
    zero_point: Operand,
    low: Number = 0,
    high: Number = 15,
    limit: Number = 0,
    odd: Number = 0,
    result=None,
):
    """What quantize_per_tensor does for integers of 4 and 2 bits: the zero point is added to the rounded number."""
    return _counted(s.round(input * inverse) + zero_point, limit, odd, low, high, result)


@pointwise(kind=lambda common, result: (float32, result), name="_quantized_codes_of_kernel", **_INNER)
def codes_of_kernel(input: Tensor, inverse: Operand, zero_point: Operand, low: Number = 0, high: Number = 255, result=None):
    """What kernels of quantized tensors do: the zero point is added to the rounded number."""
    return _held(s.round(input * inverse) + zero_point, low, high, result)


@pointwise(kind=lambda common: (float32, float32), name="_dequantized", **_INNER)
def numbers_of(input: Tensor, scale: Operand, zero_point: Operand):
    return (input - zero_point) * scale


@pointwise(kind=lambda common: (float32, float32), name="_dequantized_by_kernel", **_INNER)
def numbers_in_kernel(input: Tensor, scale: Operand, less: Operand):
    """What kernels of quantized tensors do: code * scale - (zero point * scale), by a fused multiply-add."""
    return s.fma(input, scale, -less)


@pointwise(kind=lambda common, result: (float32, result), name="_quantized_sum", **_INNER)
def codes_of_sum(
    input: Tensor,
    other: Tensor,
    scale: Operand,
    less: Operand,
    other_scale: Operand,
    other_less: Operand,
    inverse: Operand,
    zero_point: Number = 0,
    least: Number = 0,
    low: Number = 0,
    high: Number = 255,
    result=None,
):
    """What the kernel of two quantized tensors' sum does: their numbers, as `numbers_in_kernel` has them, added and rounded. What
    is below `least` counts as that.
    """
    made = s.fma(input, scale, -less) + s.fma(other, other_scale, -other_less)
    made = s.where(made < least, least, made)
    return _held(s.round(made * inverse) + zero_point, low, high, result)


@pointwise(kind=lambda common, result: (float32, result), name="_quantized_product", **_INNER)
def codes_of_product(
    input: Tensor,
    other: Tensor,
    less: Operand,
    other_less: Operand,
    factor: Operand,
    zero_point: Number = 0,
    odd: Number = 0,
    low: Number = 0,
    high: Number = 255,
    result=None,
):
    """What the kernel of two quantized tensors' product does: the integers without their zero points are multiplied, and that,
    which is exact, by one factor. NaNs and what is no int32 count as `odd`.
    """
    steps = s.round((input - less) * (other - other_less) * factor)
    return s.cast(s.where(abs(steps) < 2.0**31, _within(steps + zero_point, low, high), odd), result)
