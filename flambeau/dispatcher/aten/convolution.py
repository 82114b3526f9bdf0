"""The gradients of a convolution as one operator.

Stands on ops.nn.conv.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradients_of
from flambeau.dispatcher.aten.registry import implementation


@implementation()
def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Any,
) -> Any:
    """The gradients for input, weight and bias, those that output_mask asks for; None for the others."""

    def convolved(x: Tensor, w: Tensor) -> Any:
        return NAMESPACE["convolution"](x, w, None, stride, padding, dilation, transposed, output_padding, groups)

    found = (None, None)
    if output_mask[0] or output_mask[1]:
        found = gradients_of(convolved, (input, weight), grad_output, output_mask[:2])
    dims = [d for d in range(grad_output._layout.ndim) if d != 1]
    return (*found, grad_output.sum(dims) if output_mask[2] else None)


@implementation()
def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
    allow_tf32: bool = True,
) -> Any:
    """A convolution, as traced programs name it; the last arguments are of GPU libraries."""
    spatial = [tuple(n) if isinstance(n, list) else n for n in (stride, padding, dilation)]
    return NAMESPACE["convolution"](input, weight, bias, *spatial, transposed, tuple(output_padding), groups)


@implementation()
def _convolution_mode(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: str, dilation: Any, groups: int
) -> Any:
    """A convolution whose padding is "same" or "valid"."""
    function = NAMESPACE[f"conv{weight._layout.ndim - 2}d"]
    return function(input, weight, bias, tuple(stride), padding, tuple(dilation), groups)
