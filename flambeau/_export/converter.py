"""torch._export.converter: exported programs of TorchScript. A face of export.converter."""

from flambeau.export.converter import TS2EPConverter

__all__ = ["TS2EPConverter"]
