"""x[...] in a trace: the views and the index that PyTorch's tracer records, which are all of them, those without effect too.

Used by rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch

__all__ = ["getitem", "setitem"]

_END = 2**63 - 1


def getitem(op: Callable[..., Any], self: Any, index: Any) -> Any:
    """Views one after another, then an index by tensors."""
    x, tensors = _viewed(op, self, index)
    if tensors:
        return op("index.Tensor", x, tensors)
    return op("alias", x) if x is self else x


def setitem(op: Callable[..., Any], self: Any, index: Any, value: Any) -> None:
    """A write to the views that an index makes."""
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=self.dtype)
    x, tensors = _viewed(op, self, index)
    if tensors:
        shape = _without_leading_ones(value)
        if shape != list(value._layout.shape):
            value = op("view", value, shape)
        op("index_put_", x, tensors, value)
    elif value._layout.shape == x._layout.shape and value._layout.ndim:
        op("copy_", x, value)
    elif not value._layout.ndim:
        op("copy_", x, value) if not x._layout.ndim and value._storage is not None and _is_traced(op, value) else op(
            "fill_.Tensor", x, value
        )
    else:
        shown = op("view", value, _without_leading_ones(value))
        op("copy_", x, op("expand", shown, list(x._layout.shape)))


def _is_traced(op: Any, value: Any) -> bool:
    return op.__self__.state.known(value) is not None  # type: ignore[no-any-return]


def _without_leading_ones(value: Any) -> list[int]:
    shape = list(value._layout.shape)
    while shape and shape[0] == 1:
        shape.pop(0)
    return shape


def _viewed(op: Callable[..., Any], x: Any, index: Any) -> tuple[Any, list[Any]]:
    """What slices, numbers and new dimensions make of a tensor, and the tensors that are to index it."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [_sequence(op, item) if isinstance(item, (list, tuple, range)) else item for item in items]
    ndim = x._layout.ndim
    if sum(map(_dimensions, items)) > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    dim, tensors = 0, []
    for at, item in enumerate(items):
        if item is Ellipsis:
            dim += x._layout.ndim - dim - sum(map(_dimensions, items[at + 1 :]))
        elif item is None:
            x = op("unsqueeze", x, dim)
            dim += 1
        elif isinstance(item, bool):
            x = op("unsqueeze", x, dim)
            tensors += [None] * (dim - len(tensors)) + [torch.tensor([0] if item else [], dtype=torch.int64)]
            dim += 1
        elif _is_number(item):
            x = op("select.int", x, dim, item)
        elif isinstance(item, slice):
            start = 0 if item.start is None else _place(item.start)
            stop = _END if item.stop is None else _place(item.stop)
            x = op("slice.Tensor", x, dim, start, stop, 1 if item.step is None else _place(item.step))
            dim += 1
        elif isinstance(item, torch.Tensor):
            tensors += [None] * (dim - len(tensors)) + [item]
            dim += item._layout.ndim if item.dtype in (torch.bool, torch.uint8) else 1
        else:
            raise TypeError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
                f"{type(item).__name__})"
            )
    return x, tensors


def _place(bound: Any) -> Any:
    return bound if isinstance(bound, torch.Tensor) else bound.__index__()


def _sequence(op: Callable[..., Any], items: Any) -> Any:
    made = torch.tensor([x.item() if isinstance(x, torch.Tensor) else x for x in items])
    return op("to.device", made, made.device, made.dtype, False, False, None)


def _is_number(item: Any) -> bool:
    if isinstance(item, torch.Tensor):
        return not item._layout.ndim and not item.dtype.is_floating_point and item.dtype not in (torch.bool, torch.uint8)
    return hasattr(item, "__index__")


def _dimensions(item: Any) -> int:
    """How many dimensions of the tensor an index is about."""
    if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8):
        return item._layout.ndim
    return int(item is not None and item is not Ellipsis and not isinstance(item, bool))
