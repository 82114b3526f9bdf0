"""The types of the tensors that a trace sees, with all that is known of them.

Stands on shaped_types; used by tracing.
"""

from __future__ import annotations

from flambeau.base import dtype as dtypes
from flambeau.base.device import device
from flambeau.base.layout import strided
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema_types import BoolType, ComplexType, FloatType, TensorType, Type
from flambeau.dispatcher.shaped_types import ShapedTensorType

__all__ = ["number_tensor", "shaped"]


def shaped(x: Tensor, requires_grad: bool | None = None) -> Type:
    """The type of a tensor with dtype, sizes, strides, and whether it requires grad (or what is said of that)."""
    if x.layout is not strided:
        return TensorType()
    wanted = x.requires_grad if requires_grad is None else requires_grad
    return ShapedTensorType(x.dtype, x._layout.shape, x._layout.strides, bool(wanted), x.device)


def number_tensor(kind: Type) -> Type:
    """The type of the tensor that a number becomes."""
    for cls, found in ((BoolType, dtypes.bool_), (FloatType, dtypes.float64), (ComplexType, dtypes.complex128)):
        if isinstance(kind, cls):
            return ShapedTensorType(found, [], place=device("cpu"))
    return ShapedTensorType(dtypes.int64, [], place=device("cpu"))
