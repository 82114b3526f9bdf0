"""Pooling with indices, and the gradients of poolings as operators of their own.

Stands on ops.nn.max_pool, average_pool, adaptive_pool and irregular_pool.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradient_of
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.nn import adaptive_pool, average_pool, fractional_pool
from flambeau.ops.nn import max_pool as maximum_pool


def _maximum(dims: int) -> None:
    """max_pool<dims>d_with_indices and its gradient; adaptive and fractional ones likewise."""

    def with_indices(
        self: Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        pool = getattr(maximum_pool, f"max_pool{dims}d_with_indices")
        return pool(self, kernel_size, stride or None, padding, dilation, ceil_mode)

    def scattered(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
        """Each gradient at the element that was the largest; indices count within a plane."""
        planes = self._layout.shape[:-dims]
        zeros = self.new_zeros((*planes, self.numel() // max(1, math.prod(planes))))
        made: Tensor = zeros.scatter_add(-1, indices.flatten(-dims), grad_output.flatten(-dims)).reshape(self._layout.shape)
        return made

    def backward(
        grad_output: Tensor,
        self: Tensor,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        indices: Tensor,
    ) -> Tensor:
        return scattered(grad_output, self, indices)

    def fractional_backward(grad_output: Tensor, self: Tensor, kernel_size: Any, output_size: Any, indices: Tensor) -> Tensor:
        return scattered(grad_output, self, indices)

    def adaptive(self: Tensor, output_size: Any) -> Any:
        return getattr(adaptive_pool, f"adaptive_max_pool{dims}d")(self, output_size, True)

    def fractional(self: Tensor, kernel_size: Any, output_size: Any, random_samples: Tensor) -> Any:
        pool = getattr(fractional_pool, f"fractional_max_pool{dims}d")
        return pool(self, kernel_size, output_size, None, True, random_samples)

    def unpool(self: Tensor, indices: Tensor, output_size: Any, stride: Any = None, padding: Any = None) -> Tensor:
        planes = self._layout.shape[:-dims]
        zeros = self.new_zeros((*planes, math.prod(output_size)))
        made: Tensor = zeros.scatter(-1, indices.flatten(-dims), self.flatten(-dims)).reshape((*planes, *output_size))
        return made

    implementation(f"max_pool{dims}d_with_indices")(with_indices)
    implementation(f"max_pool{dims}d_with_indices_backward")(backward)
    implementation(f"adaptive_max_pool{dims}d")(adaptive)
    implementation(f"adaptive_max_pool{dims}d_backward")(scattered)
    implementation(f"fractional_max_pool{dims}d")(fractional)
    implementation(f"fractional_max_pool{dims}d_backward")(fractional_backward)
    implementation(f"max_unpool{dims}d")(unpool)


def _average(dims: int) -> None:
    """The gradients of avg_pool<dims>d and of its adaptive form."""

    def backward(
        grad_output: Tensor,
        self: Tensor,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Tensor:
        pool = getattr(average_pool, f"avg_pool{dims}d")
        return gradient_of(
            lambda x: pool(x, kernel_size, stride or None, padding, ceil_mode, count_include_pad, divisor_override),
            self,
            grad_output,
        )

    def adaptive(self: Tensor, output_size: Any) -> Any:
        return getattr(adaptive_pool, f"adaptive_avg_pool{dims}d")(self, output_size)

    def adaptive_backward(grad_output: Tensor, self: Tensor) -> Tensor:
        return gradient_of(lambda x: adaptive(x, grad_output._layout.shape[-dims:]), self, grad_output)

    implementation(f"avg_pool{dims}d_backward")(backward)
    implementation(f"_adaptive_avg_pool{dims}d")(adaptive)
    implementation(f"_adaptive_avg_pool{dims}d_backward")(adaptive_backward)


for _dims in (2, 3):
    _maximum(_dims)
    _average(_dims)
