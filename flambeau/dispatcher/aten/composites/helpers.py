"""What bodies of composites and decompositions are written with: factories with the arguments that PyTorch names.

Used by the files of this room and by flambeau._decomp.
"""

from __future__ import annotations

from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base.device import cpu
from flambeau.base.layout import preserve_format, strided
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.composites.registry import aten

__all__ = ["full", "like", "scalar", "where"]


def scalar(value: Any, dtype: dtypes.dtype) -> Any:
    """A number as a tensor without dimensions."""
    return aten.scalar_tensor.default(value, dtype=dtype, layout=strided, device=cpu)


def where(condition: Any, x: Any, y: Any) -> Any:
    """A choice; numbers are tensors first, the second one before the first, of the dtype that the other tensor has."""
    tensors = [t.dtype for t in (x, y) if isinstance(t, Tensor)]

    def whole(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value
        default = dtypes.get_default_dtype()
        number = default if isinstance(value, float) else dtypes.bool_ if isinstance(value, bool) else dtypes.int64
        if tensors:
            floating = tensors[0].is_floating_point or tensors[0].is_complex or number is not default
            number = tensors[0] if floating else number
        return scalar(value, number)

    second = whole(y)
    return aten.where.self(condition, whole(x), second)


def full(shape: Any, value: Any, dtype: dtypes.dtype) -> Any:
    """A tensor of one number."""
    return aten.full.default(list(shape), value, dtype=dtype, layout=strided, device=cpu, pin_memory=False)


def like(x: Tensor, value: Any, **named: Any) -> Any:
    """A tensor of one number that is like another."""
    return aten.full_like.default(x, value, pin_memory=False, memory_format=preserve_format, **named)
