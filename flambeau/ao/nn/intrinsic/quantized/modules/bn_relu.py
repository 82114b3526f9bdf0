"""Batch norms and ReLUs of quantized tensors. Stands on quantized.modules.batchnorm."""

from __future__ import annotations

from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn.quantized.modules import batchnorm

__all__ = ["BNReLU2d", "BNReLU3d"]


class BNReLU2d(batchnorm.BatchNorm2d):
    """BatchNorm2d followed by a ReLU."""

    _FLOAT_MODULE = nni.BNReLU2d
    _relu = "_relu"

    def _get_name(self) -> str:
        return "QuantizedBNReLU2d"


class BNReLU3d(batchnorm.BatchNorm3d):
    """BatchNorm3d followed by a ReLU."""

    _FLOAT_MODULE = nni.BNReLU3d
    _relu = "_relu"

    def _get_name(self) -> str:
        return "QuantizedBNReLU3d"
