"""Convolutions with rounded weights. Stands on utils."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.ao.nn.quantized.reference.modules.utils import ReferenceQuantizedModule

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvNd(ReferenceQuantizedModule):
    """What all have in common: the float class, whose arguments they have, and weight_qparams."""

    _IS_REFERENCE = True
    _FLOAT: Any

    def __init__(self, *args: Any, weight_qparams: dict[str, Any] | None = None, device: Any = None, **kwargs: Any) -> None:
        self._FLOAT.__init__(self, *args, device=device, **kwargs)
        self._init_weight_qparams(weight_qparams, device)

    @classmethod
    def from_float(cls, float_conv: Any, weight_qparams: dict[str, Any]) -> Any:
        """The reference module of a convolution; parameters are shared."""
        more = {"output_padding": float_conv.output_padding} if float_conv.transposed else {}
        made = cls(
            float_conv.in_channels,
            float_conv.out_channels,
            float_conv.kernel_size,
            stride=float_conv.stride,
            padding=float_conv.padding,
            dilation=float_conv.dilation,
            groups=float_conv.groups,
            bias=float_conv.bias is not None,
            padding_mode=float_conv.padding_mode,
            device=float_conv.weight.device,
            dtype=float_conv.weight.dtype,
            weight_qparams=weight_qparams,
            **more,
        )
        made.weight = nn.Parameter(float_conv.weight.detach())
        if float_conv.bias is not None:
            made.bias = nn.Parameter(float_conv.bias.detach())
        return made


class _Forward(_ConvNd):
    """Convolutions, by the float class's _conv_forward."""

    def forward(self, x: Any) -> Any:
        """The convolution with the rounded weight."""
        return self._FLOAT._conv_forward(self, x, self.get_weight(), self.bias)


class _Transposed(_ConvNd):
    """Transposed convolutions."""

    def forward(self, x: Any, output_size: Any = None) -> Any:
        """The transposed convolution with the rounded weight."""
        dims = len(self.kernel_size)
        padding = self._output_padding(x, output_size, self.stride, self.padding, self.kernel_size, dims, self.dilation)
        function = getattr(nn.functional, f"conv_transpose{dims}d")
        return function(x, self.get_weight(), self.bias, self.stride, self.padding, padding, self.groups, self.dilation)


def _reference(name: str) -> Any:
    float_class = getattr(nn, name)
    base = _Transposed if "Transpose" in name else _Forward
    body = {"__doc__": f"nn.{name} whose weight is quantized and dequantized at each call.", "__module__": __name__}
    return type(name, (base, float_class), {**body, "_FLOAT": float_class})


Conv1d, Conv2d, Conv3d = (_reference(f"Conv{n}d") for n in (1, 2, 3))
ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = (_reference(f"ConvTranspose{n}d") for n in (1, 2, 3))
