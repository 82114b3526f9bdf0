"""torch.onnx: export to ONNX is not there yet; the room says what to do."""

from __future__ import annotations

import enum

from flambeau.core import absent as _absent

globals().update(
    _absent.all_of(
        "onnx.",
        "export the model with PyTorch: the state_dict saved by torch.save(module.state_dict()) loads there",
        "export register_custom_op_symbolic unregister_custom_op_symbolic select_model_mode_for_export",
        "ONNXProgram JitScalarType",
    )
)


class OnnxExporterError(RuntimeError):
    """An error while exporting."""


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
