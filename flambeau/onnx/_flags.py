"""Whether a model is being exported to ONNX: what torch.onnx.is_in_onnx_export tells programs. Used by `_export`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["exporting", "is_in_onnx_export"]

_depth = 0


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """While it is on, is_in_onnx_export() is True."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def is_in_onnx_export() -> bool:
    """Whether torch.onnx.export is running the model."""
    return _depth > 0
