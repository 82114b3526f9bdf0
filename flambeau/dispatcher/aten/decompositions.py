"""Lowerings of public functions that are one operator here and several in PyTorch: what modes below autograd see of them.

Stands on lowerings; loaded by dispatcher.dispatch_modes.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.lowerings import LOWERINGS, REDUCTIONS, lowering, packets

__all__: list[str] = []


@lowering
def square(own: Any, input: Tensor, **named: Any) -> Any:
    """The second power."""
    return NotImplemented if named else packets().pow.Tensor_Scalar(input, 2)


@lowering
def relu6(own: Any, input: Tensor, inplace: bool = False) -> Any:
    """Between 0 and 6."""
    return (packets().hardtanh_ if inplace else packets().hardtanh).default(input, 0, 6)


@lowering
def selu(own: Any, input: Tensor, inplace: bool = False) -> Any:
    """elu with its two scales."""
    return (packets().elu_ if inplace else packets().elu).default(input, 1.6732632423543772, 1.0507009873554805)


@lowering
def softsign(own: Any, input: Tensor) -> Any:
    """x / (|x| + 1)."""
    return packets().div.Tensor(input, packets().add.Tensor(packets().abs.default(input), 1))


@lowering
def outer(own: Any, input: Tensor, vec2: Tensor, **named: Any) -> Any:
    """A product of a column and a row."""
    if named:
        return NotImplemented
    return packets().mul.Tensor(packets().view.default(input, [input.shape[0], 1]), vec2)


@lowering
def argsort(own: Any, input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The places of a sort."""
    if stable:
        return packets().sort.stable(input, stable=True, dim=dim, descending=descending)[1]
    return packets().sort.default(input, dim, descending)[1]


@lowering
def isfinite(own: Any, input: Tensor) -> Any:
    """Equal to itself, and not infinite."""
    if not input._layout.dtype.is_floating_point:
        return NotImplemented
    inside = packets().ne.Scalar(packets().abs.default(input), math.inf)
    return packets().mul.Tensor(packets().eq.Tensor(input, input), inside)


@lowering
def l1_loss(own: Any, input: Tensor, target: Tensor, *args: Any, reduction: str = "mean", **kwargs: Any) -> Any:
    """The mean or sum of |x - y|."""
    if args or kwargs or reduction not in REDUCTIONS or input._layout.dtype.is_complex:
        return NotImplemented
    made = packets().abs.default(packets().sub.Tensor(input, target))
    return made if reduction == "none" else getattr(packets(), reduction).default(made)


@lowering
def adaptive_avg_pool2d(own: Any, input: Tensor, output_size: Any) -> Any:
    """A mean where one element is left, else the operator for all sizes."""
    size = [output_size] * 2 if isinstance(output_size, int) else list(output_size)
    if None in size:
        return NotImplemented
    if size == [1, 1]:
        return packets().mean.dim(input, [-1, -2], True)
    return packets()._adaptive_avg_pool2d.default(input, size)


@lowering
def adaptive_avg_pool1d(own: Any, input: Tensor, output_size: Any) -> Any:
    """That of images of one row."""
    size = output_size if isinstance(output_size, int) else output_size[0]
    rows = packets().unsqueeze.default(input, -2)
    return packets().squeeze.dim(packets()._adaptive_avg_pool2d.default(rows, [1, size]), -2)


@lowering
def avg_pool1d(
    own: Any,
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """That of images of one row."""

    def one(x: Any) -> int:
        return x if isinstance(x, int) else x[0]

    size = one(kernel_size)
    step = size if stride is None or (not isinstance(stride, int) and not len(stride)) else one(stride)
    rows = packets().unsqueeze.default(input, -2)
    made = packets().avg_pool2d.default(rows, [1, size], [1, step], [0, one(padding)], ceil_mode, count_include_pad)
    return packets().squeeze.dim(made, -2)


@lowering
def isclose(own: Any, input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Equal, or apart by no more than is allowed."""
    aten = packets()
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


@lowering
def elu(own: Any, input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Any:
    """elu with one scale."""
    return (packets().elu_ if inplace else packets().elu).default(input, alpha)


@lowering
def elu_(own: Any, input: Tensor, alpha: float = 1.0) -> Any:
    """elu in place."""
    return packets().elu_.default(input, alpha)


@lowering
def tanhshrink(own: Any, input: Tensor) -> Any:
    """x - tanh(x)."""
    return packets().sub.Tensor(input, packets().tanh.default(input))


@lowering
def nll_loss(
    own: Any, input: Tensor, target: Tensor, weight: Any = None, *args: Any, ignore_index: int = -100, reduction: Any = "mean"
) -> Any:
    """The likelihood loss of rows; a second result is for the gradient."""
    if args or input._layout.ndim > 2 or reduction not in REDUCTIONS:
        return NotImplemented
    return packets().nll_loss_forward.default(input, target, weight, REDUCTIONS.index(reduction), ignore_index)[0]


@lowering
def max_pool1d(
    own: Any,
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """That of images of one row."""

    def one(x: Any) -> int:
        return x if isinstance(x, int) else x[0]

    size = one(kernel_size)
    step = size if stride is None or (not isinstance(stride, int) and not len(stride)) else one(stride)
    rows = packets().unsqueeze.default(input, -2)
    made = packets().max_pool2d_with_indices.default(rows, [1, size], [1, step], [0, one(padding)], [1, one(dilation)], ceil_mode)
    values, indices = (packets().squeeze.dim(x, -2) for x in made)
    return (values, indices) if return_indices else values


@lowering
def group_norm(
    own: Any, input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Any:
    """Group norm, of whose results the first."""
    shape = input.shape
    if len(shape) < 2 or shape[1] % num_groups:
        return NotImplemented
    return packets().native_group_norm.default(input, weight, bias, shape[0], shape[1], math.prod(shape[2:]), num_groups, eps)[0]


_PADDED = {"reflect": "reflection_pad", "replicate": "replication_pad"}


@lowering
def pad(own: Any, input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Zeros, mirrored or repeated values around a tensor, by an operator for each."""
    if mode == "constant":
        return packets().constant_pad_nd.default(input, list(pad), 0 if value is None else value)
    if mode not in _PADDED or input._layout.ndim not in (len(pad) // 2 + 1, len(pad) // 2 + 2):
        return NotImplemented
    return getattr(packets(), f"{_PADDED[mode]}{len(pad) // 2}d").default(input, list(pad))


@lowering
def bilinear(own: Any, input1: Tensor, input2: Tensor, weight: Tensor, bias: Any = None) -> Any:
    """A product of three tensors."""
    if input1._layout.ndim != 2:
        return NotImplemented
    made = packets()._trilinear.default(input1, weight, input2, [1, 3], [0], [1, 2], [2, 3])
    return made if bias is None else packets().add.Tensor(made, bias)


@lowering
def __bool__(own: Any, input: Tensor) -> Any:
    """The only element as a truth."""
    if input._layout.numel != 1:
        return NotImplemented
    return bool(packets()._local_scalar_dense.default(input))


@lowering
def adaptive_max_pool2d(own: Any, input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of parts of an image, and where they are."""
    size = [output_size] * 2 if isinstance(output_size, int) else list(output_size)
    if None in size:
        return NotImplemented
    made = packets().adaptive_max_pool2d.default(input, size)
    return made if return_indices else made[0]


@lowering
def clamp_(own: Any, input: Tensor, min: Any = None, max: Any = None) -> Any:
    """Between two numbers, in place."""
    if isinstance(min, Tensor) or isinstance(max, Tensor) or (min is None and max is None):
        return NotImplemented
    return packets().clamp_.default(input, min, max)


@lowering
def swapaxes_(own: Any, input: Tensor, axis0: int, axis1: int) -> Any:
    """A transposition in place."""
    return packets().transpose_.default(input, axis0, axis1)


LOWERINGS["swapdims_"] = swapaxes_


@lowering
def unique(
    own: Any,
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements, or parts along a dimension."""
    if dim is None:
        made = packets()._unique2.default(input, sorted, return_inverse, return_counts)
    else:
        made = packets().unique_dim.default(input, dim, sorted, return_inverse, return_counts)
    return _wanted(made, return_inverse, return_counts)


@lowering
def unique_consecutive(
    own: Any, input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements."""
    return _wanted(packets().unique_consecutive.default(input, return_inverse, return_counts, dim), return_inverse, return_counts)


def _wanted(made: Any, *which: bool) -> Any:
    """The first result, with those of the others that are asked for."""
    found = made[0], *(x for x, wanted in zip(made[1:], which) if wanted)
    return found if len(found) > 1 else found[0]


@lowering
def adaptive_max_pool1d(own: Any, input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """That of images of one row."""
    size = output_size if isinstance(output_size, int) else output_size[0]
    made = packets().adaptive_max_pool2d.default(packets().unsqueeze.default(input, -2), [1, size])
    values, indices = (packets().squeeze.dim(x, -2) for x in made)
    return (values, indices) if return_indices or not hasattr(own, "operator") else values  # torch's function gives both


@lowering
def adaptive_max_pool3d(own: Any, input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of parts of a volume, and where they are."""
    size = [output_size] * 3 if isinstance(output_size, int) else list(output_size)
    if None in size:
        return NotImplemented
    made = packets().adaptive_max_pool3d.default(input, size)
    return made if return_indices else made[0]


@lowering
def average_windows(own: Any, input: Tensor, window: Any) -> Any:
    """The means of windows."""
    return getattr(packets(), window.name).default(
        input,
        *map(list, (window.kernel, window.stride, window.padding)),
        window.ceil_mode,
        window.count_include_pad,
        window.divisor or None,
    )


@lowering
def ctc_loss(own: Any, log_probs: Tensor, targets: Tensor, *args: Any, **kwargs: Any) -> Any:
    """The losses, and what their gradient is made of; PyTorch's `ctc_loss` reduces them."""
    made_of_lengths = hasattr(own, "operator")
    return packets()._ctc_loss.default(log_probs, targets, *args, **kwargs) if made_of_lengths else NotImplemented


@lowering
def binary_cross_entropy(
    own: Any,
    input: Tensor,
    target: Tensor,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """The loss of probabilities."""
    if size_average is not None or reduce is not None or reduction not in REDUCTIONS or target.shape != input.shape:
        return NotImplemented
    return packets().binary_cross_entropy.default(input, target, weight, REDUCTIONS.index(reduction))


def _unpool(dims: int) -> Any:
    def rule(
        own: Any, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:
        if output_size is not None:
            return NotImplemented
        kernel, padding = ([x] * dims if isinstance(x, int) else list(x) for x in (kernel_size, padding))
        step = kernel if stride is None else [stride] * dims if isinstance(stride, int) else list(stride)
        size = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(input.shape[-dims:], step, padding, kernel)]
        further = (step, padding) if dims == 3 else ()
        return getattr(packets(), f"max_unpool{dims}d").default(input, indices, size, *further)

    return rule


LOWERINGS["max_unpool2d"], LOWERINGS["max_unpool3d"] = _unpool(2), _unpool(3)


@lowering
def one_hot(own: Any, input: Tensor, num_classes: int = -1) -> Any:
    """Ones at the classes, where their number is known."""
    if num_classes < 1 or not input.numel():
        return NotImplemented
    zeros = packets().new_zeros.default(input, [*input.shape, num_classes])
    return packets().scatter.value(zeros, -1, packets().unsqueeze.default(input, -1), 1)
