"""Convolutions whose weights are rounded while they are trained. Stands on nn."""

from __future__ import annotations

from typing import Any, ClassVar

from flambeau import nn
from flambeau.ao.nn.intrinsic import _FusedModule

__all__ = ["Conv1d", "Conv2d", "Conv3d"]

_NUMBERS = "in_channels out_channels kernel_size stride padding dilation groups padding_mode".split()


class _ConvNd:
    """What the three have in common."""

    _FLOAT_MODULE: ClassVar[Any]
    _FLOAT_CONV_MODULE: ClassVar[Any]
    weight: Any
    bias: Any
    training: bool

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert qconfig, "qconfig must be provided for QAT module"
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Any) -> Any:
        """The convolution with the rounded weight."""
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)  # type: ignore[attr-defined]

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a float one with a qconfig becomes; parameters are shared."""
        assert type(mod) is cls._FLOAT_MODULE, f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}"
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
        assert mod.qconfig, "Input float module must have a valid qconfig"
        qconfig = mod.qconfig
        if issubclass(type(mod), _FusedModule):
            mod = mod[0]
        made: Any = cls(**{name: getattr(mod, name) for name in _NUMBERS}, bias=mod.bias is not None, qconfig=qconfig)
        made.weight, made.bias = mod.weight, mod.bias
        return made

    def to_float(self) -> Any:
        """A float module with these parameters; the modules that a fused one was made of, one after the other."""
        made = self._FLOAT_CONV_MODULE(**{name: getattr(self, name) for name in _NUMBERS}, bias=self.bias is not None)
        made.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            made.bias = nn.Parameter(self.bias.detach())
        if issubclass(self._FLOAT_MODULE, _FusedModule):
            modules = [made]
            if hasattr(self, "_FLOAT_RELU_MODULE"):
                modules.append(self._FLOAT_RELU_MODULE())
            made = self._FLOAT_MODULE(*modules)
        made.train(self.training)
        return made


class Conv1d(_ConvNd, nn.Conv1d):
    """nn.Conv1d with a rounded weight; `qconfig` is needed."""

    _FLOAT_MODULE = _FLOAT_CONV_MODULE = nn.Conv1d


class Conv2d(_ConvNd, nn.Conv2d):
    """nn.Conv2d with a rounded weight; `qconfig` is needed."""

    _FLOAT_MODULE = _FLOAT_CONV_MODULE = nn.Conv2d


class Conv3d(_ConvNd, nn.Conv3d):
    """nn.Conv3d with a rounded weight; `qconfig` is needed."""

    _FLOAT_MODULE = _FLOAT_CONV_MODULE = nn.Conv3d
