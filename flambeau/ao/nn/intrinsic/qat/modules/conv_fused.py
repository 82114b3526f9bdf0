"""Convolutions with batch norms and ReLUs, trained with rounded weights. Stands on nn.qat.

The weight that is rounded is the one that inference will have: times the batch norm's factor by its running variance. The result
is divided by it again before the batch norm, which trains as usual.
"""

from __future__ import annotations

from typing import Any, ClassVar

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn import qat as nnqat
from flambeau.ao.nn.intrinsic import _FusedModule
from flambeau.ao.nn.intrinsic.qat.modules.batch_norm import TrainedBatchNorm
from flambeau.nn.utils.fusion import fuse_conv_bn_weights

__all__ = [
    "ConvBn1d",
    "ConvBn2d",
    "ConvBn3d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvBnReLU3d",
    "ConvReLU1d",
    "ConvReLU2d",
    "ConvReLU3d",
    "freeze_bn_stats",
    "update_bn_stats",
]

_BN: dict[int, Any] = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


class _ConvBnNd(TrainedBatchNorm, _FusedModule):
    """A convolution and a batch norm; of `dims` dimensions."""

    _version = 2
    _FLOAT_MODULE: ClassVar[Any]
    _FLOAT_CONV_MODULE: ClassVar[Any]
    _FLOAT_BN_MODULE: ClassVar[Any]
    _FLOAT_RELU_MODULE: ClassVar[Any] = None
    _FUSED_FLOAT_MODULE: ClassVar[Any] = None
    dims: ClassVar[int]
    weight: Any
    bias: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: Any = None,
        padding_mode: str = "zeros",
        eps: float = 1e-05,
        momentum: float = 0.1,
        freeze_bn: bool = False,
        qconfig: Any = None,
    ) -> None:
        nn.Module.__init__(self)
        assert qconfig, "qconfig must be provided for QAT module"
        conv = self._FLOAT_CONV_MODULE(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False, padding_mode
        )
        for name in vars(conv):
            if name not in vars(self):
                setattr(self, name, vars(conv)[name])
        self.transposed, self._convolution = conv.transposed, type(conv)._conv_forward
        self.weight = conv.weight
        self.qconfig, self.freeze_bn = qconfig, freeze_bn if self.training else True
        self.bn = _BN[self.dims](out_channels, eps, momentum, True, True)
        self.weight_fake_quant = qconfig.weight()
        if bias:
            self.bias = nn.Parameter(torch.empty(out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_bn_parameters()
        self._enable_slow_path_for_better_numerical_stability = False
        if self.training:
            (self.freeze_bn_stats if freeze_bn else self.update_bn_stats)()
        else:
            self.freeze_bn_stats()

    def extra_repr(self) -> str:
        return self._FLOAT_CONV_MODULE.extra_repr(self)  # type: ignore[no-any-return]

    def forward(self, input: Any) -> Any:
        """bn(conv(input)), followed by the ReLU if there is one."""
        assert isinstance(self.bn.running_var, torch.Tensor)
        slow = self._enable_slow_path_for_better_numerical_stability
        made = self._forward_slow(input) if slow else self._forward_approximate(input)
        return made if self._FLOAT_RELU_MODULE is None else nn.functional.relu(made)

    def _column(self, values: Any) -> Any:
        return values.reshape([1, -1, *[1] * self.dims])

    def _rounded_convolution(self, input: Any) -> tuple[Any, Any]:
        """The convolution by the weight as it will be rounded, and the batch norm's factor that is in it."""
        factor = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        weight = self.weight_fake_quant(self.weight * factor.reshape([-1, *[1] * (self.dims + 1)]))
        return self._conv_forward(input, weight, self._zero_bias(input)), factor

    def _zero_bias(self, input: Any) -> Any:
        return None if self.bias is None else torch.zeros_like(self.bias, dtype=input.dtype)

    def _forward_approximate(self, input: Any) -> Any:
        made, factor = self._rounded_convolution(input)
        made = made / self._column(factor)
        return self.bn(made if self.bias is None else made + self._column(self.bias))

    def _forward_slow(self, input: Any) -> Any:
        """The same without a division by the factor, which may be 0: batches are measured by a second convolution."""
        bn = self.bn
        if bn.training:
            plain = self._conv_forward(input, self.weight, self._zero_bias(input))
            with torch.no_grad():
                bn(plain if self.bias is None else plain + self._column(self.bias))  # which follows the batch
        made, _ = self._rounded_convolution(input)
        deviation = torch.sqrt(bn.running_var + bn.eps)
        mean = bn.running_mean if self.bias is None else bn.running_mean - self.bias
        if bn.training:
            axes = [0, *range(2, plain.dim())]
            mean = plain.mean(axes)
            own = torch.sqrt(torch.square(plain - self._column(mean)).mean(axes) + bn.eps)
            made, deviation = made * self._column(deviation / own), own
        made = made + self._column(bn.bias - bn.weight * mean / deviation)
        # The bias has no effect in training; a zero of it keeps it in the graph, as distributed training expects.
        return made if self.bias is None else made + self._column(self.bias - self.bias)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        return self._convolution(self, input, weight, bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a fused float one with a qconfig becomes; parameters are shared."""
        assert type(mod) is cls._FLOAT_MODULE, f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}"
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
        assert mod.qconfig, "Input float module must have a valid qconfig"
        conv, bn = mod[0], mod[1]
        made = cls(
            conv.in_channels,
            conv.out_channels,
            conv.kernel_size,
            conv.stride,
            conv.padding,
            conv.dilation,
            conv.groups,
            conv.bias is not None,
            conv.padding_mode,
            bn.eps,
            bn.momentum,
            False,
            mod.qconfig,
        )
        made.weight, made.bias = conv.weight, conv.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made.bn, name, getattr(bn, name))
        return made

    def to_float(self) -> Any:
        """The convolution with the batch norm taken in, in a fused module with the ReLU if there is one."""
        made = self._FLOAT_CONV_MODULE(
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation, self.groups,
            self.bias is not None, self.padding_mode,
        )  # fmt: skip
        made.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            made.bias = nn.Parameter(self.bias.detach())
        bn = self.bn
        made.weight, made.bias = fuse_conv_bn_weights(
            made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        if self._FLOAT_RELU_MODULE is not None:
            made = self._FUSED_FLOAT_MODULE(made, self._FLOAT_RELU_MODULE())
        made.train(self.training)
        return made


def _with_bn(dims: int, relu: bool) -> Any:
    name = f"ConvBn{'ReLU' if relu else ''}{dims}d"
    conv = getattr(nn, f"Conv{dims}d")
    body: dict[str, Any] = {
        "__doc__": f"Conv{dims}d, BatchNorm{dims}d{' and ReLU' if relu else ''}, trained with a rounded weight.",
        "__module__": __name__,
        "dims": dims,
        "_FLOAT_MODULE": getattr(nni, name),
        "_FLOAT_CONV_MODULE": conv,
        "_FLOAT_BN_MODULE": _BN[dims],
        "_FLOAT_RELU_MODULE": nn.ReLU if relu else None,
        "_FUSED_FLOAT_MODULE": getattr(nni, f"ConvReLU{dims}d") if relu else None,
    }
    return type(name, (_ConvBnNd,), body)


ConvBn1d, ConvBn2d, ConvBn3d = (_with_bn(dims, False) for dims in (1, 2, 3))
ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d = (_with_bn(dims, True) for dims in (1, 2, 3))


def _with_relu(dims: int) -> Any:
    base = getattr(nnqat, f"Conv{dims}d")

    def forward(self: Any, input: Any) -> Any:
        """relu(conv(input))."""
        return nn.functional.relu(self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias))

    body: dict[str, Any] = {
        "__doc__": f"Conv{dims}d and ReLU, trained with a rounded weight.",
        "__module__": __name__,
        "_FLOAT_MODULE": getattr(nni, f"ConvReLU{dims}d"),
        "_FLOAT_CONV_MODULE": getattr(nn, f"Conv{dims}d"),
        "_FLOAT_BN_MODULE": None,
        "_FLOAT_RELU_MODULE": nn.ReLU,
        "forward": forward,
    }
    return type(f"ConvReLU{dims}d", (base, _FusedModule), body)


ConvReLU1d, ConvReLU2d, ConvReLU3d = map(_with_relu, (1, 2, 3))
_FUSED = (ConvBn1d, ConvBn2d, ConvBn3d, ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d)


def update_bn_stats(mod: Any) -> None:
    """model.apply(update_bn_stats): let the means and variances of fused batch norms follow the batches."""
    if type(mod) in _FUSED:
        mod.update_bn_stats()


def freeze_bn_stats(mod: Any) -> None:
    """model.apply(freeze_bn_stats): let them be."""
    if type(mod) in _FUSED:
        mod.freeze_bn_stats()
