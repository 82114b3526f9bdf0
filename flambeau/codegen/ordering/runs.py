"""The longest run of equal elements in each sorted row: the kernel of mode. Stands on builder; used by ops.reduction.quantile."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.base.dtype import int64
from flambeau.base.layout import Layout
from flambeau.codegen.builder import kernel, module
from flambeau.codegen.jit import compiled
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.ordering.compact import element_type
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.targets import lowered

WORK = 16384  # elements worth waking another thread for


@compiled(LIGHT)
def _longest_kernel(type: str) -> str:
    """The range is rows. Slots: values and places of the result, sorted values, the places they come from."""
    f = kernel()
    size = f.load("i64", f.pointer(f.parameter(0)), 0)
    value_out, place_out, values, places = (f.buffer(i) for i in range(4))
    run, longest, end = (f.variable("i64") for _ in range(3))
    with f.loop(f["begin"], f["end"]) as r:
        row = f.at(type, values, r * size)
        for variable, start in ((run, 1), (longest, 1), (end, 0)):
            variable.set(start)
        with f.stretches(1, size) as (first, last), f.loop(first, last) as i:
            goes_on = f.load(type, row, i).equals(f.load(type, row, i - 1))
            run.set(f.select(goes_on, run.get() + 1, f.i64(1)))
            with f.when(run.get() > longest.get()):  # the first of equally long ones, the smallest value, stays
                longest.set(run.get())
                end.set(i)
        f.store(f.load(type, row, end.get()), value_out, r)
        f.store(f.load("i64", places, r * size + end.get()), place_out, r)
    return module(f)


def longest_run_plan(layout: Layout, out: Layout) -> Callable:
    """launch(None, None, values, places) -> (values, places) in the shape of `out`, from contiguous sorted rows (*, size)."""
    dtype, size = layout.dtype, layout.shape[-1]
    phase = Phase(_longest_kernel(element_type(dtype)), out.numel, max(1, WORK // size), [size])
    return lowered(
        Plan(
            [phase],
            [out, Layout.contiguous(out.shape, int64, layout.device)],
            [layout, layout.with_dtype(int64)],
            release=layout.numel > 1 << 20,
        )
    )
