"""The packages that ONNX files are written, checked and run with: the extra flambeau[onnx]. Used by the whole room.

They are imported when they are used, so that the room itself needs nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from flambeau.onnx.errors import OnnxExporterError

__all__ = ["onnx", "onnxruntime", "script_evaluator"]


def onnx() -> ModuleType:
    """The package onnx. OnnxExporterError without it."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise OnnxExporterError(
            "ONNX files are written with the package onnx, which is not installed: pip install flambeau[onnx]"
        ) from error
    return onnx


def onnxruntime() -> ModuleType:
    """The package onnxruntime. OnnxExporterError without it."""
    try:
        import onnxruntime
    except ImportError as error:
        raise OnnxExporterError(
            "ONNX models run in the package onnxruntime, which is not installed: pip install onnxruntime"
        ) from error
    return onnxruntime


def script_evaluator() -> Any:
    """Where onnxscript's operators ask what to do, if the program has imported onnxscript; else None."""
    if "onnxscript" not in sys.modules:
        return None
    from onnxscript import evaluator

    return evaluator
