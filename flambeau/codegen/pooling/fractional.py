"""The windows' tables of fractional maximum pooling: first positions that are random, but evenly spread (B. Graham, "Fractional
Max-Pooling", 2014), for every plane from its own samples. Stands on kernel.py; used by ops.nn.fractional_pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flambeau.base.dtype import int64
from flambeau.base.layout import Layout
from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, kind_of, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.targets import lowered

WORK = 8192  # positions worth waking another thread for
AXIS = ("sample", "size", "count", "taps")


@compiled(LIGHT)
def _tables_kernel(kind: Kind, dims: int) -> str:
    """The range is planes. Slots: tables, samples. A table has, for each of three axes, first positions, taps and taps again."""
    f = Kernel()
    c = f.constants(("words", *(f"{name}{d}" for d in range(dims) for name in AXIS)))
    type = kind.compute

    def whole(value: Value) -> Value:
        return f.call("i64", f"llvm.fptosi.sat.i64.{'f64' if type == 'double' else 'f32'}", value)

    with f.loop(f["begin"], f["end"]) as plane:
        table = f.at("i64", f.buffer(0), plane * c["words"])
        for i in range(3 * (3 - dims)):
            f.store(f.i64(min(i % 3, 1)), table, i)
        start = f.i64(3 * (3 - dims))
        for d in range(dims):
            at, size, count, taps = (c[f"{name}{d}"] for name in AXIS)
            sample = widen(f, kind, f.load(kind.storage, f.buffer(1), plane * dims + at))
            steps = f.convert(f.maximum(count - 1, 1), type, "sitofp")
            alpha = f.convert(size - taps, type, "sitofp") / steps
            first = whole(sample * alpha)
            own = f.at("i64", table, start)
            with f.loop(0, count) as i:
                spread = whole((f.convert(i, type, "sitofp") + sample) * alpha) - first
                place = f.select(i.equals(count - 1), size - taps, spread)
                f.store(f.minimum(f.maximum(place, 0), size - taps), own, i)  # also where samples are none
                f.store(taps, own, count + i)
                f.store(taps, own, count * 2 + i)
            start = start + count * 3
    return module(f)


def tables_plan(samples: Layout, sizes: Sequence[int], counts: Sequence[int], taps: Sequence[int]) -> Callable:
    """launch(None, samples) -> (planes, words) int64, from contiguous samples (..., dims)."""
    dims = len(sizes)
    order = (1, 0) if dims == 2 else (0, 1, 2)  # PyTorch's first sample of two is the width's
    words = 3 * (3 - dims) + 3 * sum(counts)
    planes = samples.numel // dims
    constants = [words]
    for axis in zip(order, sizes, counts, taps):
        constants += axis
    kernel, grain = _tables_kernel(kind_of(samples.dtype), dims), max(1, WORK // max(words, 1))
    phases = [Phase(kernel, planes, grain, constants)] if planes else []
    return lowered(Plan(phases, [Layout.contiguous((planes, words), int64, samples.device)], [samples]))
