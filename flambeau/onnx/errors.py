"""torch.onnx.errors: what exporting raises and warns of."""

from __future__ import annotations

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError"]


class OnnxExporterError(RuntimeError):
    """An error while exporting."""


class OnnxExporterWarning(UserWarning):
    """A warning while exporting."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator has no counterpart in ONNX."""


class SymbolicValueError(OnnxExporterError):
    """A value of the graph isn't what a symbolic function expects."""
