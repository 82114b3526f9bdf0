"""The attention kernel: blocks of rows of softmax(Q K^T * scale + mask) V, which never leave the cache.

Keys and values are packed into panels once, shared by all rows of a head. A task is a block of rows of one head: the register
tiles of the contraction template make its scores, each row is masked and turned into exponentials in place, and tiles over the
values' panels make the result, divided by the row's sum as it is stored. Stands on gemm_micro.py and pack.py; ops/attention.py
runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float32, float64
from flambeau.codegen.builder import Value, module, scalar_type
from flambeau.codegen.gemm_micro import (
    BYTES,
    Kernel,
    Kind,
    bits_of,
    call_tile,
    kind_of,
    micro_table,
    narrow,
    register_rows,
    row_counts,
    scalar_constant,
    suffix,
    vector,
)
from flambeau.codegen.jit import LIGHTEST, compile_kernel
from flambeau.codegen.launch import Phase
from flambeau.codegen.pack import pack_kernel, stride_class
from flambeau.codegen.scalar import Lowering
from flambeau.ir import scalar

CONSTANTS = (
    "heads", "rows", "columns", "depth", "width", "block", "row_step", "padded", "q_n", "q_h", "q_row", "q_step", "m_n",
    "m_h", "m_row", "m_step", "k_panels", "k_place", "v_panels", "v_place", "scores_place", "slice", "scale",
    "score_tiles", "value_tiles",
)  # fmt: skip
BLOCK_BYTES = 192 << 10  # scores of a block of rows
DEPTH = 512  # steps along the keys of one tile of the result
LOWEST = float("-inf")


class Attention(NamedTuple):
    """Sizes and strides (batch, head, row, column) of an attention."""

    batch: int
    heads: int
    rows: int
    columns: int
    depth: int
    width: int
    query: tuple[int, int, int, int]
    key: tuple[int, int, int, int]
    value: tuple[int, int, int, int]
    mask: tuple[int, int, int, int] | None
    boolean: bool
    causal: bool


def apply_function(f: Kernel, name: str, dtype: DType, value: Value) -> Value:
    """A function of the scalar language applied to a value, or to each element of a vector."""
    low = Lowering(f.line, f.fresh, lanes_of(value))
    x = scalar.leaf("x", dtype)
    result = low.value(getattr(scalar, name)(x), {x: value.name})
    f.declarations |= low.declarations
    return Value(f, value.type, result)


def lanes_of(value: Value) -> int:
    """How many elements a vector has; 0 for a single number."""
    return int(value.type[1:value.type.index("x")]) if value.type[0] == "<" else 0


def vector_loop(f: Kernel, end: Value, lanes: int, body: Callable[[Value, Value | None], None]) -> None:
    """body(x, mask) for 0, lanes, 2 lanes, ... below `end`; the last mask ends there, the others are None: all exist."""
    whole = end & -lanes
    with f.loop(0, whole, lanes) as x:
        body(x, None)
    with f.when(whole < end):
        body(whole, f.mask(end - whole, lanes))


def kept(f: Kernel, exists: Value | None, value: Value, otherwise: Value) -> Value:
    """The elements of a vector that exist."""
    return value if exists is None else f.select(exists, value, otherwise)


def load_existing(f: Kernel, type: str, pointer: Value, exists: Value | None) -> Value:
    """The elements of a caller's vector that exist, zero for the others."""
    return f.load(type, pointer, align=1) if exists is None else f.masked_load(type, pointer, exists)


def masked_scores(f: Kernel, kind: Kind, boolean: bool, row: Value, end: Value, mask: Value, step: Value, scale: Value) -> None:
    """Scale a row of scores and apply the caller's mask, in place."""
    compute, lanes = kind.compute, kind.lanes
    stored = "i8" if boolean else compute
    lowest = f.value(LOWEST, compute)

    def masked(value: Value, own: Value, lowest: Value) -> Value:
        return f.select(own.differs(0), value, lowest) if boolean else value + own

    def several(x: Value, exists: Value | None) -> None:
        at = f.at(compute, row, x)
        value = f.load(vector(compute, lanes), at, align=BYTES[compute]) * f.splat(scale, lanes)
        own = load_existing(f, vector(stored, lanes), f.at(stored, mask, x), exists)
        f.store(masked(value, own, f.splat(lowest, lanes)), at, align=BYTES[compute])
    with f.branches(step.equals(1)) as otherwise:
        vector_loop(f, end, lanes, several)
        otherwise()
        with f.loop(0, end) as x:
            f.store(masked(f.load(compute, row, x) * scale, f.load(stored, mask, x * step), lowest), row, x)


def total_of(f: Kernel, value: Value) -> Value:
    """The sum of a vector's elements."""
    kind = scalar_type(value.type)
    return f.call(kind, f"llvm.vector.reduce.fadd.{suffix(value.type)}", f.value(0, kind), value, fast="reassoc")


@cache
def attention_kernel(kind: Kind, masked: str | None, causal: bool) -> int:
    """The range is batches x heads x blocks of rows. Slots: out, logarithms of the rows' sums, q, k, v, [mask]."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    compute, size = kind.compute, BYTES[kind.compute]
    dtype = float64 if compute == "double" else float32
    lanes = kind.lanes
    panel = 2 * lanes
    scale = scalar_constant(f, kind, c["scale"])
    scores = f.scratch(c["scores_place"] + f["thread"] * c["slice"])
    sums = f.at(compute, scores, c["block"] * c["padded"])
    result = f.at(compute, sums, (c["block"] + 15) & -16)
    blocks = f.ceiling_division(c["rows"], c["block"])
    with f.loop(f["begin"], f["end"]) as index:
        plane = index.unsigned_div(blocks)
        # a triangle's long rows first: the threads then finish together
        block = index.unsigned_rem(blocks) if not causal else blocks - 1 - index.unsigned_rem(blocks)
        first = block * c["block"]
        count = f.minimum(c["block"], c["rows"] - first)
        n, h = plane.unsigned_div(c["heads"]), plane.unsigned_rem(c["heads"])
        query = f.at(kind.storage, f.buffer(2), n * c["q_n"] + h * c["q_h"] + first * c["q_row"])
        keys = f.at(compute, f.scratch(c["k_place"]), plane * c["k_panels"] * c["depth"] * panel)
        values = f.at(compute, f.scratch(c["v_place"]), plane * c["v_panels"] * c["columns"] * panel)
        columns = f.minimum(c["columns"], first + count) if causal else c["columns"]
        with f.loop(0, columns, panel) as j, f.loop(0, count, c["row_step"]) as i:
            call_tile(
                f,
                c["score_tiles"],
                f.minimum(count - i, c["row_step"]),
                c["depth"],
                f.at(kind.storage, query, i * c["q_row"]),
                f.at(compute, keys, j * c["depth"]),
                f.at(compute, scores, i * c["padded"] + j),
                c["padded"],
                f.i64(1),
                c["q_row"],
                c["q_step"],
                f.i64(0),
                f.i64(panel),
            )
        with f.loop(0, count) as i:
            _row(
                f,
                c,
                kind,
                dtype,
                masked,
                causal,
                f.at(compute, scores, i * c["padded"]),
                scale,
                (n, h, first + i),
                columns,
                f.at(compute, sums, i),
                f.at(compute, f.buffer(1), plane * c["rows"] + first + i),
            )
        target = f.at(kind.storage, f.buffer(0), (plane * c["rows"] + first) * c["width"])
        with f.loop(0, c["width"], panel) as j:
            with f.loop(0, columns, DEPTH) as k, f.loop(0, count, c["row_step"]) as i:
                call_tile(
                    f,
                    c["value_tiles"],
                    f.minimum(count - i, c["row_step"]),
                    f.minimum(columns - k, DEPTH),
                    f.at(compute, scores, i * c["padded"] + k),
                    f.at(compute, values, j * c["columns"] + k * panel),
                    f.at(compute, result, i * panel),
                    f.i64(panel),
                    f.convert(k.equals(0), "i64", "zext"),
                    c["padded"],
                    f.i64(1),
                    f.i64(0),
                    f.i64(panel),
                )
            with f.loop(0, count) as i:
                factor = f.splat(f.load(compute, sums, i), lanes)
                for part in (0, lanes):
                    left = c["width"] - j - part
                    with f.when(left > 0):
                        value = (
                            f.load(vector(compute, lanes), f.at(compute, result, i * panel + part), align=size) * factor
                        )
                        f.masked_store(
                            narrow(f, kind, value),
                            f.at(kind.storage, target, i * c["width"] + j + part),
                            f.mask(left, lanes),
                            BYTES[kind.storage],
                        )
    return compile_kernel(module(f), pipeline=LIGHTEST)


def _row(
    f: Kernel,
    c: dict[str, Value],
    kind: Kind,
    dtype: DType,
    masked: str | None,
    causal: bool,
    row: Value,
    scale: Value,
    place: tuple[Value, Value, Value],
    columns: Value,
    sum_at: Value,
    log_at: Value,
) -> None:
    """Scores to exponentials in place; stores the reciprocal and the logarithm of their sum."""
    compute, lanes, size = kind.compute, kind.lanes, BYTES[kind.compute]
    wide = vector(compute, lanes)
    n, h, i = place
    end = f.minimum(columns, i + 1) if causal else columns
    lowest = f.value(LOWEST, compute)
    if masked is not None:
        boolean = masked == "bool"
        mask = f.at("i8" if boolean else compute, f.buffer(5), n * c["m_n"] + h * c["m_h"] + i * c["m_row"])
        masked_scores(f, kind, boolean, row, end, mask, c["m_step"], scale)
        factor = f.value(1, wide)
    else:
        factor = f.splat(scale, lanes)
    largest = f.variable(wide, f.splat(lowest, lanes))

    def find(x: Value, exists: Value | None) -> None:
        value = kept(f, exists, f.load(wide, f.at(compute, row, x), align=size) * factor, f.splat(lowest, lanes))
        largest.set(f.maximum(value, largest.get()))
    vector_loop(f, end, lanes, find)
    best = f.call(compute, f"llvm.vector.reduce.fmax.{suffix(wide)}", largest.get(), fast="nnan nsz")
    best = f.select(best.equals(lowest), f.value(0, compute), best)
    base, zero, total = f.splat(best, lanes), f.value(0, wide), f.variable(wide, 0)

    def exponential(x: Value, exists: Value | None) -> None:
        at = f.at(compute, row, x)
        value = apply_function(f, "exp", dtype, f.load(wide, at, align=size) * factor - base)
        value = kept(f, exists, value, zero)
        f.store(value, at, align=size)
        total.add(value)
    vector_loop(f, end, lanes, exponential)
    with f.loop((end + (lanes - 1)) & -lanes, columns, lanes) as x:
        f.store(zero, f.at(compute, row, x), align=size)
    found = total_of(f, total.get())
    empty = found.equals(0.0)
    f.store(f.select(empty, f.value(0, compute), f.value(1, compute) / found), sum_at)
    f.store(f.select(empty, lowest, best + apply_function(f, "log", dtype, found)), log_at)


def panels_of(extent: int, width: int) -> int:
    """How many panels `width` wide cover an extent."""
    return -(-extent // width)


def packing(
    kind: Kind,
    slot: int,
    strides: tuple[int, int, int, int],
    heads: int,
    planes: int,
    lane: int,
    step: int,
    lanes: int,
    steps: int,
    place: int,
) -> Phase:
    """The phase that packs an operand's heads into panels at byte `place` of the scratch: `lanes` rows or columns `lane` apart
    side by side, their `steps` elements `step` apart one after the other.
    """
    panel = 2 * kind.lanes
    panels = panels_of(lanes, panel)
    words = (slot, 0, heads, strides[0], strides[1], lane, step, lanes, panel, panels, steps, steps, steps, place)
    total = planes * panels
    kernel = pack_kernel(kind, panel, stride_class(lane, step, lanes, steps))
    return Phase(kernel, total, max(1, min(total, 65536 // (panel * steps) + 1)), words)


def packed_bytes(kind: Kind, planes: int, lanes: int, steps: int) -> int:
    """The scratch that `packing` fills."""
    panel = 2 * kind.lanes
    return (planes * panels_of(lanes, panel) * panel * steps * BYTES[kind.compute] + 127) // 64 * 64


def attention_phases(dtype: DType, a: Attention, scale: float, threads: int) -> tuple[list[Phase], int]:
    """Phases for slots (out, logarithms, query, key, value, [mask]) and the scratch bytes they need."""
    kind = kind_of(dtype)
    whole = kind_of("float64" if kind.compute == "double" else "float32")
    panel, size, most = 2 * kind.lanes, BYTES[kind.compute], register_rows()
    phases: list[Phase] = []
    scratch, places = 0, []
    planes = a.batch * a.heads
    for slot, strides, lane, step, lanes, steps in (
        (3, a.key, a.key[2], a.key[3], a.columns, a.depth),
        (4, a.value, a.value[3], a.value[2], a.width, a.columns),
    ):
        phases.append(packing(kind, slot, strides, a.heads, planes, lane, step, lanes, steps, scratch))
        places.append((panels_of(lanes, panel), scratch))
        scratch += packed_bytes(kind, planes, lanes, steps)
    padded = panels_of(a.columns, panel) * panel
    tiles = max(1, min(8, BLOCK_BYTES // (padded * size * most), -(-a.rows // most)))
    block = min(tiles * most, -(-a.rows // most) * most)
    step = min(most, a.rows)
    slice_bytes = ((block * padded + block + 32 + block * panel) * size + 127) // 64 * 64
    counts = row_counts(min(block, a.rows), step) | row_counts(a.rows % block, step)
    words = (
        a.heads,
        a.rows,
        a.columns,
        a.depth,
        a.width,
        block,
        step,
        padded,
        *a.query,
        *(a.mask or (0, 0, 0, 0)),
        *places[0],
        *places[1],
        scratch,
        slice_bytes,
        bits_of(scale, kind),
        micro_table(kind, 2, most, False, True, counts),
        micro_table(whole, 2, most, False, True, counts),
    )
    masked = None if a.mask is None else "bool" if a.boolean else "number"
    tasks = planes * panels_of(a.rows, block)
    work = block * a.columns * a.depth
    phases.append(Phase(attention_kernel(kind, masked, a.causal), tasks, max(1, 200_000 // max(work, 1)), words))
    return phases, scratch + slice_bytes * max(threads, 1)
