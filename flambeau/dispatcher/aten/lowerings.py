"""Public functions that PyTorch computes by several operators, written in those: what modes below autograd see of them.

A lowering gets the function as it is and the arguments of the call; NotImplemented where the function's own body serves. Used by
dispatcher.dispatch_modes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base.layout import contiguous_format, preserve_format, strided
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.composites.registry import aten

__all__ = ["LOWERINGS", "REDUCTIONS", "lowering", "packets"]

LOWERINGS: dict[str, Callable[..., Any]] = {}


def lowering(function: Callable[..., Any]) -> Callable[..., Any]:
    LOWERINGS[function.__name__] = function
    return function


def packets() -> Any:
    return aten


@lowering
def linear(own: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """A product with the transposed weight."""
    if input._layout.ndim == 2 and bias is not None:
        return packets().addmm.default(bias, input, packets().t.default(weight))
    shape = input.shape
    if bias is not None and input._layout.ndim == 3 and input._layout.is_contiguous:
        flat = packets().view.default(input, [shape[0] * shape[1], shape[2]])
        made = packets().addmm.default(bias, flat, packets().t.default(weight))
        return packets().view.default(made, [*shape[:2], made.shape[-1]])
    product = matmul(own, input, packets().t.default(weight))
    return product if bias is None else packets().add.Tensor(product, bias)


@lowering
def matmul(own: Any, input: Tensor, other: Tensor) -> Any:
    """A product of vectors, matrices or batches, by its ranks."""
    aten = packets()
    x, y = input._layout, other._layout
    if x.ndim == 1 and y.ndim == 1:
        return aten.dot.default(input, other)
    if x.ndim == 2 and y.ndim == 1:
        return aten.mv.default(input, other)
    if x.ndim == 1 and y.ndim == 2:
        return aten.squeeze.dim(aten.mm.default(aten.unsqueeze.default(input, 0), other), 0)
    if x.ndim == 2 and y.ndim == 2:
        return aten.mm.default(input, other)
    if not x.ndim or not y.ndim:
        return NotImplemented
    swapped = y.ndim > x.ndim
    larger = aten.transpose.int(other, -2, -1) if swapped else input
    if x.ndim > 2 >= y.ndim or y.ndim > 2 >= x.ndim:
        if not _folds(larger, input if swapped else other):
            return _batched(aten, input, other)
        if swapped:
            larger = aten.transpose.int(other, -2, -1)
            made = _folded(aten, larger, input if x.ndim == 1 else aten.t.default(input))
            return made if x.ndim == 1 else aten.transpose.int(made, -2, -1)
        return _folded(aten, input, other)
    return _batched(aten, input, other)


def _folds(larger: Tensor, smaller: Tensor) -> bool:
    """Whether batches are multiplied as one matrix: they lie one behind another, or that saves a gradient's memory."""
    layout = larger._layout
    if smaller.requires_grad or not layout.numel:
        return True
    shape, strides = layout.shape, layout.strides
    return all(strides[d] == strides[d + 1] * shape[d + 1] for d in range(layout.ndim - 2))


def _folded(aten: Any, larger: Tensor, smaller: Tensor) -> Any:
    """A product of batches with one matrix or vector, as that of one matrix."""
    lead, width = larger.shape[:-1], larger.shape[-1]
    flat = larger.reshape(math.prod(lead), width)
    if smaller._layout.ndim == 1:
        return aten._unsafe_view.default(aten.mv.default(flat, smaller), [*lead])
    return aten._unsafe_view.default(aten.mm.default(flat, smaller), [*lead, smaller.shape[1]])


def _batched(aten: Any, input: Tensor, other: Tensor) -> Any:
    """A product of batches, whose leading sizes broadcast."""
    from flambeau.base import geometry

    x, y = input.shape, other.shape
    lead = geometry.broadcast(x[:-2], y[:-2])
    count = math.prod(lead)

    def flat(t: Tensor, sizes: Any) -> Any:
        return aten.expand.default(t, [*lead, *sizes]).reshape(count, *sizes)

    first = flat(input, x[-2:] if len(x) > 1 else (1, *x))
    second = flat(other, y[-2:])
    shape = [*lead, *x[-2:-1], *(y[-1:] if len(y) > 1 else ())]
    if len(y) == 1:
        product = aten.squeeze.dim(aten.bmm.default(first, aten.unsqueeze.default(second, 2)), -1)
    else:
        product = aten.bmm.default(first, second)
    return aten._unsafe_view.default(product, shape)


@lowering
def layer_norm(
    own: Any,
    input: Tensor,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    """Layer norm, of whose results the first."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return packets().native_layer_norm.default(input, shape, weight, bias, eps)[0]


@lowering
def rms_norm(own: Any, input: Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """The input over the root of its mean square, of a dtype that is computed in as it is."""
    aten, layout = packets(), input._layout
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    fits = len(shape) > 0 and tuple(layout.shape[-len(shape) :]) == shape
    if not fits or layout.dtype.itemsize < 4 or not layout.dtype.is_floating_point:
        return NotImplemented
    epsilon = dtypes.finfo(layout.dtype).eps if eps is None else eps
    mean = aten.mean.dim(aten.pow.Tensor_Scalar(input, 2), list(range(layout.ndim - len(shape), layout.ndim)), True)
    # the mean of a distributed tensor may be in parts, which nothing can be added to where they lie
    added = aten.add_ if input.__class__ is Tensor else aten.add
    factor = aten.rsqrt.default(added.Scalar(mean, epsilon))
    result = aten.mul.Tensor(input, factor)
    return result if weight is None else aten.mul.Tensor(result, weight)


@lowering
def cross_entropy_loss(
    own: Any,
    input: Tensor,
    target: Tensor,
    weight: Any = None,
    reduction: Any = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """The logarithm of a softmax, and the likelihood loss of it; a third result is only for the operator's own gradient."""
    if target._layout.dtype.is_floating_point or label_smoothing or input._layout.ndim > 2:
        return NotImplemented
    number = ("none", "mean", "sum").index(reduction) if isinstance(reduction, str) else reduction
    axis = 0 if input._layout.ndim == 1 else 1
    logs = packets()._log_softmax.default(input, axis, False)
    return *packets().nll_loss_forward.default(logs, target, weight, number, ignore_index), None


@lowering
def dropout(own: Any, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeros at random, the rest scaled."""
    if not training or p == 0 or inplace or not input.numel():
        return NotImplemented if inplace else input
    if p == 1:
        layout = input._layout
        zero = packets().zeros.default([], dtype=layout.dtype, layout=strided, device=layout.device)
        return packets().mul.Tensor(input, zero)
    noise = packets().bernoulli_.float(packets().empty_like.default(input), 1 - p)
    return packets().mul.Tensor(input, packets().div_.Scalar(noise, 1 - p))


def _variance(name: str) -> Callable[..., Any]:
    def rule(
        own: Any, input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
    ) -> Any:
        """A variance by the one form that others are made of."""
        if dim.__class__ is bool:
            dim, unbiased = None, dim
        if unbiased not in (None, True, False) or unbiased.__class__ is int:
            return NotImplemented  # which refuses it
        if unbiased is not None or (correction is None and dim is not None):  # of dimensions
            correction = int(unbiased is not False)
        named = {} if correction is None else {"correction": correction}
        if keepdim:
            named["keepdim"] = keepdim
        return getattr(packets(), name).correction(input, [dim] if isinstance(dim, int) else dim, **named)

    return rule


LOWERINGS |= {name: _variance(name) for name in ("var", "std", "var_mean", "std_mean")}


@lowering
def contiguous(own: Any, input: Tensor, memory_format: Any = None) -> Any:
    """A copy unless the tensor is contiguous."""
    if memory_format is not None:
        return NotImplemented
    return input if input._layout.is_contiguous else packets().clone.default(input, memory_format=contiguous_format)


@lowering
def item(own: Any, input: Tensor) -> Any:
    """The only element."""
    return packets()._local_scalar_dense.default(input)


@lowering
def tensor(own: Any, *args: Any, **kwargs: Any) -> Any:
    """A tensor of Python's numbers, which a mode may put its own in the place of."""
    return packets().lift_fresh.default(own(*args, **kwargs))


LOWERINGS["from_numpy"] = LOWERINGS["frombuffer"] = LOWERINGS["new_tensor"] = tensor


@lowering
def as_tensor(own: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
    """The same unless it is given a tensor."""
    return NotImplemented if isinstance(data, Tensor) else tensor(own, data, *args, **kwargs)


@lowering
def convert(own: Any, input: Tensor, dtype: Any, wanted: Any = None) -> Any:
    """A copy in another dtype."""
    named = {} if wanted in (None, preserve_format) else {"memory_format": wanted}
    return packets()._to_copy.default(input, dtype=dtype, **named)


@lowering
def move(own: Any, input: Tensor, device: Any, dtype: Any = None, wanted: Any = preserve_format) -> Any:
    """A copy on another device. Where no dtype was asked for, the layout is said as well."""
    said = {"dtype": input.dtype, "layout": strided} if dtype is None else {"dtype": dtype}
    named = {} if wanted is preserve_format else {"memory_format": wanted}
    return packets()._to_copy.default(input, **said, device=device, **named)


# ---------------------------------------------------------------- convolutions, pooling, attention


@lowering
def _convolve(own: Any, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """A convolution whose arguments are complete."""
    nothing = [0] * len(stride)
    return packets().convolution.default(input, weight, bias, list(stride), list(padding), list(dilation), False, nothing, groups)


@lowering
def _gradient_of_input(
    own: Any, grad: Tensor, weight: Tensor, bias: Any, size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """A transposed convolution."""
    kernel = weight._layout.shape[2:]
    given = zip(size, grad._layout.shape[2:], stride, padding, dilation, kernel)
    extra = [n - ((g - 1) * s - 2 * p + d * (k - 1) + 1) for n, g, s, p, d, k in given]
    return packets().convolution.default(grad, weight, bias, list(stride), list(padding), list(dilation), True, extra, groups)


@lowering
def _gradient_of_weight(
    own: Any, input: Tensor, grad: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The gradient of a convolution's weight."""
    shape = (grad._layout.shape[1], input._layout.shape[1] // groups, *kernel)
    weight = input.new_empty(shape)
    rest = (list(stride), list(padding), list(dilation), False, [0] * len(stride), groups)
    return packets().convolution_backward.default(grad, input, weight, None, *rest, [False, True, False])[1]


def _pooling(dims: int) -> None:
    def pooled(
        own: Any,
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        def each(value: Any) -> list[int]:
            return [value] * dims if isinstance(value, int) else list(value)

        steps = [] if stride is None else each(stride)
        pool = getattr(packets(), f"max_pool{dims}d_with_indices").default
        made = pool(input, each(kernel_size), steps, each(padding), each(dilation), ceil_mode)
        return made if return_indices else made[0]

    LOWERINGS[f"max_pool{dims}d"] = pooled


_pooling(2)
_pooling(3)


@lowering
def scaled_dot_product_attention(
    own: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention of (batch, heads, rows, width) by the kernel for CPUs; anything else by its parts."""
    if query._layout.ndim != 4 or dropout_p or enable_gqa or (attn_mask is not None and attn_mask.requires_grad):
        return NotImplemented
    attend = packets()._scaled_dot_product_flash_attention_for_cpu.default
    return attend(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]


# ---------------------------------------------------------------- numbers on the left


@lowering
def __rtruediv__(own: Any, self: Tensor, other: Any) -> Any:
    """The reciprocal, times."""
    return packets().mul.Tensor(packets().reciprocal.default(self), other)


@lowering
def _rmod(own: Any, self: Tensor, other: Any) -> Any:
    """A number's remainder."""
    return NotImplemented if isinstance(other, Tensor) else packets().remainder.Scalar_Tensor(other, self)


@lowering
def __rfloordiv__(own: Any, self: Tensor, other: Any) -> Any:
    """A number's quotient, rounded down."""
    return packets().floor_divide.default(other, self)


# ---------------------------------------------------------------- losses of elements


@lowering
def log_sigmoid(own: Any, input: Tensor) -> Any:
    """The first result of an operator that also keeps the exponentials."""
    return packets().log_sigmoid_forward.default(input)[0]


def _loss(name: str, *extra: str) -> None:
    """A loss of input, target and reduction, and the arguments `extra` behind that."""

    def lowered(own: Any, input: Tensor, target: Tensor, *args: Any, reduction: str = "mean", **kwargs: Any) -> Any:
        if args or set(kwargs) - set(extra) or not isinstance(reduction, str) or reduction not in REDUCTIONS:
            return NotImplemented
        number = REDUCTIONS.index(reduction)
        return getattr(packets(), name).default(input, target, number, *[kwargs[n] for n in extra if n in kwargs])

    LOWERINGS[name] = lowered


REDUCTIONS = ("none", "mean", "sum")
_loss("mse_loss")
_loss("smooth_l1_loss", "beta")
_loss("huber_loss", "delta")
_loss("soft_margin_loss")


# ---------------------------------------------------------------- numbers in front


@lowering
def __rpow__(own: Any, exponent: Tensor, base: Any) -> Any:
    """A number to the power of a tensor."""
    return packets().pow.Scalar(base, exponent)


@lowering
def norm(own: Any, input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """A norm of all elements, or along dimensions."""
    if p == "nuc" or input._layout.dtype.is_complex:
        return NotImplemented
    order = 2 if p in ("fro", None) else p
    along = [dim] if isinstance(dim, int) else dim
    return packets().linalg_vector_norm.default(input, order, along, keepdim, dtype=dtype)
