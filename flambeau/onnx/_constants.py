"""torch.onnx._constants: the versions of the operator set. Used by the whole room."""

from __future__ import annotations

__all__ = ["ONNX_DEFAULT_OPSET", "ONNX_MAX_OPSET", "ONNX_MIN_OPSET", "OLDEST_OPSET", "TRANSLATED_OPSET"]

ONNX_BASE_OPSET = 9
ONNX_MIN_OPSET = 7
ONNX_MAX_OPSET = 23
ONNX_DEFAULT_OPSET = 20
#: The oldest version that translations write; `_older` rewrites models from there down to OLDEST_OPSET.
TRANSLATED_OPSET = 18
OLDEST_OPSET = 7
