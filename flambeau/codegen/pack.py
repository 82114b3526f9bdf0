"""Packing matrices into panels: `width` lanes side by side per step along k, so that register tiles read memory in order.

Three kernels by stride class: lanes contiguous (masked vector copies), k contiguous (square transposes), neither. Narrow dtypes
are widened on the way; bfloat16 pairs two steps of k per lane for the CPU's dot products. Stands on gemm_micro.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from flambeau.codegen.builder import Value, module
from flambeau.codegen.cpu import vector_bytes
from flambeau.codegen.gemm_micro import BYTES, TILE_SIDE, Kernel, Kind, transpose_tile, vector, widen
from flambeau.codegen.jit import DIRECT, compile_kernel

# `lanes` rows or columns in panels of `step` (at most `width`); `k` steps in blocks of `block`
CONSTANTS = (
    "slot", "offset", "batch1", "batch0_stride", "batch1_stride", "lane_stride", "k_stride", "lanes", "step", "panels",
    "depth", "k", "block", "destination",
)  # fmt: skip


NARROW = 8  # lanes of a panel up to which rows are interleaved in registers


def stride_class(lane_stride: int, k_stride: int, lanes: int, depth: int) -> str:
    if lane_stride == 1 or lanes == 1:
        return "lane"
    return "depth" if k_stride == 1 or depth == 1 else "any"


def interleaved(f: Kernel, rows: list[Value], lanes: int) -> list[Value]:
    """The elements of vectors taken in turn, one of each: as many vectors.

    Streams of elements are merged a few at a time; `size` elements of each lie together already.
    """
    streams, size = [[row] for row in rows], 1
    while len(streams) > 1:
        ways = next(n for n in range(2, len(streams) + 1) if len(streams) % n == 0)
        groups = [streams[first : first + ways] for first in range(0, len(streams), ways)]
        streams = [_merged(f, group, size, lanes) for group in groups]
        size *= ways
    return streams[0]


def _merged(f: Kernel, streams: list[list[Value]], size: int, lanes: int) -> list[Value]:
    """The vectors of a stream that takes `size` elements of each of the streams in turn."""
    made = []
    for start in range(0, len(streams) * len(streams[0]) * lanes, lanes):
        wanted = []  # of each lane: the vector that has it, and which of its lanes it is
        for at in range(start, start + lanes):
            turn, within = divmod(at, size)
            number, lane = divmod(turn // len(streams) * size + within, lanes)
            wanted.append(((turn % len(streams), number), lane))
        first, *others = sorted({source for source, _ in wanted})
        whole, order = streams[first[0]][first[1]], [lane for _, lane in wanted]
        for stream, number in others:
            order = [lanes + lane if source == (stream, number) else at
                     for (source, lane), at in zip(wanted, order, strict=True)]
            whole, order = f.shuffle(whole, streams[stream][number], order), list(range(lanes))
        made.append(whole)
    return made


def pair(f: Kernel, low: Value, high: Value) -> Value:
    return f.convert(low, "i32", "zext") | (f.convert(high, "i32", "zext") << 16)


def pack_panel(kind: Kind, width: int, order: str, name: str = "pack") -> Kernel:
    """void pack(source, lane_stride, k_stride, lanes, depth, destination): one panel; depth counts elements along k."""
    f = Kernel(
        name,
        [
            ("source", "ptr"),
            ("lane_stride", "i64"),
            ("k_stride", "i64"),
            ("lanes", "i64"),
            ("depth", "i64"),
            ("destination", "ptr"),
        ],
        internal=True,
    )
    source, target, storage, item, chunk = f["source"], f["destination"], kind.storage, kind.item, kind.lanes
    per = 2 if kind.pair else 1
    full = f["depth"] // per
    starts = list(range(0, width, chunk))

    def element(lane: Value, k: Value) -> Value:
        return f.load(storage, f.at(storage, source, lane * f["lane_stride"] + k * f["k_stride"]))

    def scalar_steps(first: Value, last: Value) -> None:
        """Steps [first, last) one element at a time; past the edge the last lane again."""
        with f.loop(first, last) as step, f.loop(0, width) as place:
            lane = f.minimum(place, f["lanes"] - 1)
            if kind.pair:
                value = pair(f, element(lane, step * 2), element(lane, step * 2 + 1))
            else:
                value = widen(f, kind, element(lane, step))
            f.store(value, target, step * width + place)

    if order == "lane":
        masks = [f.mask(f["lanes"] - start, min(chunk, width - start)) for start in starts]
        with f.loop(0, full) as step:
            for start, mask in zip(starts, masks, strict=True):
                count = min(chunk, width - start)
                rows = [
                    f.masked_load(
                        vector(storage, count), f.at(storage, source, (step * per + h) * f["k_stride"] + start), mask
                    )
                    for h in range(per)
                ]
                if kind.pair:
                    merged = f.shuffle(rows[0], rows[1], [h * count + i for i in range(count) for h in (0, 1)])
                    value = f.convert(merged, vector("i32", count), "bitcast")
                else:
                    value = widen(f, kind, rows[0])
                f.store(value, target, step * width + start, align=4 if width % chunk else vector_bytes())
    elif order == "depth" and not kind.pair and width <= NARROW:
        last = f["lanes"] - 1
        rows = [f.at(storage, source, f.minimum(last, row) * f["lane_stride"]) for row in range(width)]

        def together(step: Value, load: Callable[[Value], Value], store: Callable[[Value, Value], None]) -> None:
            taken = [widen(f, kind, load(f.at(storage, row, step))) for row in rows]
            for i, value in enumerate(interleaved(f, taken, chunk)):
                store(value, f.at(item, target, step * width + i * chunk))

        size = BYTES[storage]
        whole = full & -chunk
        with f.loop(0, whole, chunk) as step:
            together(step, lambda at: f.load(vector(storage, chunk), at, align=size),
                     lambda value, at: f.store(value, at, align=BYTES[item]))
        scalar_steps(whole, full)
    elif order == "depth":
        tile = f.stack(item, chunk * chunk, align=64)
        count = 16 // BYTES[item]
        with f.loop(0, width, chunk) as start, f.loop(0, full, chunk) as step:
            left = full - step
            inside = f.mask(left, chunk)
            # what lies past the edge is multiplied as well: the last lane again, for rubbish may take a processor far longer
            with f.loop(0, chunk) as row:
                lane = f.minimum(start + row, f["lanes"] - 1)
                place = f.at(storage, source, lane * f["lane_stride"] + step * per)
                if kind.pair:
                    loaded = f.masked_load(vector("i32", chunk), place, inside, BYTES[storage])
                else:
                    loaded = widen(f, kind, f.masked_load(vector(storage, chunk), place, inside, BYTES[storage]))
                f.store(loaded, tile, row * chunk, align=vector_bytes())
            used = f.mask(width - start, chunk)
            with f.loop(0, f.minimum(left, chunk), count) as column:
                for i, value in enumerate(transpose_tile(f, item, tile, chunk, column)):
                    with f.when(column + i < left):
                        goal = f.at(item, target, (step + column + i) * width + start)
                        if width % chunk:
                            f.masked_store(value, goal, used, BYTES[item])
                        else:
                            f.store(value, goal, align=vector_bytes())
    else:
        scalar_steps(f.i64(0), full)
    if kind.pair:  # an odd last element is paired with zero
        with f.when((f["depth"] % 2).differs(0)), f.loop(0, width) as place:
            value = element(f.minimum(place, f["lanes"] - 1), full * 2)
            f.store(f.convert(value, "i32", "zext"), target, full * width + place)
    if kind.tiles:  # and steps up to the edge of a tile with zeros
        steps, end = f.ceiling_division(f["depth"], 2), f.ceiling_division(f["depth"], 2 * TILE_SIDE) * TILE_SIDE
        with f.loop(steps * width, end * width, chunk) as place:
            f.store(f.value(0, vector(item, chunk)), target, place, align=vector_bytes())
    return f


def packed_of(pack: Kernel, kind: Kind, width: int) -> str:
    """The packing kernel of a phase, which calls `pack` for each panel; its range is batches x blocks of k x panels."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    source, target = f.slot(c["slot"]), f.scratch(c["destination"])
    blocks = f.maximum(f.ceiling_division(c["k"], c["block"]), 1)
    per = 2 if kind.pair else 1
    with f.loop(f["begin"], f["end"]) as index:
        panel, rest = index.unsigned_rem(c["panels"]), index.unsigned_div(c["panels"])
        block, batch = rest.unsigned_rem(blocks), rest.unsigned_div(blocks)
        first, lane = block * c["block"], panel * c["step"]
        steps = f.minimum(c["block"], c["k"] - first)
        place = (
            batch.unsigned_div(c["batch1"]) * c["batch0_stride"] + batch.unsigned_rem(c["batch1"]) * c["batch1_stride"]
        )
        place = place + c["offset"] + lane * c["lane_stride"] + first * per * c["k_stride"]
        goal = batch * c["panels"] * c["k"] * width + first * c["panels"] * width + panel * steps * width
        f.call(
            "void",
            "pack",
            f.at(kind.storage, source, place),
            c["lane_stride"],
            c["k_stride"],
            f.minimum(c["step"], c["lanes"] - lane),
            f.minimum(c["block"] * per, c["depth"] - first * per),
            f.at(kind.item, target, goal),
            declare=False,
        )
    return module(pack, f)


@cache
def pack_kernel(kind: Kind, width: int, order: str) -> int:
    return compile_kernel(packed_of(pack_panel(kind, width, order), kind, width), pipeline=DIRECT)
