"""Products of quantized tensors with packed weights: linear, linear_dynamic and their kin.

Each is one kernel (ops.quantized.products): bytes are multiplied and summed in int32, what the zero points add is taken away as
integers, and the sums are scaled, get the bias and are rounded. Stands on ops.quantized.
"""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau.base.dtype import float32
from flambeau.base.layout import Layout
from flambeau.core.operator.unsupported import not_run
from flambeau.ops.quantized.conversion import _choose_qparams_per_tensor, _inverse
from flambeau.ops.quantized.products import multiply
from flambeau.ops.quantized.tensor import CODES, RANGES, PerTensor, QuantizedTensor, codes, wrapped
from flambeau.quantized_ops.packed import HalfLinearParams, LinearParams

__all__ = ["OPERATORS", "dynamic", "in_float", "scalars_of"]

F = torch.nn.functional


def _rows(x: Any) -> Any:
    if x.dim() < 2:
        raise RuntimeError("The dimension of input tensor should be larger than or equal to 2")
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def unsigned_zero(x: Any) -> int:
    """The zero point of a quantized tensor whose integers are counted from 0."""
    return x.q_zero_point() + (128 if x.dtype is torch.qint8 else 0)  # type: ignore[no-any-return]


def _product(x: Any, packed: Any, result: str, scalars: Any) -> Any:
    """The product of rows (m, k) as `result` says."""
    w = packed.rows
    if x.shape[1] != w.k:
        raise RuntimeError(f"The number of rows in the packB should be equal to K: {x.shape[1]}")
    x = x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()
    out = Layout.contiguous((x.shape[0], w.columns), CODES[torch.quint8] if result == "codes" else float32, x._layout.device)
    return multiply(x, w, out, result, scalars)


def scalars_of(x: Any, scale: float, zero_point: int, dtype: Any, relu: bool) -> tuple[Any, ...]:
    """The numbers of a call: a quantized tensor's, and those of a result that is quantized. RuntimeError for a zero point that
    is out of range.
    """
    low, high = RANGES[dtype]
    if not low <= zero_point <= high:
        raise RuntimeError(f"output zero_point {zero_point} is out of the range of {dtype}")
    least = max(low, zero_point) if relu else low
    return x.q_scale(), unsigned_zero(x), 1.0, float(scale), float(zero_point), float(least), float(high)


def in_float(x: Any, relu: bool) -> tuple[Any, ...]:
    """The numbers of a call whose result is float32."""
    return x.q_scale(), unsigned_zero(x), 1.0, 1.0, 0.0, 0.0 if relu else -math.inf, 0.0


def _linear(X: Any, W_prepack: LinearParams, Y_scale_i: float, Y_zero_point_i: int, relu: bool = False) -> Any:
    _check(X)
    scalars = scalars_of(X, Y_scale_i, Y_zero_point_i, X.dtype, relu)
    made = _product(_rows(codes(X)), W_prepack, "codes", scalars).view(CODES[X.dtype])
    return wrapped(made.reshape(*X.shape[:-1], made.shape[1]), PerTensor(float(Y_scale_i), int(Y_zero_point_i)), X.dtype)


def _check(x: Any) -> None:
    if not isinstance(x, QuantizedTensor):
        words = not_run("linear", "CPU").replace("aten::", "quantized::")
        raise NotImplementedError(words)
    if x.dtype not in (torch.quint8, torch.qint8):
        raise RuntimeError(f"expected scalar type QUInt8 but found {x.dtype.scalar_name}")


def dynamic(X: Any, packed: Any, reduce_range: bool = False, relu: bool = False) -> Any:
    """The product in float32 of a float tensor that is quantized for it by its own range."""
    if X.dtype is not float32:
        raise RuntimeError(f"linear_dynamic: expected scalar type Float but found {X.dtype.scalar_name}")
    if isinstance(packed, HalfLinearParams):
        return half(X, packed, relu)
    rows = _rows(X)
    if not rows.numel():
        return F.linear(X.detach(), codes(packed.weight).to(float32), packed.bias())
    scale, zero_point = _choose_qparams_per_tensor(rows, reduce_range)
    least = 0.0 if relu else -math.inf
    scalars = scale, zero_point, _inverse(scale), 1.0, 0.0, least, 127.0 if reduce_range else 255.0
    made = _product(rows.detach(), packed, "floats", scalars)
    return made.reshape(*X.shape[:-1], made.shape[1])


def half(X: Any, packed: Any, relu: bool = False) -> Any:
    """The product in float32 with a weight that is kept in float16."""
    weight, bias = packed.unpack()
    made = F.linear(X, weight, bias)
    return F.relu(made) if relu else made


def prepack(W: Any, B: Any = None) -> LinearParams:
    """A weight (out, in) of qint8, quantized as a whole or by rows, with a float bias."""
    if W.dim() != 2:
        raise RuntimeError("The weight tensor for quantized::linear_prepack should be 2-dimensional.")
    if W.dtype is not torch.qint8:
        raise RuntimeError(f"quantized::linear_prepack: expected a weight of qint8, got {W.dtype}")
    if B is not None:
        if B.dim() != 1:
            raise RuntimeError("bias should be a vector (1D Tensor)")
        if B.shape[0] != W.shape[0]:
            raise RuntimeError(f"bias should have N elements: {W.shape[0]}")
    if not isinstance(W._quantizer, PerTensor) and W.q_per_channel_axis() != 0:
        raise RuntimeError("quantized::linear_prepack: a weight is quantized as a whole or by its rows (axis 0)")
    return LinearParams(W, B)


def unpack(W_prepack: Any) -> tuple[Any, Any]:
    """(weight, bias)."""
    return W_prepack.unpack()


def _then(function: Any) -> Any:
    """linear followed by a function of the numbers, rounded once."""

    def made(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int, *more: Any) -> Any:
        _check(X)
        return torch.quantize_per_tensor(function(_in_float(X, W_prepack), *more), Y_scale_i, Y_zero_point_i, X.dtype)

    return made


def _with_input_quantized(relu: bool) -> Any:
    def made(X: Any, X_scale: float, X_zero_point: int, W_prepack: Any) -> Any:
        if X.dtype is not float32:
            raise RuntimeError(f"expected scalar type Float but found {X.dtype.scalar_name}")
        return _in_float(torch.quantize_per_tensor(X, X_scale, X_zero_point, torch.quint8), W_prepack, relu)

    return made


def _in_float(X: Any, packed: Any, relu: bool = False) -> Any:
    """The product of a quantized tensor in float32."""
    made = _product(_rows(codes(X)), packed, "floats", in_float(X, relu))
    return made.reshape(*X.shape[:-1], made.shape[1])


def _half_unpacked(X: Any, weight: Any, bias: Any) -> Any:
    return half(X, HalfLinearParams(weight, bias))


#: The kernels by operator.
OPERATORS: dict[str, Any] = {
    "linear": _linear,
    "linear_relu": lambda X, W, scale, zero: _linear(X, W, scale, zero, relu=True),
    "linear_leaky_relu": _then(F.leaky_relu),
    "linear_tanh": _then(torch.tanh),
    "linear_dynamic": dynamic,
    "linear_relu_dynamic": lambda X, W, reduce_range=False: dynamic(X, W, reduce_range, relu=True),
    "linear_dynamic_fp16": half,
    "linear_relu_dynamic_fp16": lambda X, W: half(X, W, relu=True),
    "linear_dynamic_fp16_unpacked_weight": _half_unpacked,
    "linear_prepack": prepack,
    "linear_prepack_fp16": lambda W, B=None: HalfLinearParams(W, B),
    "linear_unpack": unpack,
    "linear_unpack_fp16": unpack,
    "linear_with_input_q_dq_qweight_dq_output_fp32": _with_input_quantized(False),
    "linear_with_input_q_dq_qweight_dq_relu_output_fp32": _with_input_quantized(True),
}
