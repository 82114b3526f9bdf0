"""fake_quantize_per_tensor_affine and its form per channel: round to a grid of integers and back, for training.

Gradients pass where the integer was in range. Composed of pointwise operators. Stands on core.operator.define.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import bfloat16, float16, float32, float64, int32
from flambeau.core.operator.define import operator
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import found, known


def _grid(input: Tensor, scale: Any, zero_point: Any) -> Tensor:
    """The integers, before they are held to the range; zero points that are floats are added before numbers are rounded.

    A NaN counts as the least; with a scale to each channel they go through int64, so that what is too large counts so too.
    """
    wide = input if input._layout.dtype is float64 else input.to(float32)
    steps, inside = wide * (1 / scale), isinstance(zero_point, Tensor) and zero_point._layout.dtype.is_floating_point
    whole = (steps + zero_point).round() + 0 if inside else steps.round() + zero_point  # an integer has no -0
    return NAMESPACE["where"](~(whole.abs() < 2.0**63) if scale._layout.ndim else whole.isnan(), -(2.0**63), whole)


def _check(kernel: str, input: Tensor, quant_min: int, quant_max: int) -> None:
    if not input._layout.dtype.is_floating_point:
        raise NotImplementedError(f"\"{kernel}_type_handling\" not implemented for '{input._layout.dtype.scalar_name}'")
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")


_ZERO_POINT = "`zero_point` must be between `quant_min` and `quant_max`."


def _check_channels(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int) -> None:
    """RuntimeError or IndexError for what doesn't fit the input."""
    kind, steps = scale._layout.dtype, zero_point._layout.dtype
    if kind not in (float32, bfloat16):
        raise RuntimeError(f"Scale must be Float or BFloat16, found {kind.scalar_name}")
    if steps not in (int32, float32, float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {steps.scalar_name}")
    if scale.dim() != 1 or zero_point.dim() != 1:
        raise RuntimeError("scale should be a 1-D tensor" if scale.dim() != 1 else "zero point should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    ndim = input.dim()
    if not -ndim <= axis < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {axis})")
    if scale.numel() != input.shape[axis]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    # Zero points that are floats, as of embeddings, may lie anywhere.
    if not zero_point.dtype.is_floating_point and found((zero_point < quant_min).any() | (zero_point > quant_max).any()):
        raise RuntimeError(_ZERO_POINT)
    if axis < 0:
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")


def _column(vector: Tensor, axis: int, ndim: int) -> Tensor:
    shape = [1] * ndim
    shape[axis] = -1
    return vector.detach().reshape(shape)


def _back(input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
    steps = _grid(input, scale, zero_point).clamp(quant_min, quant_max) - zero_point
    return ((steps if scale._layout.ndim else steps.to(float32)) * scale).to(input._layout.dtype)


def _passed(g: Tensor, input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
    whole = _grid(input.detach(), scale, zero_point)
    return g.masked_fill((whole < quant_min) | (whole > quant_max), 0)


def _one(input: Tensor, scale: Any, zero_point: Any) -> tuple[Tensor, Any]:
    """One scale, as a tensor of float32 without dimensions, which decides in no promotion, and one zero point: a number, or a
    tensor that has no values.
    """
    scale, zero_point = [x.item() if isinstance(x, Tensor) and known(x) else x for x in (scale, zero_point)]
    if isinstance(zero_point, Tensor):
        zero_point = zero_point.reshape(())  # type: ignore[attr-defined]
    if isinstance(scale, Tensor):
        return scale.reshape(()).to(float32), zero_point  # type: ignore[attr-defined]
    return NAMESPACE["tensor"](scale, dtype=float32, device=input._layout.device), zero_point


@operator(method=False, node="FakeQuantizePerTensorAffineCachemaskBackward0")
def fake_quantize_per_tensor_affine(input: Tensor, scale, zero_point, quant_min, quant_max) -> Tensor:
    """input rounded to (q - zero_point) * scale with whole q from quant_min to quant_max.

    scale, zero_point: numbers or tensors of one element. NotImplementedError for integers, RuntimeError for a zero point that is
    out of the range.
    """
    _check("fake_quantize_tensor_cachemask_kernel", input, quant_min, quant_max)
    scale, zero_point = _one(input, scale, zero_point)
    if not isinstance(zero_point, Tensor) and not quant_min <= zero_point <= quant_max:
        raise RuntimeError(_ZERO_POINT)
    return _back(input, scale, zero_point, quant_min, quant_max)


@fake_quantize_per_tensor_affine.vjp
def _(g, input, scale, zero_point, quant_min, quant_max):
    return _passed(g, input, *_one(input, scale, zero_point), quant_min, quant_max)


@operator(method=False, node="FakeQuantizePerChannelAffineCachemaskBackward0")
def fake_quantize_per_channel_affine(input: Tensor, scale, zero_point, axis, quant_min, quant_max) -> Tensor:
    """fake_quantize_per_tensor_affine with a scale and zero point (1-D tensors) to each index of dimension `axis`.

    scale: float32 or bfloat16; zero_point: int32, float32 or float16. RuntimeError for other dtypes, lengths and ranges.
    """
    _check("fake_quantize_channel_cachemask_cpu", input, quant_min, quant_max)
    _check_channels(input, scale, zero_point, axis, quant_min, quant_max)
    ndim = input.dim()
    return _back(input, _column(scale, axis, ndim), _column(zero_point, axis, ndim), quant_min, quant_max)


@fake_quantize_per_channel_affine.vjp
def _(g, input, scale, zero_point, axis, quant_min, quant_max):
    ndim = input.dim()
    return _passed(g, input, _column(scale, axis, ndim), _column(zero_point, axis, ndim), quant_min, quant_max)
