"""The type of a tensor of which more is known than that it is one, as graphs of traced programs print it.

Stands on the types of schemas; used by tracing. To every question such a type is that of all tensors.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import dtype
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema_types import BoolType, ComplexType, FloatType, TensorType, Type

__all__ = ["ShapedTensorType", "number_tensor", "scalar_type_name", "shaped"]

_NAMES = {
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half", "float32": "Float",
    "float64": "Double", "complex32": "ComplexHalf", "complex64": "ComplexFloat", "complex128": "ComplexDouble", "bool": "Bool",
    "bfloat16": "BFloat16", "float8_e5m2": "Float8_e5m2", "float8_e4m3fn": "Float8_e4m3fn", "uint16": "UInt16",
    "uint32": "UInt32", "uint64": "UInt64", "float8_e5m2fnuz": "Float8_e5m2fnuz", "float8_e4m3fnuz": "Float8_e4m3fnuz",
}  # fmt: skip


def scalar_type_name(kind: dtype) -> str:
    """What graphs call a dtype: `Float`, `Long`."""
    return _NAMES[str(kind).rpartition(".")[2]]


class ShapedTensorType(TensorType):
    """Tensor, with the text of what is known: `Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)`."""

    python = "Tensor"

    def __init__(self, written: str) -> None:
        self.written = written

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType)

    def __hash__(self) -> int:
        return hash(TensorType())

    def kind(self) -> str:
        """TensorType."""
        return "TensorType"


def shaped(x: Tensor, requires_grad: bool | None = None) -> Type:
    """The type of a tensor with dtype, sizes, strides, and whether it requires grad (or what is said of that)."""
    if x.layout is not _strided():
        return TensorType()
    layout = x._layout
    parts: list[Any] = [str(n) for n in layout.shape]
    if parts:
        parts.append(f"strides=[{', '.join(map(str, layout.strides))}]")
    wanted = x.requires_grad if requires_grad is None else requires_grad
    parts += [f"requires_grad={int(bool(wanted))}", f"device={x.device}"]
    return ShapedTensorType(f"{scalar_type_name(x.dtype)}({', '.join(parts)})")


def _strided() -> Any:
    from flambeau.base.layout import strided

    return strided


def number_tensor(kind: Type) -> Type:
    """The type of the tensor that a number becomes."""
    for cls, name in ((BoolType, "Bool"), (FloatType, "Double"), (ComplexType, "ComplexDouble")):
        if isinstance(kind, cls):
            return ShapedTensorType(f"{name}(device=cpu)")
    return ShapedTensorType("Long(device=cpu)")
