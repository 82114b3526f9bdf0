"""One element of each row, with its position, without sorting: medians, the k-th value, modes of short rows.

Stands on codegen.ordering.selection; used by ops.reduction.quantile and ops.sorting.sort, which also takes from here where
rows lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import int64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.ordering.selection import middle_of_equals, selection_plan
from flambeau.codegen.ordering.ties import SHORT, ties_plan
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous

_plans: dict[Any, Callable] = register_cache({})


def rows_along(layout: Layout, out: Layout, dim: int) -> tuple[tuple[int, ...], int] | None:
    """(geometry for codegen.ordering.sorting, rows) of the rows along `dim`; None if the other dimensions don't collapse."""
    if not layout.ndim:
        return (1, 1, 0, 0, 1, 0, 0, 1), 1
    shape = layout.shape
    before, after = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    if not layout.numel:
        return (shape[dim], max(after, 1), 0, 0, 0, 0, 0, 0), before * after
    steps = []
    for owner in (out, layout):
        pair = []
        for sizes, strides in ((shape[:dim], owner.strides[:dim]), (shape[dim + 1 :], owner.strides[dim + 1 :])):
            n = math.prod(sizes)
            step = geometry.reshape_strides(tuple(sizes), tuple(strides), (n,)) if n else (0,)
            if step is None:
                return None
            pair.append(step[0])
        steps += [*pair, owner.strides[dim]]
    return (shape[dim], max(after, 1), *steps), before * after


def select(input: Tensor, dim: int | None, keepdim: bool, which: str, place: int = 0) -> tuple[Tensor, Tensor]:
    """Raw (values, positions) of what `which` says ("place", "median", "nanmedian" or "mode") along `dim`, or of all elements
    (None).
    """
    layout = input._layout
    key = (layout, dim, keepdim, which, place)
    launch = _plans.get(key)
    if launch is not None:
        return launch(None, None, input)
    if layout.flavor is None and (dim is None or not layout.ndim):
        if not layout.is_contiguous:
            return select(contiguous(input), dim, keepdim, which, place)
        shape: tuple[int, ...] = ()
        rows: Any = ((layout.numel, 1, 0, 0, 1), 1)
    else:
        assert dim is not None
        shape = (*layout.shape[:dim], *([1] if keepdim else []), *layout.shape[dim + 1 :])
        found = rows_along(layout, layout, dim)
        if found is None:
            return select(contiguous(input), dim, keepdim, which, place)
        (length, inner, _, _, _, *strides), count = found
        rows = ((length, inner, *strides), count)
    out = Layout.contiguous(shape, layout.dtype, layout.device)
    count = rows[1]
    outputs, length = (out, out.with_dtype(int64)), rows[0][0]
    if which == "place" and length <= SHORT:
        inner = rows[0][1]
        launch = ties_plan(layout, outputs, (length, inner, inner, 1, 0, *rows[0][2:]), count, place + 1, alone=True)
    else:
        if which == "nanmedian":
            place = middle_of_equals(length)
        launch = selection_plan(layout, outputs, rows[0], count, which, place)
    _plans[key] = launch
    return launch(None, None, input)
