"""torch.types: names for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from flambeau.base.device import device as _device_type
from flambeau.base.dtype import dtype as _dtype
from flambeau.base.layout import Size
from flambeau.base.layout import layout as _layout
from flambeau.core.tensor.storage import Storage
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "Tensor"]

_int, _float, _bool, _str, _bytes, _complex = (
    builtins.int,
    builtins.float,
    builtins.bool,
    builtins.str,
    builtins.bytes,
    builtins.complex,
)
_device = _device_type
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = Tensor | Sequence[Tensor] | Any
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = _device_type | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
PySymType: TypeAlias = int | float | bool
_dtype = _dtype
_layout = _layout
