"""Pooling layers: maximum, average, power average, fractional and adaptive."""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _pair, _single, _triple


class _MaxPoolNd(Module):
    """Windows of the maximum. stride defaults to kernel_size."""

    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]

    def __init__(
        self,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] | None = None,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _pooled(self, function: Any, input: Tensor) -> Any:
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """(N, C, L) or (C, L) to (N, C, L_out)."""

    def forward(self, input: Tensor) -> Any:
        return self._pooled(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """(N, C, H, W) or (C, H, W) to (N, C, H_out, W_out)."""

    def forward(self, input: Tensor) -> Any:
        return self._pooled(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """(N, C, D, H, W) or (C, D, H, W) to (N, C, D_out, H_out, W_out)."""

    def forward(self, input: Tensor) -> Any:
        return self._pooled(F.max_pool3d, input)


class _MaxUnpoolNd(Module):
    """Puts values back where a max pooling took them from; zeros elsewhere."""

    _ntuple = staticmethod(_single)

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = self._ntuple(kernel_size)
        self.stride = self._ntuple(kernel_size if stride is None else stride)
        self.padding = self._ntuple(padding)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """(N, C, L) and indices of the same shape to (N, C, L_out)."""

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """(N, C, H, W) and indices of the same shape to (N, C, H_out, W_out)."""

    _ntuple = staticmethod(_pair)

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """(N, C, D, H, W) and indices of the same shape to (N, C, D_out, H_out, W_out)."""

    _ntuple = staticmethod(_triple)

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPoolNd(Module):
    """Windows of the mean."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """(N, C, L) or (C, L) to (N, C, L_out)."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    """Two and three dimensions: the divisor may be given."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _pooled(self, function: Any, input: Tensor) -> Tensor:
        return function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class AvgPool2d(_AvgPoolWithDivisor):
    """(N, C, H, W) or (C, H, W) to (N, C, H_out, W_out)."""

    def forward(self, input: Tensor) -> Tensor:
        return self._pooled(F.avg_pool2d, input)


class AvgPool3d(_AvgPoolWithDivisor):
    """(N, C, D, H, W) or (C, D, H, W) to (N, C, D_out, H_out, W_out)."""

    def forward(self, input: Tensor) -> Tensor:
        return self._pooled(F.avg_pool3d, input)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding", 0)
        self.__dict__.setdefault("ceil_mode", False)
        self.__dict__.setdefault("count_include_pad", True)


class _FractionalMaxPoolNd(Module):
    """Max pooling with pseudo-random windows; the output's size or its ratio to the input's is given."""

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _ntuple = staticmethod(_pair)

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._check_kernel_size(kernel_size)
        self.kernel_size = self._ntuple(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else self._ntuple(output_size)
        self.output_ratio = None if output_ratio is None else self._ntuple(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _check_kernel_size(self, kernel_size: Any) -> None:
        """Three dimensions check the extents when made, as in PyTorch."""

    def _pooled(self, function: Any, input: Tensor) -> Any:
        return function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """(N, C, H, W) or (C, H, W) to (N, C, *output_size)."""

    def forward(self, input: Tensor) -> Any:
        return self._pooled(F.fractional_max_pool2d, input)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """(N, C, D, H, W) or (C, D, H, W) to (N, C, *output_size)."""

    _ntuple = staticmethod(_triple)

    def _check_kernel_size(self, kernel_size: Any) -> None:
        extents = kernel_size if isinstance(kernel_size, (tuple, list)) else (kernel_size,)
        if any(extent <= 0 for extent in extents):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")

    def forward(self, input: Tensor) -> Any:
        return self._pooled(F.fractional_max_pool3d, input)


class _LPPoolNd(Module):
    """Windows of (sum x^p)^(1/p)."""

    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}"


class LPPool1d(_LPPoolNd):
    """(N, C, L) or (C, L) to (N, C, L_out)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """(N, C, H, W) or (C, H, W) to (N, C, H_out, W_out)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """(N, C, D, H, W) or (C, D, H, W) to (N, C, D_out, H_out, W_out)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _AdaptiveMaxPoolNd(Module):
    """The maximum of windows chosen for a given output size."""

    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """(N, C, L) or (C, L) to (N, C, output_size)."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """(N, C, H, W) or (C, H, W) to (N, C, *output_size); None keeps an extent."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """(N, C, D, H, W) or (C, D, H, W) to (N, C, *output_size); None keeps an extent."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    """The mean of windows chosen for a given output size."""

    __constants__ = ["output_size"]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """(N, C, L) or (C, L) to (N, C, output_size)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """(N, C, H, W) or (C, H, W) to (N, C, *output_size); None keeps an extent."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """(N, C, D, H, W) or (C, D, H, W) to (N, C, *output_size); None keeps an extent."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)
