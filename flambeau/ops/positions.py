"""Where the elements that are not zero are: the kernel behind nonzero and masks. Stands on codegen.compact."""

from __future__ import annotations

import ctypes
from typing import Any

from flambeau.base.dtype import int64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen import compact
from flambeau.core.tensor import Tensor, empty_layout, tensor_from
from flambeau.ops.copy import contiguous

_counting: dict[Layout, Any] = register_cache({})
_writing: dict[Any, Any] = register_cache({})


def positions(input: Tensor, flat: bool = False) -> Tensor:
    """Positions of the elements that are not zero, (number, ndim) int64 in row-major order, each dimension's in one
    piece; flat: (number,), counted in one row."""
    layout = input._layout
    if layout.device.type == "meta":
        raise NotImplementedError("nonzero() on a meta tensor: the size of the result depends on data")
    ndim = 1 if flat else layout.ndim
    if not layout.is_contiguous:
        input = contiguous(tensor_from(input._storage, input._offset, layout))
        layout = input._layout
    total, starts = 0, None
    if layout.numel:
        count = _counting.get(layout)
        if count is None:
            counts = Layout.contiguous((-(-layout.numel // compact.CHUNK) + 1,), int64, layout.device)
            count = _counting[layout] = (compact.counting_plan(layout, counts), (counts.numel - 1) * 8)
        starts = count[0](None, input)
        total = ctypes.c_int64.from_address(starts._storage.ptr + count[1]).value
    shape, strides = ((total,), (1,)) if flat else ((total, ndim), (1, total))
    out = Layout.of(shape, strides, int64, layout.device)
    if not total or not ndim:
        return empty_layout(out)
    write = _writing.get((layout, total, flat))
    if write is None:
        write = _writing[layout, total, flat] = compact.writing_plan(layout, out, ndim)
    return write(None, input, starts)
