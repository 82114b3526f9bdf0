"""torch.onnx: modules as ONNX models. `export` writes them, ONNXProgram holds one; verification compares.

Files are written with the package onnx, and run in onnxruntime: pip install flambeau[onnx]. Nothing of them is imported before.
"""

from __future__ import annotations

from flambeau.core.operator import unsupported as _unsupported
from flambeau.onnx import errors, symbolic_helper
from flambeau.onnx._export import export
from flambeau.onnx._exportable_module import ExportableModule
from flambeau.onnx._flags import is_in_onnx_export
from flambeau.onnx._program import ONNXProgram
from flambeau.onnx._scalar_types import JitScalarType
from flambeau.onnx._types import TensorProtoDataType
from flambeau.onnx.errors import OnnxExporterError
from flambeau.onnx.modes import OperatorExportTypes, TrainingMode, select_model_mode_for_export
from flambeau.onnx.symbolics import ADVICE, OPSETS, register_custom_op_symbolic, unregister_custom_op_symbolic
from flambeau.onnx.symbolics import opset_module as _opset_module
from flambeau.version import PYTORCH as producer_version

producer_name = "pytorch"

globals().update(_unsupported.all_of("onnx.", ADVICE, "dynamo_export"))
for _version in OPSETS:
    globals()[f"symbolic_opset{_version}"] = _opset_module(__name__, _version)

__all__ = [
    "ExportableModule", "JitScalarType", "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TensorProtoDataType",
    "TrainingMode", "errors", "export", "is_in_onnx_export", "register_custom_op_symbolic", "select_model_mode_for_export",
    "symbolic_helper", "unregister_custom_op_symbolic",
]  # fmt: skip
