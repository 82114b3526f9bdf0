"""Where the elements are that are not zero, or that begin a run of equal ones: the kernels behind nonzero, masks and unique.

Stands on codegen.compact.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import int64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen import compact
from flambeau.codegen.launch import readers
from flambeau.core.create import CPU
from flambeau.core.tensor import Tensor, empty_layout, tensor_from
from flambeau.ops.copy import contiguous

_NUMBER = Layout.contiguous((), int64, CPU)
_read_total = readers["int64"]
_counting: dict[Any, Any] = register_cache({})
_writing: dict[Any, Any] = register_cache({})


def positions(input: Tensor, flat: bool = False, begins: bool = False) -> Tensor:
    """Positions of the elements that are not zero, (number, ndim) int64 in row-major order, each dimension's in one piece.

    flat: (number,), counted in one row; begins: of the elements that differ from the one before and of the first instead, and
    after them how many elements there are (nothing for none).
    """
    layout = input._layout
    if layout.device.type == "meta":
        raise NotImplementedError("nonzero() on a meta tensor: the size of the result depends on data")
    ndim = 1 if flat else layout.ndim
    if not layout.is_contiguous:
        input = contiguous(tensor_from(input._storage, input._offset, layout))
        layout = input._layout
    total, starts = 0, None
    if layout.numel:
        count = _counting.get((layout, begins))
        if count is None:
            counts = Layout.contiguous((-(-layout.numel // compact.CHUNK) + 1,), int64, layout.device)
            count = _counting[layout, begins] = (compact.counting_plan(layout, counts, begins), counts.numel - 1)
        starts = count[0](None, input)
        total = _read_total(tensor_from(starts._storage, count[1], _NUMBER))
    total += begins and total > 0
    shape, strides = ((total,), (1,)) if flat else ((total, ndim), (1, total))
    out = Layout.of(shape, strides, int64, layout.device)
    if not total or not ndim:
        return empty_layout(out)
    write = _writing.get((layout, total, flat, begins))
    if write is None:
        write = _writing[layout, total, flat, begins] = compact.writing_plan(layout, starts._layout, out, ndim, begins)
    return write(None, input, starts)
