"""Products of quantized tensors with packed weights: linear, linear_dynamic and their kin.

The integers are multiplied as int8 and summed in int32 (codegen.products takes them in pairs), the activations' shifted to be
signed; what the zero points add is a number for each row of the weight. The sums are scaled, get the bias and are rounded in
one pass. Stands on ops.linalg.int_mm and ops.quantized.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.base.dtype import float32, int8, int32
from flambeau.core.operator.unsupported import not_run
from flambeau.ops.linalg.int_mm import _wide_product
from flambeau.ops.quantized.conversion import _choose_qparams_per_tensor, _inverse
from flambeau.ops.quantized.rounding import codes_of, requantized_sums, scaled_sums
from flambeau.ops.quantized.tensor import CODES, RANGES, PerTensor, QuantizedTensor, codes, wrapped
from flambeau.quantized_ops.packed import HalfLinearParams, LinearParams

__all__ = ["OPERATORS", "dynamic", "rounded"]

F = torch.nn.functional


def _sums(signed: Any, zero_point: int, packed: LinearParams) -> tuple[Any, Any]:
    """The sums of products in int32 (rows, out), and what is to be added to them for the zero points: (out) or (rows, out).

    signed: int8 (rows, in), of which zero_point stands for 0.
    """
    if signed.shape[1] != packed.codes.shape[1]:
        raise RuntimeError(f"The number of rows in the packB should be equal to K: {signed.shape[1]}")
    made = _wide_product(signed, packed.codes.t())
    more = packed.sums * -zero_point
    if packed.zero_points is not None:
        more = more - packed.zero_points * signed.sum(1, True, dtype=int32)
    return made, more


def _rows(x: Any) -> Any:
    if x.dim() < 2:
        raise RuntimeError("The dimension of input tensor should be larger than or equal to 2")
    return x.reshape(-1, x.shape[-1])


def _signed(x: Any) -> tuple[Any, int]:
    """The integers of a quantized tensor as rows of int8, and which of them stands for 0."""
    integers = _rows(codes(x))
    if x.dtype is torch.quint8:
        return (integers ^ 128).view(int8), x.q_zero_point() - 128
    return integers, x.q_zero_point()


def rounded(sums: Any, bias: Any, multiplier: Any, scale: float, zero_point: int, dtype: Any, relu: bool = False) -> Any:
    """The quantized tensor of `(sums + bias) * multiplier`, sums being integers of the operands' units."""
    low, high = RANGES[dtype]
    if not low <= zero_point <= high:
        raise RuntimeError(f"output zero_point {zero_point} is out of the range of {dtype}")
    low = max(low, zero_point) if relu else low
    made = requantized_sums(sums, bias, multiplier, zero_point=zero_point, low=low, high=high, result=CODES[dtype])
    return wrapped(made, PerTensor(float(scale), int(zero_point)), dtype)


def _linear(X: Any, W_prepack: LinearParams, Y_scale_i: float, Y_zero_point_i: int, relu: bool = False) -> Any:
    _check(X)
    signed, zero_point = _signed(X)
    sums, more = _sums(signed, zero_point, W_prepack)
    units = W_prepack.scales * X.q_scale()
    bias = more.to(float32) if W_prepack.bias() is None else more + W_prepack.bias().detach() / units
    made = rounded(sums, bias, units / Y_scale_i, Y_scale_i, Y_zero_point_i, X.dtype, relu)
    return made.reshape(*X.shape[:-1], sums.shape[1])


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
    scale, zero_point = _choose_qparams_per_tensor(rows, reduce_range)
    highest = -1 if reduce_range else 127
    signed = codes_of(rows.detach(), _inverse(scale), zero_point - 128, low=-128, high=highest, result=int8)
    sums, more = _sums(signed, zero_point - 128, packed)
    units = packed.scales * scale
    added = more * units
    if packed.bias() is not None:
        added = added + packed.bias().detach()
    made = scaled_sums(sums, units, added, least=0.0 if relu else float("-inf"))
    return made.reshape(*X.shape[:-1], sums.shape[1])


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
    signed, zero_point = _signed(X)
    sums, added = _sums(signed, zero_point, packed)
    units = packed.scales * X.q_scale()
    bias = added * units if packed.bias() is None else added * units + packed.bias().detach()
    return scaled_sums(sums, units, bias, least=0.0 if relu else float("-inf")).reshape(*X.shape[:-1], sums.shape[1])


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
