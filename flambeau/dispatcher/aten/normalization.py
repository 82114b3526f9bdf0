"""Normalizations' gradients, and batch norm with what it saves, as PyTorch's operators return them.

Stands on ops.nn.norm and batch_norm.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradients_of
from flambeau.dispatcher.aten.registry import implementation


def _input_gradient(g: Any, x: Any, mean: Any, rstd: Any, weight: Any, dims: Any) -> tuple[Any, Any]:
    """The gradient for the input of a normalization over `dims`, and the normalized input; all broadcast, in the means' dtype."""
    dtype = mean._layout.dtype
    g, normal = g.to(dtype), (x.to(dtype) - mean) * rstd
    weighted = g if weight is None else g * weight.to(dtype)
    made = (weighted - weighted.mean(dims, True) - normal * (weighted * normal).mean(dims, True)) * rstd
    return made.to(x._layout.dtype), normal


@implementation()
def native_layer_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Any,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Any,
) -> Any:
    """The gradients of layer norm for input, weight and bias, by the mean and inverse deviation that its forward pass made."""
    ndim = input._layout.ndim
    inner = tuple(range(ndim - len(normalized_shape), ndim))
    outer = tuple(range(ndim - len(normalized_shape)))
    made, normal = _input_gradient(grad_out, input, mean, rstd, weight, inner)
    return (
        made if output_mask[0] else None,
        _summed(grad_out * normal, outer, weight) if output_mask[1] and weight is not None else None,
        _summed(grad_out, outer, bias) if output_mask[2] and bias is not None else None,
    )


def _summed(x: Any, dims: Any, like: Any) -> Any:
    return (x.sum(dims) if dims else x).to(like._layout.dtype)


@implementation()
def native_group_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Any,
) -> Any:
    """The gradients of group norm for input, weight and bias, by the means and inverse deviations that its forward pass made."""

    def grouped(x: Any) -> Any:
        return x.reshape(N, group, C // group, HxW)

    scale = None if weight is None else weight.reshape(1, group, C // group, 1)
    g = grouped(grad_out)
    made, normal = _input_gradient(g, grouped(input), mean.reshape(N, group, 1, 1), rstd.reshape(N, group, 1, 1), scale, (2, 3))
    like = input if weight is None else weight
    return (
        made.reshape(input._layout.shape) if output_mask[0] else None,
        _summed((g * normal).reshape(N, C, HxW), (0, 2), like) if output_mask[1] else None,
        _summed(g.reshape(N, C, HxW), (0, 2), like) if output_mask[2] else None,
    )


@implementation()
def native_batch_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
    output_mask: Any,
) -> Any:
    """The gradients of batch norm for input, weight and bias."""
    bias = None if weight is None else weight.new_zeros(weight._layout.shape)

    def normalized(x: Tensor, w: Any, b: Any) -> Any:
        mean, var = (None, None) if train else (running_mean, running_var)
        return NAMESPACE["batch_norm"](x, w, b, mean, var, train, 0.0, eps, False)

    return gradients_of(normalized, (input, weight, bias), grad_out, output_mask)


@implementation()
def batch_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_var: Tensor | None,
    update: bool,
    eps: float,
    output_mask: Any,
    reserve: Tensor,
) -> Any:
    """native_batch_norm_backward, for the form that keeps a reserve."""
    return native_batch_norm_backward(
        grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )


@implementation("_native_batch_norm_legit")
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Batch norm, and the mean and inverse deviation that it used; writes the running statistics in training."""
    return NAMESPACE["native_batch_norm"](input, weight, bias, running_mean, running_var, training, momentum, eps)


@implementation("_native_batch_norm_legit.no_stats")
def native_batch_norm_without_statistics(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> Any:
    """Batch norm that keeps no running statistics."""
    return NAMESPACE["native_batch_norm"](input, weight, bias, None, None, training, momentum, eps)


@implementation("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def native_batch_norm_without_training(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Any:
    """Batch norm by the running statistics."""
    return NAMESPACE["native_batch_norm"](input, weight, bias, running_mean, running_var, False, momentum, eps)


@implementation("_native_batch_norm_legit_functional")
def native_batch_norm_without_writes(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Batch norm, the mean and inverse deviation that it used, and what it would write: the new running statistics."""
    mean, var = running_mean.clone(), running_var.clone()
    return *native_batch_norm(input, weight, bias, mean, var, training, momentum, eps), mean, var
