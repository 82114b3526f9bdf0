"""torch.onnx: modules as ONNX models. `export` writes them, ONNXProgram holds one; verification compares.

Files are written with the package onnx, and run in onnxruntime: pip install flambeau[onnx]. Nothing of them is imported before.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from flambeau.core.operator import unsupported as _unsupported
from flambeau.onnx import errors, symbolic_helper
from flambeau.onnx._flags import is_in_onnx_export
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

#: What loads torch.export: by name, the module that has it. Asking whether a model is being exported loads none of it.
_LATER = {"ExportableModule": "_exportable_module", "ONNXProgram": "_program", "export": "_export"}
_MODULES = ("operators", "ops", "utils", "verification")


def __getattr__(name: str) -> _Any:
    if name in _LATER:
        globals()[name] = found = getattr(_import_module(f"{__name__}.{_LATER[name]}"), name)
        return found
    if name in _MODULES:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})


__all__ = [
    "ExportableModule", "JitScalarType", "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TensorProtoDataType",
    "TrainingMode", "errors", "export", "ops", "is_in_onnx_export", "register_custom_op_symbolic", "select_model_mode_for_export",
    "symbolic_helper", "unregister_custom_op_symbolic",
]  # fmt: skip
