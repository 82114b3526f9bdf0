"""From floats to quantized tensors and back: quantize_per_tensor, quantize_per_channel, dequantize and their kin.

The integer of x is round(x * (1 / scale) + zero_point) in float32, held to the dtype's range. Stands on ops.quantized.tensor;
the namespace and the methods of Tensor load it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau.base import qscheme as qschemes
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float32, float64, int64, qint8, qint32, quint8
from flambeau.base.layout import contiguous_format
from flambeau.core.autograd.undefined import recorded
from flambeau.core.modes.modes import no_grad
from flambeau.core.operator.arguments import no_combination
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.unsupported import not_run
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ops.creation.copy import suggested_format
from flambeau.ops.quantized.rounding import codes_in_float, codes_of, codes_of_kernel, numbers_in_kernel, numbers_of, small_codes
from flambeau.ops.quantized.tensor import CODES, PER_BYTE, RANGES, PerChannel, PerTensor, QuantizedTensor, codes, rule, wrapped

__all__ = [
    "_choose_qparams_per_tensor",
    "_empty_affine_quantized",
    "_empty_per_channel_affine_quantized",
    "_make_per_channel_quantized_tensor",
    "_make_per_tensor_quantized_tensor",
    "choose_qparams_optimized",
    "dequantize",
    "empty_quantized",
    "int_repr",
    "q_per_channel_axis",
    "q_per_channel_scales",
    "q_per_channel_zero_points",
    "q_scale",
    "q_zero_point",
    "qscheme",
    "quantize_per_channel",
    "quantize_per_tensor",
    "quantize_per_tensor_dynamic",
]

_INTERNAL = "  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
#: The greatest float32 below 2 ** 63.
_THROUGH_INT64 = float(2**63 - 2**39)
_ANY_DTYPE = "Creation of quantized tensor requires quantized dtype like torch.quint8"


def _inverse(scale: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(1) / np.float32(scale))


def _check_float(x: Tensor, name: str = "quantize_per_tensor", words: str = "Quantize only works on Float Tensor") -> None:
    if isinstance(x, QuantizedTensor):
        raise NotImplementedError(not_run(name, "QuantizedCPU"))
    if x._layout.dtype is not float32:
        raise RuntimeError(f"{words}, got {x._layout.dtype.scalar_name}")


def _check_dtype(dtype: Any) -> None:
    if dtype not in CODES:
        name = dtype.scalar_name if isinstance(dtype, DType) else dtype
        raise RuntimeError(f"ScalarType {name} is not supported in new_qtensor.")


def _check_zero_point(kernel: str, dtype: DType, least: float, greatest: float) -> None:
    low, high = RANGES[dtype]
    if least < low:
        raise RuntimeError(f"{kernel} zero_point {int(least)} is below lower bound.")
    if greatest > high:
        raise RuntimeError(f"{kernel} zero_point {int(greatest)} is above upper bound.")


def in_format(x: Any) -> Any:
    """A tensor without gaps in the memory format that it is taken to be in, which is what quantized results have."""
    return x.contiguous(memory_format=suggested_format(x._layout))


def with_quantizer(x: Tensor, quantizer: Any, dtype: DType, kernel: bool = False) -> Any:
    """The quantized tensor of a float32 tensor, nothing being checked. kernel: rounded as kernels do it."""
    low, high = RANGES[dtype]
    x = in_format(x.detach())
    bounds: dict[str, Any] = {"low": low, "high": high, "result": CODES[dtype]}
    if isinstance(quantizer, PerTensor):
        inverse, zero_point = _inverse(quantizer.scale), quantizer.zero_point
        if dtype is qint32:
            made = codes_in_float(x, inverse, zero_point, limit=math.inf, odd=low, **bounds)
        elif dtype in PER_BYTE:
            made = small_codes(x, inverse, zero_point, limit=_THROUGH_INT64, odd=low, **bounds)
        else:
            made = (codes_of_kernel if kernel else codes_of)(x, inverse, zero_point, **bounds)
    else:
        if quantizer.scheme is qschemes.per_channel_affine:
            limit, odd = math.inf, low if dtype is qint32 else 0
            _check_axis_of_format(x, quantizer.axis)
        else:
            x, limit, odd = x.contiguous(), _THROUGH_INT64, low  # type: ignore[attr-defined]
        scales, zero_points = (quantizer.column(v, x.dim()).to(float32) for v in (quantizer.scales, quantizer.zero_points))
        made = codes_in_float(x, 1 / scales, zero_points, limit=limit, odd=odd, **bounds)
    return wrapped(made, quantizer, dtype)


def _check_axis_of_format(x: Tensor, axis: int) -> None:
    if axis > 1 and suggested_format(x._layout) is not contiguous_format:
        raise RuntimeError("If tensor is channels_last contig then per channel quantization is supported only for axis = 0 or 1.")


def quantize_per_tensor(input: Any, scale: Any = None, zero_point: Any = None, dtype: Any = None, **older: Any) -> Any:
    """The quantized tensor (quint8, qint8, qint32) nearest to a float32 tensor with this scale and zero point.

    scale, zero_point: numbers, or tensors of one; of a list of tensors, tensors with one for each. RuntimeError for other
    dtypes, and for a zero point out of the dtype's range.
    """
    scale, zero_point = older.pop("scales", scale), older.pop("zero_points", zero_point)
    if isinstance(input, (list, tuple)):
        return tuple([quantize_per_tensor(x, scale[n], zero_point[n], dtype) for n, x in enumerate(input)])
    if isinstance(zero_point, float) or not isinstance(dtype, DType):
        given = (input, scale, zero_point) if dtype is None else (input, scale, zero_point, dtype)
        raise no_combination("quantize_per_tensor", given)
    scale, zero_point = (v.item() if isinstance(v, Tensor) else v for v in (scale, zero_point))
    _check_float(input)
    _check_dtype(dtype)
    _check_zero_point("quantize_tensor_per_tensor_affine", dtype, zero_point, zero_point)
    return with_quantizer(input, PerTensor(float(scale), int(zero_point)), dtype)


def _per_channel(scales: Tensor, zero_points: Tensor, axis: int) -> PerChannel:
    if zero_points.is_floating_point():
        return PerChannel(scales.to(float32).clone(), zero_points.to(float32).clone(), axis)
    return PerChannel(scales.to(float64).clone(), zero_points.to(int64).clone(), axis)


def _check_vectors(scales: Tensor, zero_points: Tensor) -> None:
    for name, vector in (("scale", scales), ("zero_points", zero_points)):
        if vector.dim() != 1:
            raise RuntimeError(f"{name} tensor must have dimension 1")
    if scales.numel() != zero_points.numel():
        raise RuntimeError("number of elements in scales and zero_points must match")
    if not scales.is_floating_point():
        raise RuntimeError("scale tensor must be floating point")


def _check_channels(size: Sequence[int], scales: Tensor, zero_points: Tensor, axis: int, what: str) -> None:
    _check_vectors(scales, zero_points)
    if not 0 <= axis < len(size):
        raise RuntimeError(f"Channel axis out of range in per channel affine {what}. Got: {axis}Expected: [0, {len(size)})")
    if size[axis] != scales.numel():
        raise RuntimeError(f"length of scales must equal to channel, expected {size[axis]} got, {scales.numel()}")


def quantize_per_channel(input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any) -> Any:
    """The quantized tensor nearest to a float32 tensor, with a scale and a zero point (1-D tensors) for each index of `axis`.

    Zero points of a float dtype aren't rounded (torch.per_channel_affine_float_qparams). RuntimeError for vectors of another
    length, for other dtypes, and for zero points out of range.
    """
    kernel = "quantize_tensor_per_channel_affine"
    _check_float(input, "quantize_per_channel", f"{kernel} expects a Float Tensor")
    _check_dtype(dtype)
    _check_channels(input.shape, scales, zero_points, axis, "quantization")
    quantizer = _per_channel(scales, zero_points, axis)
    if dtype in PER_BYTE and not zero_points.is_floating_point():
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")
    if scales.numel() and not zero_points.is_floating_point():
        _check_zero_point(kernel, dtype, quantizer.zero_points.min().item(), quantizer.zero_points.max().item())  # type: ignore[attr-defined]
    return with_quantizer(input, quantizer, dtype)


def qparams_of_range(low: float, high: float, least: int, greatest: int, power_of_two: bool = False) -> tuple[float, int]:
    """The scale and zero point with which numbers from `low` to `high`, and 0, are integers from `least` to `greatest`.

    In float32 and float64 as PyTorch's kernels compute it, so that both choose the same. RuntimeError for a range that isn't
    one.
    """
    if not low <= high:
        raise RuntimeError("In ChooseQuantizationParams, min should be less than or equal to max")
    low, high = float(np.float32(min(low, 0.0))), float(np.float32(max(high, 0.0)))
    scale = (high - low) / (greatest - least)
    if np.float32(scale) == 0.0 or math.isinf(_inverse(scale)):
        scale = 0.1
    if power_of_two:
        scale = 2.0 ** math.ceil(math.log2(scale))
    smallest = float(np.float32(6.1e-5))
    if scale < smallest:
        before, scale = scale, smallest
        if low == 0.0:
            high = float(np.float32(smallest * (greatest - least)))
        elif high == 0.0:
            low = float(np.float32(-smallest * (greatest - least)))
        else:
            grown = float(np.float32(smallest) / np.float32(before))
            low, high = low * grown, high * grown
    from_low, from_high = least - low / scale, greatest - high / scale
    error_low, error_high = abs(least) + abs(low / scale), abs(greatest) + abs(high / scale)
    start = from_low if error_low < error_high else from_high
    if math.isnan(start):  # of an infinite range; PyTorch casts it to an int32
        return scale, -(2**31)
    nudged = least if start < least else greatest if start > greatest else round(start)
    return scale, int(nudged)


def _choose_qparams_per_tensor(self: Tensor, reduce_range: bool = False) -> tuple[float, int]:
    """The scale and zero point with which all elements are unsigned bytes, or numbers of 7 bits if reduce_range."""
    return qparams_of_range(*_range(self), 0, 127 if reduce_range else 255)


def _range(x: Tensor) -> tuple[float, float]:
    """The least and the greatest element. RuntimeError if there is none."""
    if not x.numel():
        raise RuntimeError(
            "min(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    low, high = NAMESPACE["aminmax"](x.detach())
    return low.item(), high.item()


def quantize_per_tensor_dynamic(input: Tensor, dtype: Any, reduce_range: bool) -> Any:
    """The quantized tensor (quint8 or qint8) of a float32 tensor whose scale and zero point its least and greatest element
    give; reduce_range: one bit is left unused.
    """
    if dtype not in (quint8, qint8):
        raise RuntimeError("dtype " + (dtype.scalar_name if isinstance(dtype, DType) else str(dtype)) + "not supported")
    _check_float(input)
    least, greatest = RANGES[dtype]
    if reduce_range:
        least, greatest = least // 2, greatest // 2
    scale, zero_point = qparams_of_range(*_range(input), least, greatest)
    return quantize_per_tensor(input, scale, zero_point, dtype)


def dequantize(input: Any, *more: Any, tensors: Any = None) -> Any:
    """The float32 numbers that a quantized tensor stands for; a plain tensor as float32. Of a list, those of each."""
    input = tensors if tensors is not None else input
    if isinstance(input, (list, tuple)):
        return tuple([dequantize(x) for x in input])
    if not isinstance(input, QuantizedTensor):
        if not known(input):
            raise needs_values(input, "dequantize.self")
        if input.dtype is float32:
            return input
        with no_grad():
            made = input.to(float32)
        return recorded("dequantize", made, (input,))
    quantizer, integers = input._quantizer, in_format(codes(input))
    if isinstance(quantizer, PerTensor):
        if input._layout.dtype is qint32:  # the difference is one of int32, which wraps around
            return numbers_of(integers - quantizer.zero_point, quantizer.scale, 0)
        return numbers_of(integers, quantizer.scale, quantizer.zero_point)
    ndim = integers.dim()
    if not 0 <= quantizer.axis < ndim:
        raise RuntimeError(
            f"Channel axis out of range in per channel affine dequantization. Got:{quantizer.axis} Expected: [0, {ndim})"
        )
    if integers.shape[quantizer.axis] != quantizer.scales.numel():
        raise RuntimeError(
            f"length of scales must equal to channel, expected {integers.shape[quantizer.axis]} got, {quantizer.scales.numel()}"
        )
    if quantizer.scheme is qschemes.per_channel_affine:
        _check_axis_of_format(integers, quantizer.axis)
    scales, zero_points = (quantizer.column(v, ndim).to(float32) for v in (quantizer.scales, quantizer.zero_points))
    return numbers_of(integers, scales, zero_points)


def numbers_by_kernel(x: Any) -> Any:
    """The numbers of a tensor that is quantized as a whole as kernels compute them; they may differ in the last bit."""
    return numbers_in_kernel(codes(x), *scale_and_less(x))


def scale_and_less(x: Any) -> tuple[float, float]:
    """What kernels multiply the integers of a tensor that is quantized as a whole by, and then take away."""
    scale = np.float32(x._quantizer.scale)
    return float(scale), float(np.float32(scale * np.float32(x._quantizer.zero_point)))


def requantized(x: Any, numbers: Tensor, kernel: bool = False) -> Any:
    """Float32 numbers with the quantizer and dtype of `x`. kernel: rounded as kernels do it."""
    return with_quantizer(numbers, x._quantizer, x._layout.dtype, kernel)


# ---------------------------------------------------------------- what a quantized tensor says of itself


def _quantized(x: Any, name: str) -> QuantizedTensor:
    if not isinstance(x, QuantizedTensor):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(x).__name__}")
        raise NotImplementedError(not_run(name, "CPU"))
    return x


def _of_one(x: Any, name: str) -> PerTensor:
    quantizer = _quantized(x, name)._quantizer
    if not isinstance(quantizer, PerTensor):
        raise RuntimeError("Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false." + _INTERNAL)
    return quantizer


def _of_many(x: Any, name: str) -> PerChannel:
    quantizer = _quantized(x, name)._quantizer
    if not isinstance(quantizer, PerChannel):
        raise RuntimeError(
            "Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == kPerChannelAffineFloatQParams to be "
            "true, but got false." + _INTERNAL
        )
    return quantizer


def q_scale(input: Tensor) -> float:
    """The scale of a tensor that is quantized as a whole. RuntimeError for one that is by channels."""
    return _of_one(input, "q_scale").scale


def q_zero_point(input: Tensor) -> int:
    """The integer that stands for 0, of a tensor that is quantized as a whole. RuntimeError for one that is by channels."""
    return _of_one(input, "q_zero_point").zero_point


def q_per_channel_scales(input: Tensor) -> Tensor:
    """The scales of a tensor that is quantized by channels. RuntimeError for others."""
    return _of_many(input, "q_per_channel_scales").scales


def q_per_channel_zero_points(input: Tensor) -> Tensor:
    """The zero points of a tensor that is quantized by channels. RuntimeError for others."""
    return _of_many(input, "q_per_channel_zero_points").zero_points


def q_per_channel_axis(input: Tensor) -> int:
    """The dimension whose indices have scales of their own. RuntimeError for tensors that are quantized as a whole."""
    return _of_many(input, "q_per_channel_axis").axis


def qscheme(input: Tensor) -> Any:
    """How the integers stand for numbers: torch.per_tensor_affine, per_channel_affine ..."""
    return _quantized(input, "qscheme")._quantizer.scheme


def _copy(integers: Any) -> Any:
    """A copy of integers in the format of quantized results."""
    return integers.clone(memory_format=suggested_format(integers._layout))


def int_repr(input: Tensor) -> Tensor:
    """A copy of the integers: uint8, int8 or int32; of quint4x2 and quint2x4 bytes of several, the first in the low bits."""
    x = _quantized(input, "int_repr")
    return packed_bytes(codes(x).reshape(-1), PER_BYTE[x.dtype]) if x.dtype in PER_BYTE else _copy(codes(x))  # type: ignore[attr-defined]


def packed_bytes(integers: Any, count: int) -> Tensor:
    """Small integers `count` to a byte along the last dimension, which is filled up with zeros."""
    bits = 8 // count
    missing = -integers.shape[-1] % count
    if missing:
        integers = NAMESPACE["cat"]([integers, integers.new_zeros((*integers.shape[:-1], missing))], -1)
    groups = integers.reshape(*integers.shape[:-1], -1, count)
    made = groups[..., 0].clone()
    for place in range(1, count):
        made |= groups[..., place] << (bits * place)
    return made  # type: ignore[no-any-return]


def unpacked_bytes(packed: Any, count: int, length: int) -> Tensor:
    """The integers of bytes that hold `count` of them, `length` along the last dimension."""
    bits = 8 // count
    parts = [(packed >> (bits * place)) & (2**bits - 1) for place in range(count)]
    return NAMESPACE["stack"](parts, -1).reshape(*packed.shape[:-1], -1)[..., :length].contiguous()  # type: ignore[no-any-return]


for _name in __all__:
    if _name[0] != "_" and not _name.startswith(("quantize", "choose", "empty")):
        rule(_name)(globals()[_name])


# ---------------------------------------------------------------- from parts


def _empty_codes(size: Sequence[int], dtype: Any, memory_format: Any) -> Any:
    if dtype not in CODES:
        raise RuntimeError(_ANY_DTYPE)
    wanted = {} if memory_format is None else {"memory_format": memory_format}
    return NAMESPACE["empty"](tuple(size), dtype=CODES[dtype], device="cpu", **wanted)


def _empty_affine_quantized(
    size: Sequence[int],
    *,
    scale: float = 1,
    zero_point: int = 0,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = contiguous_format,
) -> Any:
    """A quantized tensor of this shape with integers of no meaning. RuntimeError for a dtype that isn't quantized."""
    return wrapped(_empty_codes(size, dtype, memory_format), PerTensor(float(scale), int(zero_point)), dtype)


def _empty_per_channel_affine_quantized(
    size: Sequence[int],
    *,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = contiguous_format,
) -> Any:
    """The same with a scale and a zero point for each index of `axis`."""
    _check_vectors(scales, zero_points)
    return wrapped(_empty_codes(size, dtype, memory_format), _per_channel(scales, zero_points, axis), dtype)


def empty_quantized(size: Sequence[int], qtensor: Tensor, *, dtype: Any = None, memory_format: Any = None, **_: Any) -> Any:
    """A quantized tensor of this shape, with the quantizer of another, and integers of no meaning."""
    given: Any = _quantized(qtensor, "empty_quantized")
    return wrapped(_empty_codes(size, dtype or given.dtype, memory_format), given._quantizer, dtype or given.dtype)


_QUANTIZED = {CODES[dtype]: dtype for dtype in (quint8, qint8, qint32)}


def _dtype_for(integers: Tensor, name: str) -> DType:
    found = _QUANTIZED.get(integers._layout.dtype)
    if found is None:
        raise NotImplementedError(f"\"{name}\" not implemented for '{integers._layout.dtype.scalar_name}'")
    return found


def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> Any:
    """Integers (uint8, int8, int32) as a quantized tensor: a copy."""
    return wrapped(_copy(input), PerTensor(float(scale), int(zero_point)), _dtype_for(input, "make_per_tensor_quantized_tensor"))


def _make_per_channel_quantized_tensor(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> Any:
    """Integers (uint8, int8, int32) as a tensor that is quantized by channels: a copy."""
    dtype = _dtype_for(input, "make_per_channel_quantized_tensor")
    _check_channels(input.shape, scale, zero_point, axis, "quantization")
    return wrapped(_copy(input), _per_channel(scale, zero_point, axis), dtype)


# ---------------------------------------------------------------- the range with the least error


def _error_of_row(row: np.ndarray, low: np.float32, high: np.float32, greatest: int) -> float:
    span = high - low
    scale = np.float32(1) if span == 0 else np.float32(span / np.float32(greatest))
    inverse = np.float32(1) / scale
    steps = np.clip(np.rint((row - low) * inverse), 0, greatest).astype(np.float32)
    return float(np.sqrt(np.sum((row - (steps * scale + low)) ** 2, dtype=np.float32)))


def choose_qparams_optimized(input: Tensor, numel: int, n_bins: int, ratio: float, bit_width: int) -> tuple[Any, Any]:
    """(greatest, least): the range within that of the elements, cut from either end in steps, at which integers of bit_width
    bits reproduce them best. n_bins: into how many steps the range is cut; ratio: what share of it may be cut off. RuntimeError
    for numel that isn't the number of elements.
    """
    if numel <= 0 or numel > input.numel():
        raise RuntimeError("numel must be the number of elements")
    row = input.detach().reshape(-1)[:numel].to(float32).numpy()  # type: ignore[attr-defined]
    low, high = row.min(), row.max()  # float32, as everything that is computed of them
    step = (high - low) / np.float32(n_bins)
    narrowest = (high - low) * (np.float32(1) - np.float32(ratio))
    greatest = 2**bit_width - 1
    at_low, at_high, least_error = low, high, _error_of_row(row, low, high, greatest)
    best_low, best_high = at_low, at_high
    while at_low + step < at_high and at_high - at_low > narrowest:
        raised = _error_of_row(row, at_low + step, at_high, greatest)
        lowered = _error_of_row(row, at_low, at_high - step, greatest)
        if raised < lowered:
            at_low, error = at_low + step, raised
        else:
            at_high, error = at_high - step, lowered
        if error < least_error:
            least_error, best_low, best_high = error, at_low, at_high
    tensor = NAMESPACE["tensor"]
    return tensor([float(best_high)], dtype=float32), tensor([float(best_low)], dtype=float32)
