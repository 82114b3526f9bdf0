"""All combinations of a vector's elements, one per row: a kernel that counts through them.

Stands on builder and jit; used by ops.sorting.combinations.
"""

from __future__ import annotations

import math

from flambeau.base.layout import Layout
from flambeau.codegen.builder import Value, kernel, module
from flambeau.codegen.gather_scatter.move import MOVED
from flambeau.codegen.jit import compiled
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.targets import lowered

WORK = 32768  # elements worth waking another thread for


@compiled(INDEXED)
def _kernel(type: str, r: int, again: bool) -> str:
    """The range is places of the first element. Constants: elements of the vector, their stride, the first row of each place."""
    f = kernel()
    constants = f.pointer(f.parameter(0))
    n, step = f.load("i64", constants, 0), f.load("i64", constants, 1)
    out, x = f.buffer(0), f.buffer(1)
    align = 8 if type == "i128" else 0
    place = f.variable("i64")

    def choose(chosen: list[Value], place_before: Value) -> None:
        """Loops over what may follow the elements that are chosen already."""
        if len(chosen) == r:
            for i, value in enumerate(chosen):
                f.store(value, out, place.get() + i, align=align)
            place.add(r)
            return
        first = place_before if again else place_before + 1
        with f.loop(first, n if again else n - (r - 1 - len(chosen))) as i:
            choose([*chosen, f.load(type, x, i * step, align=align)], i)

    with f.loop(f["begin"], f["end"]) as i:
        place.set(f.load("i64", constants, i + 2) * r)
        choose([f.load(type, x, i * step, align=align)], i)
    return module(f)


def combinations_plan(layout: Layout, r: int, again: bool):
    """launch(None, x): combinations of r >= 1 elements of a vector as rows, in order of their places; again: with repetition."""
    n = layout.shape[0]
    count = [math.comb(left + r - 2, r - 1) if again else math.comb(left - 1, r - 1) for left in range(n, 0, -1)]
    starts = [0]
    for own in count:
        starts.append(starts[-1] + own)
    out = Layout.contiguous((starts[-1], r), layout.dtype, layout.device)
    heads = n if again else n - r + 1
    phases = []
    if out.numel:
        grain = max(1, WORK * heads // out.numel)
        phases.append(Phase(_kernel(MOVED[layout.dtype.itemsize], r, again), heads, grain, (n, layout.strides[0], *starts)))
    return lowered(Plan(phases, [out], [layout], release=out.numel > 1 << 20))
