"""Resampling of planes by name, upsample_bilinear2d and its like, with gradients; and those of grid_sampler.

Stands on ops.nn.interpolate and grid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradients_of
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.nn import interpolate


def _declare(name: str, kind: str, dims: int, aligned: bool, antialias: bool = False) -> None:
    """An upsampling operator, (self, output_size, [align_corners,] scale per dimension), and its gradient."""

    def resampled(x: Tensor, output_size: Any, align: bool, *scales: float | None) -> Any:
        return interpolate.resample(x, interpolate.Spec(kind, tuple(output_size), scales[:dims], align, antialias))

    def forward(self: Tensor, output_size: Any, a: Any = None, b: Any = None, c: Any = None) -> Any:
        return resampled(self, output_size, False, a, b, c)

    def backward(grad_output: Tensor, output_size: Any, input_size: Any, a: Any = None, b: Any = None, c: Any = None) -> Any:
        return _transposed(lambda x: resampled(x, output_size, False, a, b, c), grad_output, input_size)

    def aligned_forward(self: Tensor, output_size: Any, align_corners: bool, a: Any = None, b: Any = None, c: Any = None) -> Any:
        return resampled(self, output_size, align_corners, a, b, c)

    def aligned_backward(
        grad_output: Tensor, output_size: Any, input_size: Any, align_corners: bool, a: Any = None, b: Any = None, c: Any = None
    ) -> Any:
        return _transposed(lambda x: resampled(x, output_size, align_corners, a, b, c), grad_output, input_size)

    def by_factors(input: Tensor, output_size: Any, scale_factors: Any) -> Any:
        return resampled(input, _sizes(input, output_size, scale_factors), False, *(scale_factors or [None] * dims))

    def aligned_by_factors(input: Tensor, output_size: Any, align_corners: bool, scale_factors: Any) -> Any:
        return resampled(input, _sizes(input, output_size, scale_factors), align_corners, *(scale_factors or [None] * dims))

    implementation(name + ".vec")(aligned_by_factors if aligned else by_factors)
    implementation(name)(aligned_forward if aligned else forward)
    implementation(name + "_backward")(aligned_backward if aligned else backward)


def _sizes(input: Tensor, output_size: Any, factors: Any) -> Any:
    """The sizes of a result that are given, or follow from factors."""
    return output_size if output_size is not None else [int(n * f) for n, f in zip(input.shape[2:], factors)]


def _transposed(function: Callable[[Tensor], Tensor], gradient: Tensor, size: Any) -> Any:
    """The gradient of a linear function, of an input of that size whose values don't matter."""
    return gradients_of(function, (gradient.new_zeros(tuple(size)),), gradient)[0]


for _dims in (1, 2, 3):
    _declare(f"upsample_nearest{_dims}d", interpolate.NEAREST, _dims, False)
    _declare(f"_upsample_nearest_exact{_dims}d", interpolate.EXACT, _dims, False)
for _dims, _word in enumerate(("linear1d", "bilinear2d", "trilinear3d"), 1):
    _declare(f"upsample_{_word}", interpolate.LINEAR, _dims, True)
_declare("upsample_bicubic2d", "bicubic", 2, True)
_declare("_upsample_bilinear2d_aa", interpolate.LINEAR, 2, True, True)
_declare("_upsample_bicubic2d_aa", "bicubic", 2, True, True)
_declare("_upsample_lanczos2d_aa", "lanczos", 2, True, True)


@implementation("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Any,
) -> Any:
    """The gradients of grid_sampler for input and grid; None where not wanted."""
    sampler = NAMESPACE["grid_sampler"]
    return gradients_of(
        lambda x, y: sampler(x, y, interpolation_mode, padding_mode, align_corners),
        (input, grid),
        grad_output,
        (output_mask[0], True),
    )
