"""Laying a nest over concrete tensors: which axis is innermost, what a unit of work is, how long reductions are split.

Everything here runs once per combination of layouts; the result is a list of phases, whose kernels are names so far. Stands on
nest and base.memory_order; targets/cpu.py lowers `Loops` by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from flambeau.base.memory_order import collapse
from flambeau.codegen.builder import BUFFER_WORDS, SCRATCH_WORD
from flambeau.codegen.loops.memory_access import SHORT_OPS
from flambeau.codegen.loops.multipass import Place, Stager, can_stage
from flambeau.codegen.loops.nest import kernel_of
from flambeau.codegen.loops.prologue import LANE_CHUNK, Form
from flambeau.codegen.plan import SCRATCH, Phase, Strides
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.ir import special, zeta
from flambeau.ir.loops import Fold, Loop, Nest, Row, element, folded
from flambeau.ir.scalar import Expr, topological

UNIT = 32768  # cheap elements worth waking a second thread for
SPLIT = 1 << 16  # elements of one reduction above which it is cut into chunks
LARGE = 32 << 20  # bytes of an operand that no cache keeps
LANE_RUN = 256  # rows side by side that fit the cache between two stages
LANE_ROWS = 512  # longest run of rows that one lane adds up, for accuracy
LEAST_LANES = 32  # rows side by side that threads are not to share
TILE = 16  # edge of a tile of a transposition
_COSTLY = 12  # what a named function (exp, ...) weighs against an addition
_LONG = 60  # and one of long polynomials or loops
_LONG_OPS = (special.BODIES.keys() | zeta.BODIES.keys() | {"repeat", "apart"}) - {"erf", "gelu", "normal_cdf"}
_costs: dict[tuple, int] = {}

Scheduled = tuple[list[Phase], int]  # and the bytes of working memory that they share


def cost(nest: Nest) -> int:
    """Rough work per element, in additions."""
    key = nest.key
    found = _costs.get(key)
    if found is None:
        nodes = set(topological(*(e for stage in nest.stages for e in stage.expressions)))
        found = _costs[key] = max(1, sum(map(_weight, nodes)) // 4)
    return found


def _weight(node: Expr) -> int:
    return 1 if node.op in SHORT_OPS else _LONG if node.op in _LONG_OPS else _COSTLY


def lay(
    nest: Nest,
    kept: Sequence[int],
    kept_strides: Sequence[Strides],
    inner: Sequence[int],
    inner_strides: Sequence[Strides],
    picks: Mapping[int, tuple[int, int]] | None = None,
    ordered: bool = False,
    slots: tuple[int, ...] | None = None,
    offsets: Mapping[int, int] | None = None,
    scalar_slot: int | None = None,
) -> Scheduled:
    """The phases of a step `Loops`, whose fields these are."""
    operands = len(nest.outputs) + len(nest.inputs)
    slots = slots or tuple(range(operands))
    picks = picks or {}
    if nest.pointwise() and not ordered:
        return _pointwise(
            nest,
            tuple(kept) + tuple(inner),
            [a + b for a, b in zip(kept_strides, inner_strides)],
            picks,
            slots,
            offsets,
            len(slots) if scalar_slot is None else scalar_slot,
        )
    inputs_first = list(range(len(nest.outputs), operands)) + list(range(len(nest.outputs)))
    kept, kept_strides = _collapse(kept, kept_strides, inputs_first)
    inner, inner_strides = _merge(inner, inner_strides) if ordered else _collapse(inner, inner_strides, inputs_first)
    main = inputs_first[0]
    kept, lane = list(kept), None
    if kept and inner and abs(inner_strides[main][-1]) != 1 and kept_strides[main][-1] == 1 and kept[-1] >= 8:
        lane = (kept.pop(), [s[-1] for s in kept_strides])
        kept_strides = [s[:-1] for s in kept_strides]
    if not inner:
        inner, inner_strides = (1,), [(0,)] * operands
    return _rows(nest, tuple(kept), kept_strides, tuple(inner), inner_strides, lane, picks, slots)


def _collapse(shape, strides, order):
    shape, collapsed = collapse(tuple(shape), [strides[j] for j in order])
    result: list = [None] * len(order)
    for j, s in zip(order, collapsed):
        result[j] = s
    return shape, result


def _merge(shape: Sequence[int], strides: Sequence[Strides]) -> tuple[tuple[int, ...], list[Strides]]:
    """Merge neighbouring axes without reordering them."""
    if 0 in shape:
        return (0,), [(1,)] * len(strides)
    sizes: list[int] = []
    steps: list[list[int]] = []
    for dim in range(len(shape)):
        if shape[dim] == 1:
            continue
        step = [s[dim] for s in strides]
        if sizes and all(before == own * shape[dim] for before, own in zip(steps[-1], step)):
            sizes[-1] *= shape[dim]
            steps[-1] = step
        else:
            sizes.append(shape[dim])
            steps.append(step)
    return tuple(sizes), [tuple(step[j] for step in steps) for j in range(len(strides))]


def _pointwise(nest: Nest, shape, strides, picks, slots, offsets, scalar_slot) -> Scheduled:
    shape, strides = collapse(shape, strides)
    if 0 in shape:
        return [], 0
    if not shape:
        shape, strides = (1,), [(1,)] * len(strides)
    unit = max(1024, UNIT // cost(nest))
    crossing = _crossing(shape, strides)
    if crossing is not None and not offsets:
        return _tiled(nest, shape, strides, crossing, picks, slots, unit, scalar_slot)
    m = 2 if len(shape) > 1 and shape[-1] < 64 else 1
    outer, inner = shape[:-m], shape[-m:]
    rows, row = math.prod(outer), math.prod(inner)
    chunk = inner[0]
    if row > 2 * unit and rows < 64:
        per_index = row // inner[0]
        chunk = max(1, unit // per_index)
        chunk = chunk & -64 or chunk  # whole cache lines
    form = Form(len(outer), m, False, tuple(_class(s[-1]) for s in strides), slots, scalar_slot)
    return [
        _phase(
            nest,
            form,
            outer,
            [s[:-m] for s in strides],
            inner,
            [s[-m:] for s in strides],
            None,
            picks,
            chunk,
            [0] * len(strides),
            unit,
            offsets,
        )
    ], 0


def _crossing(shape, strides) -> int | None:
    """The axis along which an operand is contiguous while the innermost axis strides through it: a transposition."""
    if len(shape) < 2 or shape[-1] < TILE:
        return None
    for s in strides:
        if abs(s[-1]) > 1:
            for axis in range(len(shape) - 1):
                if s[axis] == 1 and shape[axis] >= TILE:
                    return axis
    return None


def _tiled(nest: Nest, shape, strides, axis: int, picks, slots, unit, scalar_slot) -> Scheduled:
    """Visit two axes tile by tile, so that the cache lines of both orders are used whole."""
    outer = tuple(n for i, n in enumerate(shape[:-1]) if i != axis)
    outer_strides = [tuple(n for i, n in enumerate(s[:-1]) if i != axis) for s in strides]
    form = Form(len(outer), 1, True, tuple(_class(s[-1]) for s in strides), slots, scalar_slot)
    return [
        _phase(
            nest,
            form,
            outer,
            outer_strides,
            (shape[axis],),
            [(s[axis],) for s in strides],
            (shape[-1], [s[-1] for s in strides]),
            picks,
            TILE,
            [0] * len(strides),
            unit,
            lane_size=TILE,
        )
    ], 0


def _class(stride: int) -> str:
    return "0" if stride == 0 else "1" if stride == 1 else "x"


def _phase(
    nest,
    form: Form,
    outer,
    outer_strides,
    inner,
    inner_strides,
    lane,
    picks,
    chunk,
    chunk_strides,
    unit,
    offsets=None,
    lane_size=None,
) -> Phase:
    """Constants in the order that the kernel reads them (see nest.Form)."""
    chunks = -(-inner[0] // chunk) if inner[0] else 1
    lane_extent, lane_strides = lane if lane else (1, [0] * len(outer_strides))
    rows = math.prod(outer)
    if not lane:
        lane_size = 1
    elif not lane_size:
        lane_size = min(lane_extent, LANE_CHUNK if _splittable(nest) else LANE_RUN)
        while lane_size > 32 and rows * -(-lane_extent // lane_size) * chunks < 4 * planned_threads():
            lane_size //= 2
    lane_chunks = -(-lane_extent // lane_size)
    constants = [*outer, lane_chunks, chunks, lane_extent, chunk, lane_size, BUFFER_WORDS + form.scalar_slot, *inner]
    for j, slot in enumerate(form.slots):
        stride, extent = picks.get(j, (0, 0))
        offset = offsets.get(j, 0) if offsets else 0
        constants += [
            *outer_strides[j],
            chunk_strides[j],
            lane_strides[j],
            *inner_strides[j],
            stride,
            extent,
            SCRATCH_WORD if slot == SCRATCH else BUFFER_WORDS + slot,
            offset,
        ]
    widest = max((d.itemsize for d, kind in zip(nest.outputs + nest.inputs, form.classes) if kind == "1"), default=0)
    if not lane and rows * math.prod(inner) * widest >= LARGE:
        form = replace(form, large=True)
    work = lane_size * min(chunk, inner[0]) * math.prod(inner[1:])
    total = rows * lane_chunks * chunks
    grain = max(1, unit // max(work, 1))
    threads = planned_threads()
    if total > grain:
        # at least four chunks a thread, so that threads end together; at most sixteen, so that each streams through memory
        grain = max(1, min(grain, -(-total // (16 * threads))), total // (32 * threads))
    return Phase(kernel_of(nest, form), total, grain, constants)


def _rows(nest: Nest, kept, kept_strides, inner, inner_strides, lane, picks, slots) -> Scheduled:
    unit = max(1024, UNIT // cost(nest))
    lane_extent = lane[0] if lane else 1
    units = math.prod(kept) * -(-lane_extent // LANE_RUN)
    length = math.prod(inner)
    classes = tuple(_class(lane[1][j] if lane else inner_strides[j][-1]) for j in range(len(kept_strides)))
    form = Form(len(kept), len(inner), lane is not None, classes, slots, len(slots), chunked=False)
    splits = (
        _splittable(nest)
        and math.prod(kept) * lane_extent > 0
        and (
            (length * min(lane_extent, LANE_RUN) > SPLIT and units < 2 * planned_threads())
            or (lane is not None and length > 2 * LANE_ROWS)
        )
    )
    if splits:
        return _split(nest, form, kept, kept_strides, inner, inner_strides, lane, picks, unit)
    threads = planned_threads()
    if (
        threads > 1
        and not picks
        and math.prod(kept) * -(-lane_extent // LEAST_LANES) < 2 * threads
        and length * lane_extent > SPLIT
        and can_stage(nest)
    ):
        return _staged(nest, form, kept, kept_strides, inner, inner_strides, lane, unit)
    phase = _phase(nest, form, kept, kept_strides, inner, inner_strides, lane, picks, max(inner[0], 1), [0] * len(slots), unit)
    return [phase], 0


def _staged(nest: Nest, form: Form, kept, kept_strides, inner, inner_strides, lane, unit) -> Scheduled:
    """Phases for each stage, the row cut in chunks, several for each thread."""
    lane_extent = lane[0] if lane else 1
    lane_strides = lane[1] if lane else [0] * len(kept_strides)
    chunk = max(1, -(-inner[0] // (4 * planned_threads())))
    if lane:
        chunk = min(chunk, LANE_ROWS)

    def phase(own: Nest, places: list[Place], whole: bool, chunked: bool) -> Phase:
        extents = inner if whole else (-(-inner[0] // chunk),)
        classes = tuple(_class(p.lane if lane else p.inner[-1]) for p in places)
        slots = tuple(p.slot for p in places)
        staged = Form(
            len(kept),
            len(extents),
            lane is not None,
            classes,
            slots,
            form.scalar_slot,
            chunked=chunked,
            partial=any(p.chunk for p in places),
        )
        return _phase(
            own,
            staged,
            kept,
            [p.outer for p in places],
            extents,
            [p.inner for p in places],
            (lane_extent, [p.lane for p in places]) if lane else None,
            {},
            chunk if chunked else extents[0],
            [p.chunk for p in places],
            unit,
            {j: p.offset for j, p in enumerate(places)},
        )

    dtypes = nest.outputs + nest.inputs
    places = [
        Place(dtype, slot, tuple(outer), step, tuple(along))
        for dtype, slot, outer, step, along in zip(dtypes, form.slots, kept_strides, lane_strides, inner_strides)
    ]
    count = len(nest.outputs)
    stager = Stager(
        nest, places[:count], places[count:], kept, lane_extent if lane else None, len(inner), -(-inner[0] // chunk), phase
    )
    stager.run()
    return stager.phases, stager.scratch


def _splittable(nest: Nest) -> bool:
    """A plain reduction: one loop that only folds, then rows made from the folded values alone."""
    if len(nest.stages) != 2:
        return False
    loop, row = nest.stages
    return (
        isinstance(loop, Loop)
        and isinstance(row, Row)
        and not loop.stores
        and not loop.scan
        and not any(
            n.op == "pick" or (n.op == "leaf" and str(n.value).startswith("in")) for _, e in row.stores for n in topological(e)
        )
    )


def _split(nest: Nest, form: Form, kept, kept_strides, inner, inner_strides, lane, picks, unit) -> Scheduled:
    """Two phases: partial results of chunks into scratch, then their combination."""
    loop, row = nest.stages
    n_out = len(nest.outputs)
    lane_extent = lane[0] if lane else 1
    rest = math.prod(inner[1:])
    target = LANE_ROWS if lane else SPLIT
    chunk = max(1, min(inner[0], max(1, target // rest)))
    at_least = 2 * planned_threads()
    if -(-inner[0] // chunk) < at_least and inner[0] >= at_least:
        chunk = -(-inner[0] // at_least)
    chunks = -(-inner[0] // chunk)
    components = [(name, start) for fold in loop.folds for name, start in zip(fold.names, fold.start)]
    partial_dtypes = tuple(start.dtype for _, start in components)
    stores = tuple((i, folded(name, start.dtype)) for i, (name, start) in enumerate(components))
    partial = Nest(nest.name, partial_dtypes, nest.inputs, (loop, Row(stores)), nest.scalars)
    cells = math.prod(kept) * chunks * lane_extent
    offsets, at = {}, 0
    for i, dtype in enumerate(partial_dtypes):
        offsets[i] = at
        at += (cells * dtype.itemsize + 63) // 64 * 64
    partial_outer: list[int] = []
    step = chunks * lane_extent
    for size in reversed(kept):
        partial_outer.insert(0, step)
        step *= size
    count = len(components)
    outer_strides = [tuple(partial_outer)] * count + list(kept_strides[n_out:])
    own_inner = [(0,) * len(inner)] * count + list(inner_strides[n_out:])
    lane_strides = [1] * count + list(lane[1][n_out:]) if lane else None
    classes = tuple(("1" if lane else "0") for _ in range(count)) + form.classes[n_out:]
    first_form = replace(form, classes=classes, slots=(SCRATCH,) * count + form.slots[n_out:], chunked=True, partial=True)
    first = _phase(
        partial,
        first_form,
        kept,
        outer_strides,
        inner,
        own_inner,
        (lane_extent, lane_strides) if lane else None,
        {count + j - n_out: pick for j, pick in picks.items()},
        chunk,
        [lane_extent] * count + [0] * len(nest.inputs),
        unit,
        offsets,
    )
    # the second phase reads the partial results as its inputs
    final_folds = []
    k = 0
    for fold in loop.folds:
        lifted = tuple(element(k + i, start.dtype) for i, start in enumerate(fold.start))
        k += len(fold.start)
        final_folds.append(Fold(fold.names, fold.start, lifted, fold.combine))
    final = Nest(nest.name, nest.outputs, partial_dtypes, (Loop(tuple(final_folds)), row), nest.scalars)
    final_outer = list(kept_strides[:n_out]) + [tuple(partial_outer)] * count
    final_inner = [(0,)] * n_out + [(lane_extent,)] * count
    final_lane = (lane_extent, list(lane[1][:n_out]) + [1] * count) if lane else None
    final_classes = (
        tuple(_class(lane[1][j]) for j in range(n_out)) + ("1",) * count
        if lane
        else ("0",) * n_out + (_class(lane_extent),) * count
    )
    final_form = Form(
        len(kept), 1, lane is not None, final_classes, form.slots[:n_out] + (SCRATCH,) * count, form.scalar_slot, chunked=False
    )
    second = _phase(
        final,
        final_form,
        kept,
        final_outer,
        (chunks,),
        final_inner,
        final_lane,
        {},
        chunks,
        [0] * (n_out + count),
        unit,
        {n_out + i: o for i, o in offsets.items()},
    )
    return [first, second], at
