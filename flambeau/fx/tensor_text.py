"""What printed graphs say of a tensor: `"f32[2, 3]"`. Used by codegen and node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.utils._dtype_abbrs import dtype_abbrs

__all__ = ["tensor_annotation"]


def _plain(name: str, text: str) -> str:
    return text


def tensor_annotation(value: Any, stride: bool, device: bool, color: Callable[[str, str], str] = _plain) -> str:
    """`"f32[2, 3]"` with its quotes for a tensor or a TensorMetadata, which shows neither stride nor device; empty for others."""
    if getattr(value, "dtype", None) not in dtype_abbrs or not hasattr(value, "shape"):
        return ""
    dtype, sizes = dtype_abbrs[value.dtype], f"[{', '.join(map(str, value.shape))}]"
    if not isinstance(value, torch.Tensor):
        return f'"{dtype}{sizes}"'
    text = color("red", dtype) + color("blue", sizes)
    strides = f"[{', '.join(map(str, value.stride()))}]" if stride and value.layout is torch.strided else ""
    text += color("dim_blue", strides) + color("dim_green", str(value.device) if device else "")
    own = type(value) in (torch.Tensor, torch.nn.Buffer) or type(value).__name__ == "FakeTensor"
    return f'"{text}"' if own else f'"{type(value).__name__}({text})"'
