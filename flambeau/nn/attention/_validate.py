"""What the attention functions of this room check alike. Used by flex_attention."""

from __future__ import annotations

import math
from typing import Any


def calculate_scale(head_dim: int, scale: float | None) -> float:
    """The factor of the scores: 1 / sqrt(head_dim) unless given."""
    return scale if scale is not None else 1.0 / math.sqrt(head_dim)


def same_device(query: Any, key: Any, value: Any) -> None:
    """Raise ValueError unless the three are on devices of one type."""
    if not query.device.type == key.device.type == value.device.type:
        raise ValueError(
            "Expected query, key, and value to have the same device type, but got "
            f"query.device: {query.device}, key.device: {key.device}, and value.device: {value.device} instead."
        )
