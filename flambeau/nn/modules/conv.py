"""Convolutions, transposed convolutions and their lazy forms."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _pair, _reverse_repeat_tuple, _single, _triple
from flambeau.nn.parameter import Parameter, UninitializedParameter

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_PADDING_WORDS = ("same", "valid")


class _ConvNd(Module):
    """What all convolutions share. weight: (out, in / groups, *kernel), transposed: (in, out / groups, *kernel)."""

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding",
        "in_channels", "out_channels", "kernel_size",
    ]  # fmt: skip

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in _PADDING_WORDS:
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {{'zeros', 'reflect', 'replicate', 'circular'}}, "
                f"but got padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        # `F.pad` form of the padding, for the modes that pad before a convolution without padding.
        if isinstance(padding, str):
            amounts: list[int] = [0, 0] * len(kernel_size)
            if padding == "same":
                for axis, (extent, step) in enumerate(zip(kernel_size, dilation)):
                    total = step * (extent - 1)
                    position = 2 * (len(kernel_size) - 1 - axis)
                    amounts[position] = total // 2
                    amounts[position + 1] = total - total // 2
            self._reversed_padding_repeated_twice: Any = amounts
        else:
            self._reversed_padding_repeated_twice = _reverse_repeat_tuple(padding, 2)
        if transposed:
            shape = (in_channels, out_channels // groups, *kernel_size)
        else:
            shape = (out_channels, in_channels // groups, *kernel_size)
        self.weight = Parameter(flambeau.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(flambeau.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in +-1/sqrt(fan_in), weight first."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        axes = len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * axes:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "padding_mode" not in self.__dict__:
            self.padding_mode = "zeros"


def _convolution(conv: _ConvNd, function: Any, zero: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """function with the module's settings, after explicit padding where the mode is not zeros."""
    padding = conv.padding
    if conv.padding_mode != "zeros":
        input = F.pad(input, conv._reversed_padding_repeated_twice, mode=conv.padding_mode)
        padding = zero
    return function(input, weight, bias, conv.stride, padding, conv.dilation, conv.groups)


class Conv1d(_ConvNd):
    """Cross-correlation over (N, in_channels, L) or (in_channels, L); output (N, out_channels, L_out)."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1,
        bias: bool = True, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, _single(kernel_size), _single(stride),
            padding if isinstance(padding, str) else _single(padding), _single(dilation), False, _single(0),
            groups, bias, padding_mode, device=device, dtype=dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _convolution(self, F.conv1d, (0,), input, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv2d(_ConvNd):
    """Cross-correlation over (N, in_channels, H, W) or (in_channels, H, W); output (N, out_channels, H_out, W_out)."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1,
        bias: bool = True, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, _pair(kernel_size), _pair(stride),
            padding if isinstance(padding, str) else _pair(padding), _pair(dilation), False, _pair(0),
            groups, bias, padding_mode, device=device, dtype=dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _convolution(self, F.conv2d, (0, 0), input, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv3d(_ConvNd):
    """Cross-correlation over (N, in_channels, D, H, W); output (N, out_channels, D_out, H_out, W_out)."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1,
        bias: bool = True, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, _triple(kernel_size), _triple(stride),
            padding if isinstance(padding, str) else _triple(padding), _triple(dilation), False, _triple(0),
            groups, bias, padding_mode, device=device, dtype=dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _convolution(self, F.conv3d, (0, 0, 0), input, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions share: the output size is theirs to choose within one stride."""

    _axes: int
    _functional: str
    _ntuple = staticmethod(_single)

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0,
        groups: int = 1, bias: bool = True, dilation=1, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        many = self._ntuple
        super().__init__(
            in_channels, out_channels, many(kernel_size), many(stride), many(padding), many(dilation), True,
            many(output_padding), groups, bias, padding_mode, device=device, dtype=dtype,
        )  # fmt: skip

    def _output_padding(
        self, input: Tensor, output_size: list[int] | None, stride, padding, kernel_size, num_spatial_dims: int,
        dilation=None,
    ) -> Any:  # fmt: skip
        """The output_padding that yields output_size (spatial, or with the leading dimensions)."""
        if output_size is None:
            return _single(self.output_padding)
        has_batch = input.dim() == num_spatial_dims + 2
        leading = 2 if has_batch else 1
        if len(output_size) == leading + num_spatial_dims:
            output_size = output_size[leading:]
        if len(output_size) != num_spatial_dims:
            raise ValueError(
                f"ConvTranspose{num_spatial_dims}D: for {input.dim()}D input, output_size must have {num_spatial_dims} "
                f"or {leading + num_spatial_dims} elements (got {len(output_size)})"
            )
        smallest = []
        for axis in range(num_spatial_dims):
            step = 1 if dilation is None else dilation[axis]
            extent = (input.size(axis + leading) - 1) * stride[axis] - 2 * padding[axis]
            smallest.append(extent + step * (kernel_size[axis] - 1) + 1)
        largest = [low + stride[axis] - 1 for axis, low in enumerate(smallest)]
        for size, low, high in zip(output_size, smallest, largest):
            if size < low or size > high:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range "
                    f"from {smallest} to {largest} (for an input of {input.size()[2:]})"
                )
        return [size - low for size, low in zip(output_size, smallest)]

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for {type(self).__name__}")
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self._axes, self.dilation
        )
        function = getattr(F, self._functional)
        return function(input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation)


class ConvTranspose1d(_ConvTransposeNd):
    """The gradient of Conv1d as a layer: (N, in_channels, L) to (N, out_channels, L_out)."""

    _axes, _functional, _ntuple = 1, "conv_transpose1d", staticmethod(_single)


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of Conv2d as a layer: (N, in_channels, H, W) to (N, out_channels, H_out, W_out)."""

    _axes, _functional, _ntuple = 2, "conv_transpose2d", staticmethod(_pair)


class ConvTranspose3d(_ConvTransposeNd):
    """The gradient of Conv3d as a layer: (N, in_channels, D, H, W) to (N, out_channels, D_out, H_out, W_out)."""

    _axes, _functional, _ntuple = 3, "conv_transpose3d", staticmethod(_triple)


class _LazyConvXdMixin(LazyModuleMixin):
    """Takes in_channels from dimension 1 (or 0 without a batch) of the first input."""

    _spatial_dims: int

    def _start_lazily(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give weight and bias their shapes."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if self.transposed:
            shape = (self.in_channels, self.out_channels // self.groups, *self.kernel_size)
        else:
            shape = (self.out_channels, self.in_channels // self.groups, *self.kernel_size)
        self.weight.materialize(shape)
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        spatial = self._get_num_spatial_dims()
        batched, unbatched = spatial + 2, spatial + 1
        if input.dim() not in (batched, unbatched):
            raise RuntimeError(
                f"Expected {unbatched}D (unbatched) or {batched}D (batched) input to {type(self).__name__}, but "
                f"got input of size: {input.shape}"
            )
        return input.shape[1] if input.dim() == batched else input.shape[0]

    def _get_num_spatial_dims(self) -> int:
        return self._spatial_dims


class _LazyConv(_LazyConvXdMixin):
    """The constructor of the lazy convolutions."""

    def __init__(
        self, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        # No channels and no bias yet: the eager constructor draws no random numbers.
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device=device, dtype=dtype)
        self._start_lazily(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    """The constructor of the lazy transposed convolutions."""

    def __init__(
        self, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0, groups: int = 1,
        bias: bool = True, dilation=1, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode,
            device=device, dtype=dtype,
        )  # fmt: skip
        self._start_lazily(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that takes in_channels from its first input."""

    cls_to_become, _spatial_dims = Conv1d, 1


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that takes in_channels from its first input."""

    cls_to_become, _spatial_dims = Conv2d, 2


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that takes in_channels from its first input."""

    cls_to_become, _spatial_dims = Conv3d, 3


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that takes in_channels from its first input."""

    cls_to_become, _spatial_dims = ConvTranspose1d, 1


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that takes in_channels from its first input."""

    cls_to_become, _spatial_dims = ConvTranspose2d, 2


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that takes in_channels from its first input."""

    cls_to_become, _spatial_dims = ConvTranspose3d, 3
