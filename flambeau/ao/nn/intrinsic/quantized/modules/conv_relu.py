"""Convolutions and ReLUs with integer weights. Stands on quantized.modules.conv."""

from __future__ import annotations

from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn.intrinsic import qat as nniqat
from flambeau.ao.nn.quantized.modules import conv

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d"]


class ConvReLU1d(conv.Conv1d):
    """Conv1d followed by a ReLU."""

    _FLOAT_MODULE = nni.ConvReLU1d
    _NNIQAT_CONV_BN_MODULE = nniqat.ConvBnReLU1d
    _RELU = "_relu"

    def _get_name(self) -> str:
        return "QuantizedConvReLU1d"


class ConvReLU2d(conv.Conv2d):
    """Conv2d followed by a ReLU."""

    _FLOAT_MODULE = nni.ConvReLU2d
    _NNIQAT_CONV_BN_MODULE = nniqat.ConvBnReLU2d
    _RELU = "_relu"

    def _get_name(self) -> str:
        return "QuantizedConvReLU2d"


class ConvReLU3d(conv.Conv3d):
    """Conv3d followed by a ReLU."""

    _FLOAT_MODULE = nni.ConvReLU3d
    _NNIQAT_CONV_BN_MODULE = nniqat.ConvBnReLU3d
    _RELU = "_relu"

    def _get_name(self) -> str:
        return "QuantizedConvReLU3d"
