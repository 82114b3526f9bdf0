"""Copies of matrices with what lies above (tril) or below (triu) a diagonal set to zero, and the indices of what is left.

Used by ops.views.triangle and ops.creation.factories.
"""

from __future__ import annotations

from flambeau.base.device import device as Device
from flambeau.base.dtype import int64
from flambeau.base.layout import Layout
from flambeau.codegen.builder import kernel, module
from flambeau.codegen.gather_scatter.move import MOVED
from flambeau.codegen.jit import compiled
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.targets import lowered


@compiled()
def _address(type: str, lower: bool, unit_stride: bool) -> str:
    f = kernel()
    constants = f.pointer(f.parameter(0))
    m, n, diagonal, out_batch, out_row, out_column, batch, row, column = (f.load("i64", constants, i) for i in range(9))
    out, x = f.buffer(0), f.buffer(1)
    align = 8 if type == "i128" else 0
    with f.loop(f["begin"], f["end"]) as position:
        b, r = position.unsigned_div(m), position.unsigned_rem(m)
        target = f.at(type, out, b * out_batch + r * out_row)
        source = f.at(type, x, b * batch + r * row)
        edge = f.minimum(f.maximum(r + diagonal + (1 if lower else 0), 0), n)

        def place(j, step):
            return j if unit_stride else j * step

        with f.loop(0 if lower else edge, edge if lower else n) as j:
            f.store(f.load(type, source, place(j, column), align=align), target, place(j, out_column), align=align)
        with f.loop(edge if lower else 0, n if lower else edge) as j:
            f.store(f.value(0, type), target, place(j, out_column), align=align)
    return module(f)


def triangle_plan(layout: Layout, out: Layout, batch: tuple[int, int, int], lower: bool, diagonal: int, serial: bool = False):
    """launch(None, x). batch: how many matrices, and the steps between them in `out` and in x; serial: by one thread."""
    m, n = layout.shape[-2:]
    count, out_step, step = batch
    constants = [m, n, diagonal, out_step, *out.strides[-2:], step, *layout.strides[-2:]]
    unit = out.strides[-1] == 1 and layout.strides[-1] == 1
    total = count * m
    grain = total if serial else max(1, 32768 // max(n, 1))
    phases = [Phase(_address(MOVED[layout.dtype.itemsize], lower, unit), total, grain, constants)] if layout.numel else []
    return lowered(Plan(phases, [out], [layout], release=layout.numel > 1 << 20))


LANES = 8  # indices written at once


@compiled()
def _indices_address() -> str:
    """Row by row, the rows' numbers in the first row of the result and the columns in the second."""
    f = kernel()
    constants = f.pointer(f.parameter(0))
    begin, rows, first, columns, step, total = (f.load("i64", constants, i) for i in range(6))
    type = f"<{LANES} x i64>"
    counting = ", ".join(f"i64 {i}" for i in range(LANES))
    lower = step.differs(0)
    at = f.variable("i64", 0)
    out = f.buffer(0)
    with f.loop(begin, rows) as r:
        edge = f.minimum(f.maximum(first + r, 0), columns)
        low, high = f.select(lower, f.i64(0), edge), f.select(lower, edge, columns)
        start = at.get()
        end = start + (high - low)
        at.set(end)
        row = f.splat(r, LANES)
        column = f.splat(low - start, LANES)
        column = f.emit(type, f"add {type} {column.name}, <{counting}>")

        # what a vector writes beyond the row's end, the next rows overwrite
        whole = f.select((start + (((high - low) + (LANES - 1)) & -LANES)) <= total, end, start + ((high - low) & -LANES))
        with f.loop(start, whole, LANES) as i:
            f.store(row, out, i, align=8)
            f.store(f.splat(i, LANES) + column, out, i + total, align=8)
        with f.loop(f.maximum(whole, start), end) as i:
            f.store(r, out, i)
            f.store(i - start + low, out, i + total)
    return module(f)


def _sum_of_edges(rows: int, first: int, columns: int) -> int:
    """The sum of min(max(first + r, 0), columns) over all rows r: of nothing, then of steps of one, then of whole rows."""
    begin = min(max(-first, 0), rows)
    end = min(max(columns - first, begin), rows)
    return (2 * first + begin + end - 1) * (end - begin) // 2 + (rows - end) * columns


def triangle_indices_plan(rows: int, columns: int, diagonal: int, lower: bool, device: Device):
    """launch(None): the indices (2, n) of a triangle of a matrix."""
    first = diagonal + lower
    before = _sum_of_edges(rows, first, columns)
    total = before if lower else rows * columns - before
    layout = Layout.contiguous((2, total), int64, device)
    # the rows that have any: behind those above the diagonal, or up to those below it
    begin, end = (min(max(-first, 0), rows), rows) if lower else (0, min(max(columns - first, 0), rows))
    phases = [Phase(_indices_address(), 1, 1, [begin, end, first, columns, int(lower), total])] if total else []
    return lowered(Plan(phases, [layout], release=total > 1 << 20))
