"""Folding an evaluating batch norm into the convolution or linear layer before it."""

from __future__ import annotations

import copy

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of the convolution that does both. conv_w (out, in, *), or (in, out, *) if transpose; the batch
    norm's tensors (out)."""
    conv_b = flambeau.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = flambeau.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = flambeau.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * flambeau.rsqrt(bn_rv + bn_eps)
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(dtype=conv_w.dtype)
    bias = ((conv_b - bn_rm) * scale + bn_b).to(dtype=conv_b.dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, conv_b.requires_grad)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor, bn_b: Tensor
) -> tuple[Parameter, Parameter]:
    """(weight (out, in), bias (out)) of the linear layer that does both."""
    linear_b = flambeau.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * flambeau.rsqrt(bn_rv + bn_eps)
    weight = (linear_w * scale.unsqueeze(-1)).to(dtype=linear_w.dtype)
    bias = ((linear_b - bn_rm) * scale + bn_b).to(dtype=linear_b.dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(bias, linear_b.requires_grad)


def _checked_copy(layer: Module, bn: Module) -> Module:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Fusion needs a batch norm with running statistics")
    return copy.deepcopy(layer)


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A copy of conv with the batch norm folded in; both must be in evaluation mode."""
    fused = _checked_copy(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Module:
    """A copy of linear with the batch norm folded in; both must be in evaluation mode."""
    fused = _checked_copy(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
