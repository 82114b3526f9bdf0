"""The kinds of quantization. Stands on enum."""

from __future__ import annotations

import enum

__all__ = ["QuantType"]


class QuantType(enum.IntEnum):
    """How a module is quantized."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


_NAMES = {QuantType.STATIC: "static", QuantType.DYNAMIC: "dynamic", QuantType.QAT: "qat", QuantType.WEIGHT_ONLY: "weight_only"}


def _get_quant_type_to_str(quant_type: QuantType) -> str:
    """The kind's name in the dicts of older programs."""
    return _NAMES[quant_type]


def _quant_type_from_str(name: str) -> QuantType:
    """The kind of this name. ValueError for an unknown one."""
    for quant_type, known in _NAMES.items():
        if name == known:
            return quant_type
    raise ValueError(f"Unrecognized QuantType name '{name}'")
