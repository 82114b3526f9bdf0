"""Activation functions as pointwise operators.

Those that torch itself has are published; the others belong to torch.nn.functional, whose face is nn.functional_activation.
Rules beside the bodies fix what PyTorch's gradients do at the corners, or save the result in place of the input.
Stands on core.operator.variants and ir.scalar.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau.base import scalar_range
from flambeau.base.dtype import bool_, finfo, float64
from flambeau.base.dtype import dtype as DType
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout, register_cache
from flambeau.core.modes import modes
from flambeau.core.modes.autocast import lower
from flambeau.core.operator.annotations import Number
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.out_rules import Out, worded
from flambeau.core.operator.pointwise import like_first
from flambeau.core.operator.row_program import FULL, Rows
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop
from flambeau.ir.scalar import cast, where
from flambeau.ops.elementwise.arithmetic import SUBTRACTS_BOOL
from flambeau.ops.elementwise.math import sigmoid
from flambeau.ops.random.samplers import rrelu_slopes
from flambeau.ops.views.cat import cat

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _clamping(bool_message: str) -> Any:
    def check(computation: DType, *_: Any) -> None:
        if computation is bool_:
            raise RuntimeError(bool_message)
        if computation.is_complex:
            raise NotImplementedError("clamp is not supported for complex types")

    return check


# ---------------------------------------------------------------- pieces of straight lines


@pointwise(inplace="function", out=False, check=_clamping("Boolean inputs not supported for relu"))
def relu(input: Tensor):
    """The larger of input and 0."""
    return where(input < 0, 0, input)


@relu.vjp
def _(g, out):
    return where(out <= 0, 0, g)


@pointwise(
    function=False,
    method=False,
    check=_clamping("Bool inputs not supported for hardtanh"),
    elements=("min_val", "max_val"),
    as_written=True,
)
def hardtanh(input: Tensor, min_val: Number = -1.0, max_val: Number = 1.0):
    """input clamped to [min_val, max_val]."""
    return s.clamp(input, min_val, max_val)


hardtanh.operator.order = like_first


@hardtanh.vjp
def _(g, input, min_val, max_val):
    return where((input > min_val) & (input < max_val), g, 0)


@pointwise(function=False, method=False, node="Hardtanh", check=_clamping("Bool inputs not supported for hardtanh"))
def relu6(input: Tensor):
    """input clamped to [0, 6]."""
    return s.clamp(input, 0, 6)


relu6.operator.order = like_first


@relu6.vjp
def _(g, input):
    return where((input > 0) & (input < 6), g, 0)


@pointwise(function=False, method=False, types="f")
def leaky_relu(input: Tensor, negative_slope: Number = 0.01):
    """input above 0, negative_slope * input below."""
    return where(input > 0, input, input * negative_slope)


@leaky_relu.vjp
def _(g, input, negative_slope):
    return where(input > 0, g, g * negative_slope)


@pointwise(inplace="function", method=False, types="if", kernel="threshold_cpu", elements=("threshold", "value"))
def threshold(input: Tensor, threshold: Number, value: Number):
    """input above `threshold`, else `value`."""
    return where(input <= threshold, value, input)


threshold.operator.idempotent = True


@threshold.vjp
def _(g, input, threshold):
    return where(input <= threshold, 0, g)


@pointwise(function=False, method=False, types="f")
def hardsigmoid(input: Tensor):
    """input / 6 + 1 / 2, clamped to [0, 1]."""
    return s.clamp(input + 3, 0, 6) / 6


@hardsigmoid.vjp
def _(g, input):
    return where((input > -3) & (input < 3), g * (1 / 6), 0)


@pointwise(function=False, method=False, types="f")
def hardswish(input: Tensor):
    """input * hardsigmoid(input)."""
    return input * s.clamp(input + 3, 0, 6) / 6


@hardswish.vjp
def _(g, input):
    return where(input <= -3, 0, where(input >= 3, g, g * (input / 3 + 0.5)))


@pointwise(inplace=False, types="f", out=Out(as_computed=True), elements=("lambd",))
def hardshrink(input: Tensor, lambd: Number = 0.5):
    """input, but 0 within [-lambd, lambd]."""
    return where((input >= -lambd) & (input <= lambd), 0, input)


@hardshrink.vjp
def _(g, input, lambd):
    return where((input > lambd) | (input < -lambd), g, 0)


@pointwise(
    function=False,
    method=False,
    inplace=False,
    types="f",
    kernel="softshrink_check",
    written_in_python=False,
    out=Out(as_computed=True),
)
def softshrink(input: Tensor, lambd: Number = 0.5):
    """input moved by lambd towards 0, and 0 within [-lambd, lambd]."""
    return where(input > lambd, input - lambd, where(input < -lambd, input + lambd, where(s.isnan(input), input, 0)))


@softshrink.vjp
def _(g, input, lambd):
    return where((input > lambd) | (input < -lambd), g, 0)


def check_softshrink(input: Tensor, lambd: float) -> None:
    """Raise RuntimeError for a negative lambd."""
    dtype = input._layout.dtype
    if dtype.is_floating_point and not 0 <= lambd <= finfo(dtype).max:
        raise RuntimeError(
            f"lambda must be in range [0, {finfo(dtype).max:g}] for input dtype {dtype.scalar_name}, but found {lambd:g}"
        )


@pointwise(name="_prelu_kernel", function=False, method=False, inplace=False, types="f", kernel="prelu_cpu", node="PreluKernel")
def _prelu_kernel(input: Tensor, weight: Tensor):
    """input above 0, weight * input below."""
    return where(input > 0, input, weight * input)


@_prelu_kernel.vjp
def _(g, input, weight):
    return where(input > 0, g, weight * g), where(input > 0, 0, input * g)


@composite(autocast=lower)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input above 0, weight * input below; weight has one element, or one per channel (dimension 1).

    Raises RuntimeError if the number of weights or the dtypes don't fit.
    """
    if input._layout.dtype is not weight._layout.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {input._layout.dtype.scalar_name} and {weight._layout.dtype.scalar_name}"
        )
    if weight._layout.numel != 1:
        if not input._layout.ndim:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input._layout.shape[1] if input._layout.ndim > 1 else 1
        if channels != weight._layout.numel:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight._layout.numel} and channel size = {channels}."
            )
    if weight._layout.ndim > 1:
        raise RuntimeError("prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = " + str(weight._layout.ndim))
    if input._layout.ndim == 0:
        weight = weight.reshape(())
    elif input._layout.ndim > 1 and weight._layout.ndim == 1:
        weight = weight.reshape([-1] + [1] * (input._layout.ndim - 2))
    return _prelu_kernel(input, weight)


# ---------------------------------------------------------------- exponential


@pointwise(function=False, method=False, types="f")
def elu(input: Tensor, alpha: Number = 1.0):
    """input above 0, alpha * (exp(input) - 1) below."""
    return where(input <= 0, s.expm1(input) * alpha, input)


@elu.vjp
def _(g, input, alpha):
    return where(input > 0, g, g * alpha * s.exp(input))


@pointwise(inplace="function", out=False, method=False, types="f", kernel="elu_cpu", node="Elu")
def selu(input: Tensor):
    """elu with the scale and alpha that keep mean 0 and variance 1."""
    return where(input <= 0, s.expm1(input) * (SELU_ALPHA * SELU_SCALE), input * SELU_SCALE)


@selu.vjp
def _(g, input):
    return where(input > 0, g * SELU_SCALE, g * (SELU_ALPHA * SELU_SCALE) * s.exp(input))


@pointwise(name="_celu", function=False, method=False, types="f", kernel="elu_cpu", node="Celu")
def _celu(input: Tensor, alpha: Number = 1.0):
    """input above 0, alpha * (exp(input / alpha) - 1) below."""
    return where(input <= 0, s.expm1(input / alpha) * alpha, input)


@_celu.vjp
def _(g, input, alpha):
    return where(input > 0, g, g * s.exp(input / alpha))


def _check_celu(alpha: Any) -> None:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    if isinstance(alpha, complex):
        scalar_range.check(alpha, float64)


@composite(method=False)
def celu(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """input above 0, alpha * (exp(input / alpha) - 1) below. Raises RuntimeError if alpha is 0."""
    _check_celu(alpha)
    return _celu(input, alpha)


@composite(method=False)
def celu_(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """In-place version of celu()."""
    _check_celu(alpha)
    return _celu.inplace(input, alpha)


def _check_gelu(computation: DType, operands: Sequence[Any], numbers: Sequence[Any], statics: Sequence[Any]) -> None:
    if statics[0] not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")


@pointwise(
    function=False,
    method=False,
    types="f",
    kernel="GeluKernelImpl",
    check=_check_gelu,
    written_in_python=False,
    out=Out(as_computed=True),
)
def gelu(input: Tensor, *, approximate="none"):
    """input * Phi(input), Phi the Gaussian distribution; approximate="tanh" takes its approximation by tanh."""
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (input + 0.044715 * (input * input * input))
        return 0.5 * input * (1 + s.tanh(inner))
    return s.gelu(input)


@gelu.vjp
def _(g, input, approximate):
    if approximate == "tanh":
        beta, kappa = math.sqrt(2 / math.pi), 0.044715
        square = input * input
        tanh = s.tanh(beta * (input + kappa * (square * input)))
        return g * (0.5 * (1 + tanh) + 0.5 * input * (1 - tanh * tanh) * (beta * (1 + 3 * kappa * square)))
    return g * (s.normal_cdf(input) + input * (s.exp(-0.5 * (input * input)) * (1 / math.sqrt(2 * math.pi))))


@pointwise(function=False, method=False, types="fc", real_gradients="silu")
def silu(input: Tensor):
    """input * sigmoid(input)."""
    return input / (1 + s.exp(-input))


@silu.vjp
def _(g, input):
    gate = s.sigmoid(input)
    return g * s.conj(gate * (1 + input * (1 - gate)))


@pointwise(function=False, method=False, types="f")
def mish(input: Tensor):
    """input * tanh(softplus(input))."""
    return input * s.tanh(_softplus(input))


@mish.vjp
def _(g, input):
    tanh = s.tanh(_softplus(input))
    return g * (tanh + input * s.sigmoid(input) * (1 - tanh * tanh))


def _softplus(x: s.Expr) -> s.Expr:
    """log(1 + exp(x)) without overflow."""
    return where(s.isnan(x), x, s.maximum(x, 0) + s.log1p(s.exp(-s.abs(x))))


@pointwise(
    function=False, method=False, inplace=False, types="f", written_in_python=False, as_written=True, out=Out(as_computed=True)
)
def softplus(input: Tensor, beta: Number = 1.0, threshold: Number = 20.0):
    """log(1 + exp(beta * input)) / beta; input itself where beta * input > threshold."""
    scaled = input * beta
    return where(scaled > threshold, input, s.log1p(s.exp(scaled)) / beta)


@softplus.vjp
def _(g, input, beta, threshold):
    scaled = input * beta
    grown = s.exp(scaled)  # not sigmoid, whose 1 / (1 + exp(-scaled)) is 0 before this is
    return where(scaled > threshold, g, g * (grown / (grown + 1)))


@pointwise(
    function=False,
    method=False,
    inplace=False,
    types="f",
    name="logsigmoid",
    kernel="log_sigmoid_cpu",
    node="LogSigmoid",
    underneath="log_sigmoid",
    schema="aten::log_sigmoid",
    out=Out(dtype=worded("expected scalar type {have} but found {got}"), step="log_sigmoid_forward", warns=False),
)
def logsigmoid(input: Tensor):
    """log(sigmoid(input))."""
    return s.minimum(input, 0) - s.log1p(s.exp(-s.abs(input)))


@logsigmoid.vjp
def _(g, input):
    shrunk = s.exp(-where(input < 0, -input, input))  # unlike the absolute value's, its derivative at 0 isn't 0
    return g * (where(input < 0, 1, shrunk) / (1 + shrunk))


def _check_tanhshrink(computation: DType, operands: Sequence[Any], *_: Any) -> None:
    if operands[0]._layout.dtype is bool_:
        raise RuntimeError(SUBTRACTS_BOOL)


@pointwise(kind="float", function=False, method=False, inplace=False, node="Sub", check=_check_tanhshrink)
def tanhshrink(input: Tensor):
    """input - tanh(input)."""
    return input - s.tanh(input)


@tanhshrink.vjp
def _(g, input):
    tanh = s.tanh(input)
    return g * s.conj(tanh * tanh)


def _check_softsign(computation: DType, operands: Sequence[Any], *_: Any) -> None:
    if operands[0]._layout.dtype is bool_:
        raise NotImplementedError("\"abs_cpu\" not implemented for 'Bool'")


@pointwise(kind="float", function=False, method=False, inplace=False, node="Div", check=_check_softsign)
def softsign(input: Tensor):
    """input / (1 + |input|)."""
    return input / (1 + s.abs(input))


# ---------------------------------------------------------------- gates and noise


@pointwise(name="_gated", function=False, method=False, inplace=False, types="f", kernel="glu_cpu")
def _gated(input: Tensor, gate: Tensor):
    """input * sigmoid(gate)."""
    return input * s.sigmoid(gate)


_half_layouts: dict[Any, tuple[Layout, int]] = register_cache({})


def _halves(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Both halves along a dimension, without a graph if there is none to the input."""
    layout = input._layout
    if (input._node is not None and modes.local.grad) or layout.flavor is not None:
        half = layout.shape[dim] // 2
        return input.narrow(dim, 0, half), input.narrow(dim, half, half)
    known = _half_layouts.get((layout, dim))
    if known is None:
        half = layout.shape[dim] // 2
        shape = (*layout.shape[:dim], half, *layout.shape[dim + 1 :])
        known = _half_layouts[layout, dim] = (
            Layout.of(shape, layout.strides, layout.dtype, layout.device),
            half * layout.strides[dim],
        )
    own, distance = known
    return tensor_from(input._storage, input._offset, own), tensor_from(input._storage, input._offset + distance, own)


@operator(method=False, function=False, asks="dim")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b), where a and b are the halves of input along dim. Raises RuntimeError if dim is of odd size."""
    if not input._layout.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    dim = wrap_dim(dim, input._layout.ndim)
    if input._layout.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input._layout.shape[dim]}")
    return _gated(*_halves(input, dim))


def _glu_gradient_stages(elements: tuple, numbers: tuple) -> tuple:
    """The gradients of both halves."""
    a, b = elements[1:]
    g = cast(elements[0], a.dtype)
    gate = s.sigmoid(b)
    passed = g * gate
    return (Loop((), ((0, passed), (1, passed * a * (1 - gate)))),)


_GLU_GRADIENT = Rows("glu_backward", _glu_gradient_stages, lambda dtypes: [(dtypes[1], FULL)] * 2)


@glu.vjp
def _(g, input, dim):
    layout = input._layout
    dim = wrap_dim(dim, layout.ndim)
    if not modes.local.grad and g._layout.flavor is None and layout.flavor is None:
        made = empty_layout(Layout.contiguous(layout.shape, layout.dtype, layout.device))
        _GLU_GRADIENT((g, *_halves(input, dim)), (), (), (), _halves(made, dim))
        return (made,)
    a, b = _halves(input, dim)
    gate = sigmoid(b)
    passed = g * gate
    return (cat([passed, passed * a * (1 - gate)], dim),)


@pointwise(
    name="_rrelu_with_noise", function=False, method=False, types="f", kernel="rrelu_with_noise_out_cpu", node="RreluWithNoise"
)
def _rrelu_with_noise(input: Tensor, noise: Tensor):
    """input times its random slope."""
    return where(input <= 0, input * noise, input)


@_rrelu_with_noise.vjp
def _(g, noise):
    return g * noise


@pointwise(name="_rrelu_still", function=False, method=False, types="f", kernel="leaky_relu_cpu", node="RreluWithNoise")
def _rrelu_still(input: Tensor, slope: Number = 0.0):
    """rrelu with the mean slope."""
    return where(input > 0, input, input * slope)


@_rrelu_still.vjp
def _(g, input, slope):
    return where(input > 0, g, g * slope)


def _check_bounds(lower: float, upper: float, training: bool) -> None:
    for name, bound in (("lower", lower), ("upper", upper)):
        if training and not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound:g}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")


@composite(method=False)
def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """input above 0; below, input times a slope: drawn from [lower, upper] while training, else their mean.

    RuntimeError where lower is above upper.
    """
    _check_bounds(lower, upper, training)
    if not training:
        return _rrelu_still(input if input._layout.is_contiguous else input.contiguous(), (lower + upper) / 2)
    slopes = rrelu_slopes(input if input._node is None else input.detach(), lower, upper)
    return _rrelu_with_noise(input if input._layout.is_contiguous else input.contiguous(), slopes)


@composite(method=False, node="RreluWithNoiseBackward1")
def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """In-place version of rrelu()."""
    _check_bounds(lower, upper, training)
    if not training:
        return _rrelu_still.inplace(input, (lower + upper) / 2)
    return _rrelu_with_noise.inplace(input, rrelu_slopes(input.detach(), lower, upper))
