"""What fresh memory holds that a program asked for: anything, or in deterministic mode NaN and the largest integers.

Stands on core.modes.settings and ops.creation.copy; used by `empty` and its relatives and by `resize_`. The package's own
is never filled.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base.dtype import bool_, iinfo
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.core.modes.settings import settings
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.ops.creation.copy import fill_raw


def _rubbish(dtype: DType) -> Any:
    """What an element that nobody wrote holds in deterministic mode: a value that shows up in what is computed from it."""
    if dtype.is_complex:
        return complex(math.nan, 0)
    if dtype.is_floating_point:
        return math.nan
    return True if dtype is bool_ else iinfo(dtype).max


def fresh(made: Tensor) -> Tensor:
    """A tensor just allocated, as the program is to see it."""
    return settings.fill(made) if settings.fills else made


def _fill(made: Tensor) -> Tensor:
    return fill_raw(made, _rubbish(made._layout.dtype))


settings.fill = _fill


def fresh_from(tensor: Tensor, before: int) -> None:
    """The same for the memory of a tensor whose storage had `before` bytes and has grown."""
    dtype, storage = tensor._layout.dtype, tensor._storage
    first, count = -(-before // dtype.itemsize), storage.capacity // dtype.itemsize
    if settings.fills and count > first:
        row = Layout.contiguous((count - first,), dtype, tensor._layout.device)
        fill_raw(tensor_from(storage, first, row), _rubbish(dtype))
