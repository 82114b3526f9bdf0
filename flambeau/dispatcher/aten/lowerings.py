"""Public functions that PyTorch computes by several operators, written in those: what modes below autograd see of them.

A lowering gets the function as it is and the arguments of the call; NotImplemented where the function's own body serves. Used by
dispatcher.dispatch_modes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.layout import contiguous_format
from flambeau.core.tensor import Tensor

__all__ = ["LOWERINGS"]

LOWERINGS: dict[str, Callable[..., Any]] = {}


def _lowering(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names or (function.__name__,):
            LOWERINGS[name] = function
        return function

    return register


def _aten() -> Any:
    from flambeau.dispatcher.namespaces import ops

    return ops.aten


@_lowering()
def linear(own: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """A product with the transposed weight."""
    if input._layout.ndim == 2 and bias is not None:
        return _aten().addmm.default(bias, input, _aten().t.default(weight))
    product = matmul(own, input, _aten().t.default(weight))
    return product if bias is None else _aten().add.Tensor(product, bias)


@_lowering("matmul")
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
        rows = 1
        for size in x.shape[:-1]:
            rows *= size
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
    count = 1
    for size in lead:
        count *= size

    def flat(t: Tensor) -> Any:
        sizes = t._layout.shape[-2:]
        return aten.expand.default(t, [*lead, *sizes]).reshape(count, *sizes)

    product = aten.bmm.default(flat(x), flat(other))
    shape = [*lead, x._layout.shape[-2], other._layout.shape[-1]]
    made = aten.view.default(product, shape)
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


@_lowering()
def layer_norm(own: Any, input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enable: bool = True) -> Any:
    """Layer norm, of whose results the first."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return _aten().native_layer_norm.default(input, shape, weight, bias, eps)[0]


@_lowering()
def batch_norm(own: Any, input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
               eps: float, cudnn_enabled: bool = True) -> Any:
    """Batch norm, of whose results the first."""
    return _aten().native_batch_norm.default(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@_lowering()
def cross_entropy_loss(own: Any, input: Tensor, target: Tensor, weight: Any = None, reduction: Any = "mean", ignore_index: int = -100,
                       label_smoothing: float = 0.0) -> Any:
    """The logarithm of a softmax, and the likelihood loss of it."""
    if target._layout.dtype.is_floating_point or label_smoothing or input._layout.ndim > 2:
        return NotImplemented
    number = ("none", "mean", "sum").index(reduction) if isinstance(reduction, str) else reduction
    axis = 0 if input._layout.ndim == 1 else 1
    logs = _aten()._log_softmax.default(input, axis, False)
    return _aten().nll_loss_forward.default(logs, target, weight, number, ignore_index)[0]


@_lowering()
def dropout(own: Any, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeros at random, the rest scaled."""
    if not training or p == 0 or inplace or not input.numel():
        return NotImplemented if inplace else input
    noise = _aten().bernoulli_.float(_aten().empty_like.default(input), 1 - p)
    return _aten().mul.Tensor(input, _aten().div_.Scalar(noise, 1 - p))


@_lowering()
def contiguous(own: Any, input: Tensor, memory_format: Any = None) -> Any:
    """A copy unless the tensor is contiguous."""
    if memory_format is not None:
        return NotImplemented
    return input if input._layout.is_contiguous else _aten().clone.default(input, memory_format=contiguous_format)


@_lowering()
def item(own: Any, input: Tensor) -> Any:
    """The only element."""
    return _aten()._local_scalar_dense.default(input)



@_lowering()
def tensor(own: Any, *args: Any, **kwargs: Any) -> Any:
    """A tensor of Python's numbers, which a mode may put its own in the place of."""
    return _aten().lift_fresh.default(own(*args, **kwargs))


@_lowering()
def convert(own: Any, input: Tensor, dtype: Any, wanted: Any = None) -> Any:
    """A copy in another dtype."""
    return _aten()._to_copy.default(input, dtype=dtype)
