"""torch.onnx.JitScalarType: TorchScript's numbers and names of dtypes, and ONNX's. Used by programs' symbolic functions."""

from __future__ import annotations

import enum
from typing import Any

import flambeau as torch
from flambeau.onnx._graph import Value
from flambeau.onnx._types import NUMBER_OF, TensorProtoDataType
from flambeau.onnx.errors import OnnxExporterError

__all__ = ["JitScalarType"]


class JitScalarType(enum.IntEnum):
    """TorchScript's numbers of dtypes."""

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT = 3
    INT64 = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    COMPLEX32 = 8
    COMPLEX64 = 9
    COMPLEX128 = 10
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    FLOAT8E5M2 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E5M2FNUZ = 18
    FLOAT8E4M3FNUZ = 19
    UNDEFINED = 20

    @classmethod
    def from_dtype(cls, dtype: torch.dtype | None) -> JitScalarType:
        """That of a dtype. OnnxExporterError for others."""
        for kind, (_, _, known) in _NAMES.items():
            if known == dtype:
                return kind
        raise OnnxExporterError(f"Unknown dtype: {dtype}")

    @classmethod
    def from_onnx_type(cls, onnx_type: int | None) -> JitScalarType:
        """That of ONNX's number. OnnxExporterError for others."""
        for dtype, number in NUMBER_OF.items():
            if number == onnx_type:
                return cls.from_dtype(dtype)
        raise OnnxExporterError(f"Unknown onnx_type: {onnx_type}")

    @classmethod
    def from_value(cls, value: Any, default: Any = None) -> JitScalarType:
        """That of a value, tensor or dtype; the default where it isn't known. OnnxExporterError without one."""
        dtype = value.dtype if isinstance(value, (Value, torch.Tensor)) else value
        if isinstance(dtype, torch.dtype):
            return cls.from_dtype(dtype)
        if default is not None:
            return default
        raise OnnxExporterError(f"None cannot be interpreted as a dtype: {value}")

    def scalar_name(self) -> str:
        """TorchScript's name: "Float"."""
        return _NAMES[self][0]

    def torch_name(self) -> str:
        """C++'s name: "float"."""
        return _NAMES[self][1]

    def dtype(self) -> torch.dtype:
        """The dtype. OnnxExporterError where there is none."""
        dtype = _NAMES[self][2] if self in _NAMES else None
        if dtype is None:
            raise OnnxExporterError(f"No corresponding dtype for {self!r}")
        return dtype

    def onnx_type(self) -> TensorProtoDataType:
        """ONNX's number."""
        return NUMBER_OF.get(_NAMES[self][2], TensorProtoDataType.UNDEFINED) if self in _NAMES else TensorProtoDataType.UNDEFINED

    def onnx_compatible(self) -> bool:
        """Whether ONNX has it."""
        return self.onnx_type() != TensorProtoDataType.UNDEFINED


_K = JitScalarType
_NAMES: dict[JitScalarType, tuple[str, str, Any]] = {
    _K.BOOL: ("Bool", "bool", torch.bool), _K.UINT8: ("Byte", "uint8_t", torch.uint8), _K.INT8: ("Char", "int8_t", torch.int8),
    _K.INT16: ("Short", "int16_t", torch.int16), _K.INT: ("Int", "int", torch.int32), _K.INT64: ("Long", "int64_t", torch.int64),
    _K.HALF: ("Half", "half", torch.float16), _K.FLOAT: ("Float", "float", torch.float32),
    _K.DOUBLE: ("Double", "double", torch.float64), _K.COMPLEX64: ("ComplexFloat", "complex64", torch.complex64),
    _K.COMPLEX128: ("ComplexDouble", "complex128", torch.complex128), _K.BFLOAT16: ("BFloat16", "bfloat16", torch.bfloat16),
}  # fmt: skip
