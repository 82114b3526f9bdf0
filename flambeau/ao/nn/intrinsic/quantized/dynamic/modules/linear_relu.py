"""A Linear and a ReLU with an integer or float16 weight, for float inputs. Stands on quantized.dynamic."""

from __future__ import annotations

from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn.quantized.dynamic.modules import linear

__all__ = ["LinearReLU"]


class LinearReLU(linear.Linear):
    """quantized.dynamic.Linear followed by a ReLU."""

    _FLOAT_MODULE = nni.LinearReLU
    _relu = True

    def _get_name(self) -> str:
        return "DynamicQuantizedLinearReLU"
