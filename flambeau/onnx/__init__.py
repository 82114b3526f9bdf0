"""torch.onnx: export to ONNX is not there yet; the room says what to do.

How a program's own operators are to be written is kept for an exporter (`symbolics`), so that libraries can say it.
"""

from __future__ import annotations

import enum

from flambeau.core.operator import unsupported as _unsupported
from flambeau.onnx import errors, symbolic_helper
from flambeau.onnx.errors import OnnxExporterError
from flambeau.onnx.symbolics import ADVICE, OPSETS, register_custom_op_symbolic, unregister_custom_op_symbolic
from flambeau.onnx.symbolics import opset_module as _opset_module

globals().update(
    _unsupported.all_of(
        "onnx.", ADVICE, "export dynamo_export select_model_mode_for_export", "ONNXProgram JitScalarType ExportableModule"
    )
)
for _version in OPSETS:
    globals()[f"symbolic_opset{_version}"] = _opset_module(__name__, _version)


class TrainingMode(enum.IntEnum):
    """In which mode a model is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """What operators become."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """False."""
    return False


class TensorProtoDataType(enum.IntEnum):
    """ONNX's numbers of the types of elements."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20


__all__ = [
    "JitScalarType", "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TensorProtoDataType", "TrainingMode", "errors",
    "export", "is_in_onnx_export", "register_custom_op_symbolic", "select_model_mode_for_export", "symbolic_helper",
    "unregister_custom_op_symbolic",
]  # fmt: skip
