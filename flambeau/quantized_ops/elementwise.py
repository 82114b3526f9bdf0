"""Sums, products, activations, norms and pools of quantized tensors: computed on the numbers, and rounded once.

Stands on ops.quantized and nn.functional.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.ops.quantized.conversion import _inverse, in_format, numbers_by_kernel, requantized, scale_and_less, with_quantizer
from flambeau.ops.quantized.rounding import codes_of_product, codes_of_sum
from flambeau.ops.quantized.tensor import CODES, RANGES, PerTensor, QuantizedTensor, codes, wrapped

__all__ = ["OPERATORS"]

F = torch.nn.functional


def _quantized(numbers: Any, scale: float, zero_point: int, dtype: Any) -> Any:
    return torch.quantize_per_tensor(numbers, scale, zero_point, dtype)


def _range(zero_point: int, dtype: Any) -> tuple[int, int]:
    """The least and the greatest integer of a dtype. RuntimeError for a zero point that is none of them."""
    low, high = RANGES[dtype]
    if not low <= zero_point <= high:
        raise RuntimeError(f"output zero_point {zero_point} is out of the range of {dtype}")
    return low, high


def by_kernel(numbers: Any, scale: float, zero_point: int, dtype: Any) -> Any:
    """Numbers quantized as kernels do it. RuntimeError for a zero point that is out of range."""
    _range(zero_point, dtype)
    return with_quantizer(numbers, PerTensor(float(scale), int(zero_point)), dtype, kernel=True)


def _check_two(name: str, qa: Any, qb: Any) -> None:
    for x in (qa, qb):
        if not isinstance(x, QuantizedTensor):
            raise RuntimeError(f"quantized::{name} takes two quantized tensors")
        if not isinstance(x._quantizer, PerTensor):
            raise RuntimeError(f"Only per tensor quantization is supported in {name.capitalize()}.")
    if qa.dtype is not qb.dtype:
        raise RuntimeError(f"{name.capitalize()} operands should have same data type.")


# ---------------------------------------------------------------- two tensors


def _two(name: str, function: Callable, kernel: Callable, relu: bool) -> dict[str, Any]:
    """An operator of two tensors, one kernel, and its form that writes to a third, with that one's quantizer."""

    def numbers(qa: Any, qb: Any) -> Any:
        made = function(numbers_by_kernel(qa), numbers_by_kernel(qb))
        return made.relu() if relu else made

    def operator(qa: Any, qb: Any, scale: float, zero_point: int) -> Any:
        _check_two(name, qa, qb)
        if qa.dtype is torch.qint32:
            return by_kernel(numbers(qa, qb), scale, zero_point, qa.dtype)
        bounds = {"zero_point": zero_point, "result": CODES[qa.dtype]}
        made = in_format(kernel(qa, qb, scale, relu, *_range(zero_point, qa.dtype), **bounds))
        return wrapped(made, PerTensor(float(scale), int(zero_point)), qa.dtype)

    def out(qa: Any, qb: Any, out: Any) -> Any:
        if out.dtype is not qa.dtype:
            raise RuntimeError(
                "It is currently not supported to specify a dtype that doesn't match the input tensor's dtype via "
                f"empty_like.  Specified: c10::{qa.dtype.c_name} Input tensor's dtype: c10::{out.dtype.c_name}"
            )
        return _stored(out, operator(qa, qb, out.q_scale(), out.q_zero_point()))

    full = name + ("_relu" if relu else "")
    return {full: operator, f"{full}.out": out, f"{full}_out": out}


def _sum(qa: Any, qb: Any, scale: float, relu: bool, low: int, high: int, **more: Any) -> Any:
    factors = (*scale_and_less(qa), *scale_and_less(qb), _inverse(scale))
    return codes_of_sum(codes(qa), codes(qb), *factors, least=0.0 if relu else -math.inf, low=low, high=high, **more)


def _product(qa: Any, qb: Any, scale: float, relu: bool, low: int, high: int, zero_point: int, **more: Any) -> Any:
    factor = scale_and_less(qa)[0] * scale_and_less(qb)[0]
    with np.errstate(all="ignore"):
        factor = float(np.float32(np.float32(factor) * np.float32(_inverse(scale))))
    low = max(low, zero_point) if relu else low
    odd = low if zero_point >= 0 else high  # the least int32 and a negative number are a great one
    zeros = qa.q_zero_point(), qb.q_zero_point()
    return codes_of_product(codes(qa), codes(qb), *zeros, factor, zero_point=zero_point, odd=odd, low=low, high=high, **more)


def _written(out: Any, numbers: Any) -> Any:
    return _stored(out, requantized(out, numbers))


def _stored(out: Any, made: Any) -> Any:
    if out.shape != made.shape:
        out.resize_(made.shape)
    codes(out).copy_(codes(made))  # type: ignore[attr-defined]
    return out


# ---------------------------------------------------------------- a tensor and a number


def _plus(qa: Any, number: float) -> Any:
    """qa + number: the integers stay, if the zero point can move by so much, and the range is widened otherwise."""
    low, high = RANGES[qa.dtype]
    scale, zero_point = qa.q_scale(), qa.q_zero_point()
    moved = zero_point - round(number / scale)
    if low <= moved <= high:
        return wrapped(codes(qa).clone(), PerTensor(scale, moved), qa.dtype)  # type: ignore[attr-defined]
    if moved < low:
        return _quantized(qa.dequantize() + number, (high - moved) / (high - low) * scale, low, qa.dtype)
    return _quantized(qa.dequantize() + number, (moved - low) / (high - low) * scale, high, qa.dtype)


def _times(qa: Any, number: float) -> Any:
    """qa * number: the integers stay, or are mirrored for a negative number."""
    low, high = RANGES[qa.dtype]
    scale, zero_point = qa.q_scale(), qa.q_zero_point()
    integers: Any = codes(qa)
    if number > 0:
        return wrapped(integers.clone(), PerTensor(number * scale, zero_point), qa.dtype)
    if number == 0:
        return wrapped(torch.zeros_like(integers), PerTensor(1.0, 0), qa.dtype)
    mirrored = (low + high - integers.to(torch.int64)).to(integers.dtype)
    return wrapped(mirrored, PerTensor(-number * scale, high - (zero_point - low)), qa.dtype)


def _with_number(name: str, function: Callable, relu: bool) -> dict[str, Any]:
    def operator(qa: Any, b: Any) -> Any:
        if not isinstance(qa, QuantizedTensor) or not isinstance(qa._quantizer, PerTensor):
            raise RuntimeError(f"Only per tensor quantization is supported in {name.capitalize()}.")
        made = function(qa, float(b))
        return made.relu() if relu else made

    def out(qa: Any, b: Any, out: Any) -> Any:
        made = operator(qa, b)
        return _taken(out, made)

    end = "_relu" if relu else ""
    return {
        f"{name}{end}.Scalar": operator,
        f"{name}{end}.Scalar2": lambda b, qa: operator(qa, b),
        f"{name}{end}.Scalar_out": out,
        f"{name}_scalar{end}": operator,
        f"{name}_scalar{end}.Tensor": operator,
        f"{name}_scalar{end}_out": out,
        f"{name}_scalar{end}_out.Tensor": out,
    }


def _taken(out: Any, made: Any) -> Any:
    """`out` with the integers and the quantizer of another tensor."""
    if out.shape != made.shape:
        out.resize_(made.shape)
    codes(out).copy_(codes(made))  # type: ignore[attr-defined]
    out._quantizer = made._quantizer
    return out


# ---------------------------------------------------------------- several tensors


def _cat(relu: bool) -> dict[str, Any]:
    def numbers(qx: Any, dim: int) -> Any:
        for x in qx:
            if not isinstance(x, QuantizedTensor) or not isinstance(x._quantizer, PerTensor):
                raise RuntimeError("Only per-tensor quantization is supported in 'cat'!")
            if x.dtype is not qx[0].dtype:
                raise RuntimeError("All dtypes must be the same.")
        made = torch.cat([x.dequantize() for x in qx], dim)
        return made.relu() if relu else made

    def operator(qx: Any, dim: int, scale: float | None, zero_point: int | None) -> Any:
        first = qx[0]
        made = numbers(qx, dim)
        scale = first.q_scale() if scale is None else scale
        zero_point = first.q_zero_point() if zero_point is None else zero_point
        return _quantized(made, scale, zero_point, first.dtype)

    name = "cat_relu" if relu else "cat"
    return {name: operator, f"{name}_out": lambda qx, dim, out: _written(out, numbers(qx, dim))}


def _matmul(qa: Any, qb: Any, scale: float, zero_point: int) -> Any:
    _check_two("matmul", qa, qb)
    if qa.dim() != qb.dim() or qa.dim() < 2:
        raise RuntimeError("MatMul operands should have the same number of dimensions, at least 2")
    return _quantized(torch.matmul(qa.dequantize(), qb.dequantize()), scale, zero_point, qa.dtype)


# ---------------------------------------------------------------- one tensor


def _one(function: Callable) -> Any:
    """A function of the numbers, whose last two arguments are the scale and the zero point of the result."""

    def operator(x: Any, *args: Any, output_scale: Any = None, output_zero_point: Any = None) -> Any:
        *rest, scale, zero_point = (*args, *(v for v in (output_scale, output_zero_point) if v is not None))
        return by_kernel(function(numbers_by_kernel(x), *rest), scale, int(zero_point), x.dtype)

    return operator


def _elu(x: Any, scale: float, zero_point: int, alpha: float = 1, factor: float = 1, input_scale: float = 1) -> Any:
    numbers = numbers_by_kernel(x)
    below = (torch.exp(numbers * input_scale) - 1) * (alpha * factor)
    return by_kernel(torch.where(numbers > 0, numbers * factor, below), scale, zero_point, x.dtype)


def _leaky_relu(x: Any, negative_slope: float, inplace: bool, scale: float, zero_point: int) -> Any:
    return by_kernel(F.leaky_relu(numbers_by_kernel(x), negative_slope), scale, zero_point, x.dtype)


def _threshold(x: Any, threshold: float, value: float) -> Any:
    return F.threshold(x, threshold, value)


def _batch_norm(relu: bool, dims: tuple[int, ...]) -> Any:
    def operator(x: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, scale: float, zero_point: int) -> Any:
        if x.dim() not in dims:
            raise RuntimeError(f"Expecting the input tensor of rank {' or '.join(map(str, dims))}.")
        made = F.batch_norm(x.dequantize(), mean, var, weight, bias, False, 0.0, eps)
        return _quantized(made.relu() if relu else made, scale, zero_point, x.dtype)

    return operator


def _instance_norm(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return F.instance_norm(x, None, None, weight, bias, True, 0.0, eps)


def _dropout(x: Any, scale: float, zero_point: int, p: float = 0.5, training: bool = False) -> Any:
    return _quantized(F.dropout(x.dequantize(), p, training), scale, zero_point, x.dtype) if training else x.clone()


def _prelu(x: Any, weight: Any, scale: float, zero_point: int) -> Any:
    numbers = x.dequantize()
    if x.dim() == 1:  # each of its elements has a weight
        made = F.prelu(numbers.unsqueeze(0), weight.dequantize()).squeeze(0)
    else:
        made = F.prelu(numbers, weight.dequantize())
    return _quantized(made, scale, zero_point, x.dtype)


def _softmax(x: Any, dim: int, scale: float, zero_point: int) -> Any:
    return _quantized(F.softmax(x.dequantize(), dim), scale, zero_point, x.dtype)


def _relu6(x: Any, inplace: bool = False) -> Any:
    made = F.relu6(x)
    return _taken(x, made) if inplace else made


def _table() -> dict[str, Any]:
    made: dict[str, Any] = {
        "matmul": _matmul,
        "clamp": lambda x, min=None, max=None: torch.clamp(x, min, max),
        "threshold": _threshold,
        "relu6": _relu6,
        "sigmoid": _one(torch.sigmoid),
        "hardswish": _one(F.hardswish),
        "softmax": _softmax,
        "elu": _elu,
        "celu": lambda x, scale, zero_point, alpha=1: _elu(x, scale, zero_point, alpha, 1, 1 / alpha),
        "leaky_relu": _leaky_relu,
        "prelu": _prelu,
        "dropout": _dropout,
        "layer_norm": _one(F.layer_norm),
        "group_norm": _one(F.group_norm),
        "instance_norm": _one(_instance_norm),
        "max_pool1d": lambda x, *args: F.max_pool1d(x, *args),
        "max_pool2d": lambda x, *args: F.max_pool2d(x, *args),
    }
    for relu in (False, True):
        for name, function, kernel in (("add", torch.add, _sum), ("mul", torch.mul, _product)):
            made |= _two(name, function, kernel, relu)
        for name, with_number in (("add", _plus), ("mul", _times)):
            made |= _with_number(name, with_number, relu)
        made |= _cat(relu)
        end = "_relu" if relu else ""
        for name, dims in (("", (2, 3, 4, 5)), ("1d", (2, 3)), ("2d", (4,)), ("3d", (5,))):
            made[f"batch_norm{name}{end}"] = _batch_norm(relu, dims)
    return made


#: The kernels by operator.
OPERATORS = _table()
