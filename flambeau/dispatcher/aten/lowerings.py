"""Public functions that PyTorch computes by several operators, written in those: what modes below autograd see of them.

A lowering gets the function as it is and the arguments of the call; NotImplemented where the function's own body serves. Used by
dispatcher.dispatch_modes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.base.layout import contiguous_format
from flambeau.core.tensor.tensor import Tensor

__all__ = ["LOWERINGS"]

LOWERINGS: dict[str, Callable[..., Any]] = {}


def _lowering(function: Callable[..., Any]) -> Callable[..., Any]:
    LOWERINGS[function.__name__] = function
    return function


def _aten() -> Any:
    from flambeau.dispatcher.namespaces import ops

    return ops.aten


@_lowering
def linear(own: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """A product with the transposed weight."""
    if input._layout.ndim == 2 and bias is not None:
        return _aten().addmm.default(bias, input, _aten().t.default(weight))
    shape = input._layout.shape
    if bias is not None and input._layout.ndim == 3 and input._layout.is_contiguous:
        flat = _aten().view.default(input, [shape[0] * shape[1], shape[2]])
        made = _aten().addmm.default(bias, flat, _aten().t.default(weight))
        return _aten().view.default(made, [*shape[:2], made._layout.shape[-1]])
    product = matmul(own, input, _aten().t.default(weight))
    return product if bias is None else _aten().add.Tensor(product, bias)


@_lowering
def matmul(own: Any, input: Tensor, other: Tensor) -> Any:
    """A product of vectors, matrices or batches, by its ranks."""
    aten = _aten()
    x, y = input._layout, other._layout
    if x.ndim == 1 and y.ndim == 1:
        return aten.dot.default(input, other)
    if x.ndim == 2 and y.ndim == 1:
        return aten.mv.default(input, other)
    if x.ndim == 1 and y.ndim == 2:
        return aten.squeeze.dim(aten.mm.default(aten.unsqueeze.default(input, 0), other), 0)
    if x.ndim == 2 and y.ndim == 2:
        return aten.mm.default(input, other)
    if x.ndim > 2 and y.ndim <= 2:
        rows = math.prod(x.shape[:-1])
        flat = aten.view.default(input, [rows, x.shape[-1]]) if x.is_contiguous else input.reshape(rows, x.shape[-1])
        product = aten.mm.default(flat, other) if y.ndim == 2 else aten.mv.default(flat, other)
        return aten._unsafe_view.default(product, [*x.shape[:-1], *y.shape[1:]])
    if x.ndim < 1 or y.ndim < 2:
        return NotImplemented
    return _batched(aten, input, other)


def _batched(aten: Any, input: Tensor, other: Tensor) -> Any:
    """A product of batches, whose leading sizes broadcast."""
    from flambeau.base import geometry

    x = aten.unsqueeze.default(input, 0) if input._layout.ndim == 1 else input
    lead = geometry.broadcast(x._layout.shape[:-2], other._layout.shape[:-2])
    count = math.prod(lead)

    def flat(t: Tensor) -> Any:
        sizes = t._layout.shape[-2:]
        return aten.expand.default(t, [*lead, *sizes]).reshape(count, *sizes)

    product = aten.bmm.default(flat(x), flat(other))
    shape = [*lead, x._layout.shape[-2], other._layout.shape[-1]]
    made = aten._unsafe_view.default(product, shape)
    return aten.squeeze.dim(made, -2) if input._layout.ndim == 1 else made


def _soft(name: str) -> None:
    def lowered(own: Any, input: Tensor, dim: Any = None, dtype: Any = None, **others: Any) -> Any:
        if dim is None or not isinstance(dim, int):
            return NotImplemented
        converted = input if dtype is None or dtype is input._layout.dtype else input.to(dtype)
        return getattr(_aten(), f"_{name}").default(converted, dim, False)

    LOWERINGS[name] = lowered


_soft("softmax")
_soft("log_softmax")


@_lowering
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
    return _aten().native_layer_norm.default(input, shape, weight, bias, eps)[0]


@_lowering
def batch_norm(
    own: Any,
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """Batch norm, of whose results the first."""
    return _aten().native_batch_norm.default(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@_lowering
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
    logs = _aten()._log_softmax.default(input, axis, False)
    return *_aten().nll_loss_forward.default(logs, target, weight, number, ignore_index), None


@_lowering
def dropout(own: Any, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeros at random, the rest scaled."""
    if not training or p == 0 or inplace or not input.numel():
        return NotImplemented if inplace else input
    noise = _aten().bernoulli_.float(_aten().empty_like.default(input), 1 - p)
    return _aten().mul.Tensor(input, _aten().div_.Scalar(noise, 1 - p))


@_lowering
def contiguous(own: Any, input: Tensor, memory_format: Any = None) -> Any:
    """A copy unless the tensor is contiguous."""
    if memory_format is not None:
        return NotImplemented
    return input if input._layout.is_contiguous else _aten().clone.default(input, memory_format=contiguous_format)


@_lowering
def item(own: Any, input: Tensor) -> Any:
    """The only element."""
    return _aten()._local_scalar_dense.default(input)


@_lowering
def tensor(own: Any, *args: Any, **kwargs: Any) -> Any:
    """A tensor of Python's numbers, which a mode may put its own in the place of."""
    return _aten().lift_fresh.default(own(*args, **kwargs))


@_lowering
def convert(own: Any, input: Tensor, dtype: Any, wanted: Any = None) -> Any:
    """A copy in another dtype."""
    return _aten()._to_copy.default(input, dtype=dtype)


# ---------------------------------------------------------------- convolutions, pooling, attention


@_lowering
def _convolve(
    own: Any, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """A convolution whose arguments are complete."""
    nothing = [0] * len(stride)
    return _aten().convolution.default(
        input, weight, bias, list(stride), list(padding), list(dilation), False, nothing, groups
    )


@_lowering
def _gradient_of_input(
    own: Any,
    grad: Tensor,
    weight: Tensor,
    bias: Any,
    size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """A transposed convolution."""
    kernel = weight._layout.shape[2:]
    given = zip(size, grad._layout.shape[2:], stride, padding, dilation, kernel)
    extra = [n - ((g - 1) * s - 2 * p + d * (k - 1) + 1) for n, g, s, p, d, k in given]
    return _aten().convolution.default(grad, weight, bias, list(stride), list(padding), list(dilation), True, extra, groups)


@_lowering
def _gradient_of_weight(
    own: Any, input: Tensor, grad: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The gradient of a convolution's weight."""
    shape = (grad._layout.shape[1], input._layout.shape[1] // groups, *kernel)
    weight = input.new_empty(shape)
    rest = (list(stride), list(padding), list(dilation), False, [0] * len(stride), groups)
    return _aten().convolution_backward.default(grad, input, weight, None, *rest, [False, True, False])[1]


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
        pool = getattr(_aten(), f"max_pool{dims}d_with_indices").default
        made = pool(input, each(kernel_size), steps, each(padding), each(dilation), ceil_mode)
        return made if return_indices else made[0]

    LOWERINGS[f"max_pool{dims}d"] = pooled


_pooling(2)
_pooling(3)


@_lowering
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
    attend = _aten()._scaled_dot_product_flash_attention_for_cpu.default
    return attend(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]


# ---------------------------------------------------------------- losses of elements


@_lowering
def log_sigmoid(own: Any, input: Tensor) -> Any:
    """The first result of an operator that also keeps the exponentials."""
    return _aten().log_sigmoid_forward.default(input)[0]


def _loss(name: str, *extra: str) -> None:
    """A loss of input, target and reduction, and the arguments `extra` behind that."""

    def lowered(own: Any, input: Tensor, target: Tensor, *args: Any, reduction: str = "mean", **kwargs: Any) -> Any:
        if args or set(kwargs) - set(extra) or not isinstance(reduction, str) or reduction not in _REDUCTIONS:
            return NotImplemented
        number = _REDUCTIONS.index(reduction)
        return getattr(_aten(), name).default(input, target, number, *[kwargs[n] for n in extra if n in kwargs])

    LOWERINGS[name] = lowered


_REDUCTIONS = ("none", "mean", "sum")
_loss("mse_loss")
_loss("smooth_l1_loss", "beta")
_loss("huber_loss", "delta")
_loss("soft_margin_loss")


# ---------------------------------------------------------------- numbers in front


@_lowering
def _rpow_operator(own: Any, exponent: Tensor, base: Any) -> Any:
    """A number to the power of a tensor."""
    return _aten().pow.Scalar(base, exponent)


@_lowering
def norm(own: Any, input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """A norm of all elements, or along dimensions."""
    if p == "nuc" or input._layout.dtype.is_complex:
        return NotImplemented
    order = 2 if p in ("fro", None) else p
    along = [dim] if isinstance(dim, int) else dim
    return _aten().linalg_vector_norm.default(input, order, along, keepdim, dtype=dtype)


# ---------------------------------------------------------------- what PyTorch makes of other operators


@_lowering
def where(own: Any, condition: Tensor, input: Any = None, other: Any = None, **named: Any) -> Any:
    """A choice, whose numbers are tensors first; of the condition alone, the places where it holds."""
    if input is None and other is None and not named:
        return tuple(_aten().unbind.int(_aten().nonzero.default(condition), 1))
    if named or (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return NotImplemented
    dtype = next((x._layout.dtype for x in (input, other) if isinstance(x, Tensor)), None)

    def whole(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x
        fits = dtype is None or not isinstance(x, (float, complex)) or dtype.is_floating_point or dtype.is_complex
        return _aten().scalar_tensor.default(x, dtype=dtype if fits else None)

    return _aten().where.self(condition, whole(input), whole(other))


@_lowering
def square(own: Any, input: Tensor, **named: Any) -> Any:
    """The second power."""
    return NotImplemented if named else _aten().pow.Tensor_Scalar(input, 2)


@_lowering
def relu6(own: Any, input: Tensor, inplace: bool = False) -> Any:
    """Between 0 and 6."""
    return (_aten().hardtanh_ if inplace else _aten().hardtanh).default(input, 0, 6)


@_lowering
def selu(own: Any, input: Tensor, inplace: bool = False) -> Any:
    """elu with its two scales."""
    return (_aten().elu_ if inplace else _aten().elu).default(input, 1.6732632423543772, 1.0507009873554805)


@_lowering
def softsign(own: Any, input: Tensor) -> Any:
    """x / (|x| + 1)."""
    return _aten().div.Tensor(input, _aten().add.Tensor(_aten().abs.default(input), 1))


@_lowering
def outer(own: Any, input: Tensor, vec2: Tensor, **named: Any) -> Any:
    """A product of a column and a row."""
    if named:
        return NotImplemented
    return _aten().mul.Tensor(_aten().view.default(input, [input._layout.numel, 1]), vec2)


@_lowering
def argsort(own: Any, input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The places of a sort."""
    if stable:
        return _aten().sort.stable(input, stable=True, dim=dim, descending=descending)[1]
    return _aten().sort.default(input, dim, descending)[1]


@_lowering
def isfinite(own: Any, input: Tensor) -> Any:
    """Equal to itself, and not infinite."""
    if not input._layout.dtype.is_floating_point:
        return NotImplemented
    known = _aten().eq.Tensor(input, input)
    return _aten().mul.Tensor(known, _aten().ne.Scalar(_aten().abs.default(input), math.inf))


@_lowering
def l1_loss(own: Any, input: Tensor, target: Tensor, *args: Any, reduction: str = "mean", **kwargs: Any) -> Any:
    """The mean or sum of |x - y|."""
    if args or kwargs or reduction not in _REDUCTIONS or input._layout.dtype.is_complex:
        return NotImplemented
    made = _aten().abs.default(_aten().sub.Tensor(input, target))
    return made if reduction == "none" else getattr(_aten(), reduction).default(made)


@_lowering
def adaptive_avg_pool2d(own: Any, input: Tensor, output_size: Any) -> Any:
    """A mean where one element is left, else the operator for all sizes."""
    size = [output_size] * 2 if isinstance(output_size, int) else list(output_size)
    if None in size:
        return NotImplemented
    if size == [1, 1]:
        return _aten().mean.dim(input, [-1, -2], True)
    return _aten()._adaptive_avg_pool2d.default(input, size)


@_lowering
def adaptive_avg_pool1d(own: Any, input: Tensor, output_size: Any) -> Any:
    """That of images of one row."""
    size = output_size if isinstance(output_size, int) else output_size[0]
    rows = _aten().unsqueeze.default(input, -2)
    return _aten().squeeze.dim(_aten()._adaptive_avg_pool2d.default(rows, [1, size]), -2)


@_lowering
def avg_pool1d(own: Any, input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Any:
    """That of images of one row."""
    def one(x: Any) -> int:
        return x if isinstance(x, int) else x[0]

    size = one(kernel_size)
    step = size if stride is None or (not isinstance(stride, int) and not len(stride)) else one(stride)
    rows = _aten().unsqueeze.default(input, -2)
    made = _aten().avg_pool2d.default(rows, [1, size], [1, step], [0, one(padding)], ceil_mode, count_include_pad)
    return _aten().squeeze.dim(made, -2)


@_lowering
def isclose(own: Any, input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Equal, or apart by no more than is allowed."""
    aten = _aten()
    if not (input._layout.dtype.is_floating_point and other._layout.dtype is input._layout.dtype):
        return NotImplemented
    close = aten.eq.Tensor(input, other)
    if equal_nan:
        close = aten.__ior__.Tensor(close, aten.__iand__.Tensor(aten.ne.Tensor(input, input), aten.ne.Tensor(other, other)))
    if not rtol and not atol:
        return close
    allowed = aten.add.Scalar(aten.abs.default(aten.mul.Scalar(other, rtol)), atol)
    apart = aten.abs.default(aten.sub.Tensor(input, other))
    within = aten.bitwise_and_.Tensor(isfinite(own, apart), aten.le.Tensor(apart, allowed))
    return aten.bitwise_or_.Tensor(close, within)


@_lowering
def elu(own: Any, input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Any:
    """elu with one scale."""
    return (_aten().elu_ if inplace else _aten().elu).default(input, alpha)


@_lowering
def tanhshrink(own: Any, input: Tensor) -> Any:
    """x - tanh(x)."""
    return _aten().sub.Tensor(input, _aten().tanh.default(input))


@_lowering
def nll_loss(own: Any, input: Tensor, target: Tensor, weight: Any = None, *args: Any, ignore_index: int = -100,
             reduction: Any = "mean") -> Any:
    """The likelihood loss of rows; a second result is for the gradient."""
    if args or input._layout.ndim > 2 or reduction not in _REDUCTIONS:
        return NotImplemented
    return _aten().nll_loss_forward.default(input, target, weight, _REDUCTIONS.index(reduction), ignore_index)[0]


@_lowering
def max_pool1d(own: Any, input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """That of images of one row."""
    def one(x: Any) -> int:
        return x if isinstance(x, int) else x[0]

    size = one(kernel_size)
    step = size if stride is None or (not isinstance(stride, int) and not len(stride)) else one(stride)
    rows = _aten().unsqueeze.default(input, -2)
    made = _aten().max_pool2d_with_indices.default(
        rows, [1, size], [1, step], [0, one(padding)], [1, one(dilation)], ceil_mode)
    values, indices = (_aten().squeeze.dim(x, -2) for x in made)
    return (values, indices) if return_indices else values


@_lowering
def group_norm(own: Any, input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enabled: bool = True) -> Any:
    """Group norm, of whose results the first."""
    shape = input._layout.shape
    if len(shape) < 2 or shape[1] % num_groups:
        return NotImplemented
    return _aten().native_group_norm.default(
        input, weight, bias, shape[0], shape[1], math.prod(shape[2:]), num_groups, eps)[0]


_PADDED = {"reflect": "reflection_pad", "replicate": "replication_pad"}


@_lowering
def pad(own: Any, input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Zeros, mirrored or repeated values around a tensor, by an operator for each."""
    if mode == "constant":
        return _aten().constant_pad_nd.default(input, list(pad), 0 if value is None else value)
    if mode not in _PADDED or input._layout.ndim not in (len(pad) // 2 + 1, len(pad) // 2 + 2):
        return NotImplemented
    return getattr(_aten(), f"{_PADDED[mode]}{len(pad) // 2}d").default(input, list(pad))


@_lowering
def bilinear(own: Any, input1: Tensor, input2: Tensor, weight: Tensor, bias: Any = None) -> Any:
    """A product of three tensors."""
    if input1._layout.ndim != 2:
        return NotImplemented
    made = _aten()._trilinear.default(input1, weight, input2, [1, 3], [0], [1, 2], [2, 3])
    return made if bias is None else _aten().add.Tensor(made, bias)


@_lowering
def __bool__(own: Any, input: Tensor) -> Any:
    """The only element as a truth."""
    if input._layout.numel != 1:
        return NotImplemented
    return bool(_aten()._local_scalar_dense.default(input))


@_lowering
def adaptive_max_pool2d(own: Any, input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of parts of an image, and where they are."""
    size = [output_size] * 2 if isinstance(output_size, int) else list(output_size)
    if None in size:
        return NotImplemented
    made = _aten().adaptive_max_pool2d.default(input, size)
    return made if return_indices else made[0]


@_lowering
def clamp_(own: Any, input: Tensor, min: Any = None, max: Any = None) -> Any:
    """Between two numbers, in place."""
    if isinstance(min, Tensor) or isinstance(max, Tensor) or (min is None and max is None):
        return NotImplemented
    return _aten().clamp_.default(input, min, max)
