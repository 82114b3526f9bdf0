"""torch.nn.grad: gradients of convolutions as functions of what the convolution was given.

Stands on ops.nn.conv, whose operators these are; nn.functional shows it as `functional.grad`.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nn import conv

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv1d` for its input, of shape input_size (N, C, L), from that of its result.

    RuntimeError where the shapes don't go together.
    """
    return conv.input_gradient(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv1d` for its weight, of shape weight_size (O, C / groups, K), from that of its result.

    RuntimeError where the shapes don't go together.
    """
    return conv.weight_gradient(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv2d` for its input, of shape input_size (N, C, H, W); see `conv1d_input`."""
    return conv.input_gradient(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv2d` for its weight, of shape weight_size (O, C / groups, KH, KW); see `conv1d_weight`."""
    return conv.weight_gradient(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv3d` for its input, of shape input_size (N, C, D, H, W); see `conv1d_input`."""
    return conv.input_gradient(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv3d` for its weight, of shape weight_size (O, C / groups, KD, KH, KW); see `conv1d_weight`."""
    return conv.weight_gradient(3, input, weight_size, grad_output, stride, padding, dilation, groups)
