"""Depthwise convolution (one input channel per output channel): direct vector kernels for the forward and both gradients.

Too little arithmetic to pack patches for: a plane is copied into a padded band, which stays in the first-level cache, and each
tap reads vectors of consecutive pixels from it. Stands on halo.py; conv.py plans the phases.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.convolution.halo import GEOMETRY, BandCopy, box_of, fill_functions
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel
from flambeau.codegen.products.epilogue import Epilogue

DEPTHWISE = (
    *GEOMETRY, "c_slot", "c_place", "c_n", "c_o", "c_z", "c_y", "c_x", "d_slot", "weights", "w_place", "w_channel",
)  # fmt: skip
WEIGHT = (*GEOMETRY, "g_slot", "g_n", "g_o", "g_z", "g_y", "g_x", "c_slot")
ROWS = 4  # output rows computed together: enough independent sums to hide the latency of a multiply-add
TAP_GROUP = 9
UNROLLED = (3, 9)  # numbers of taps with a kernel of their own


@compiled()
def depthwise_kernel(kind: Kind, finish: Epilogue, row_order: str, unrolled: int) -> str:
    """Forward or gather gradient, with a loop over taps, or with `unrolled` of them; the range is boxes x channels."""
    f = Kernel()
    c = f.constants(DEPTHWISE)
    block = f.load("ptr", f["p"])
    taps = f.at("i64", block, len(DEPTHWISE))
    weight_taps = f.at("i64", taps, c["taps"])
    compute, whole, lanes = kind.compute, kind.accumulator, kind.lanes
    spill = f.stack(compute, lanes, align=64)
    band = f.scratch(c["work"] + f["thread"] * c["slice"])
    factors = f.at("i8", band, f.ceiling_division((c["band_image"] * c["tile_n"] + lanes) * BYTES[compute], 64) * 64)
    channels = c["channels"]
    boxes = (f["begin"].unsigned_div(channels), (f["end"] - 1).unsigned_div(channels) + 1)
    with f.loop(*boxes) as number:
        box = box_of(f, c, number)
        bands = BandCopy(f, c, kind, row_order, box)
        first_channel = f.maximum(f["begin"] - number * channels, 0)
        with f.loop(first_channel, f.minimum(f["end"] - number * channels, channels)) as channel:
            bands.copy(f.slot(c["in_slot"]), channel, f.i64(1), band)
            weights = f.at(kind.storage, f.slot(c["weights"]), c["w_place"] + channel * c["w_channel"])
            with f.loop(0, c["taps"]) as tap:
                f.store(widen(f, kind, f.load(kind.storage, weights, f.load("i64", weight_taps, tap))), factors, tap)
            target = f.at(kind.storage, f.slot(c["c_slot"]), c["c_place"] + channel * c["c_o"])
            bias = None
            if finish.addend is not None:
                bias = f.splat(widen(f, kind, f.load(kind.storage, f.slot(c["d_slot"]), channel)), lanes)
            fixed = [(f.load("i64", taps, t), f.splat(f.load(compute, factors, t), lanes)) for t in range(unrolled)]
            with f.loop(0, box.count_n) as n, f.loop(0, box.count_z) as z, f.loop(0, box.count_y, ROWS) as first:
                slab = f.at(compute, band, n * c["band_image"] + z * c["stride_z"] * c["band_plane"])
                # rows past the last one repeat it, and are not stored
                rows = [f.minimum(first + r, box.count_y - 1) for r in range(ROWS)]
                starts = [row * c["stride_y"] * c["band_row"] for row in rows]
                goals = [
                    f.at(
                        kind.storage,
                        target,
                        (box.n + n) * c["c_n"] + (box.z + z) * c["c_z"] + (box.y + row) * c["c_y"] + box.x * c["c_x"],
                    )
                    for row in rows
                ]
                few = box.count_x < lanes
                with f.loop(0, box.count_x, lanes) as step:
                    # the last vector of a row ends with it: some pixels are computed twice, for masks are slow to store by
                    x = f.select(few, step, f.minimum(step, box.count_x - lanes))
                    sums = [f.variable(whole, 0) for _ in range(ROWS)]
                    sources = [f.at(compute, slab, offset + x) for offset in starts]

                    def add(offset: Value, factor: Value) -> None:
                        for total, source in zip(sums, sources, strict=True):
                            loaded = f.load(whole, source, offset, align=BYTES[compute])
                            total.set(f.fma(loaded, factor, total.get()) if kind.floating else loaded * factor + total.get())

                    for offset, factor in fixed:
                        add(offset, factor)
                    if not unrolled:
                        with f.loop(0, c["taps"]) as tap:
                            add(f.load("i64", taps, tap), f.splat(f.load(compute, factors, tap), lanes))
                    count = f.minimum(box.count_x - x, lanes)
                    mask = f.mask(count, lanes)
                    for r, goal in enumerate(goals):
                        with f.when(first + r < box.count_y):
                            value = sums[r].get()
                            value = value if bias is None else value + bias
                            value = narrow(f, kind, value if finish.apply is None else finish.apply(f, value))
                            place = f.at(kind.storage, goal, x * c["c_x"])
                            if finish.columns == "unit":
                                with f.branches(few) as otherwise:
                                    f.masked_store(value, place, mask, BYTES[kind.storage])
                                    otherwise()
                                    f.store(value, place, align=BYTES[kind.storage])
                            else:
                                f.store(value, spill)
                                with f.loop(0, count) as i:
                                    f.store(f.load(kind.storage, spill, i), f.at(kind.storage, place, i * c["c_x"]))
    return module(*fill_functions(kind, row_order), f)


@compiled()
def depthwise_weight_kernel(kind: Kind, row_order: str) -> str:
    """Gradient of the weight; the range is channels. The output's gradient has unit stride along x."""
    f = Kernel()
    c = f.constants(WEIGHT)
    taps = f.at("i64", f.load("ptr", f["p"]), len(WEIGHT))
    compute, whole, lanes = kind.compute, kind.accumulator, kind.lanes
    band = f.scratch(c["work"] + f["thread"] * c["slice"])
    sums_at = f.at("i8", band, f.ceiling_division(c["band_image"] * c["tile_n"] * BYTES[compute] + 128, 64) * 64)
    boxes = c["count_n"] * c["count_z"] * c["count_y"] * c["count_x"]
    name = "fadd reassoc" if kind.floating else "add"
    with f.loop(f["begin"], f["end"]) as channel:
        with f.loop(0, c["taps"]) as tap:
            f.store(f.value(0, whole), f.at(whole, sums_at, tap), align=64)
        with f.loop(0, boxes) as number:
            box = box_of(f, c, number)
            BandCopy(f, c, kind, row_order, box).copy(f.slot(c["in_slot"]), channel, f.i64(1), band)
            gradient = f.at(kind.storage, f.slot(c["g_slot"]), channel * c["g_o"])
            with f.loop(0, c["taps"], TAP_GROUP) as group:
                chosen = [f.minimum(group + t, c["taps"] - 1) for t in range(TAP_GROUP)]
                offsets = [f.load("i64", taps, t) for t in chosen]
                sums = [f.variable(whole, f.load(whole, f.at(whole, sums_at, t), align=64)) for t in chosen]
                with f.loop(0, box.count_n) as n, f.loop(0, box.count_z) as z, f.loop(0, box.count_y) as y:
                    offset = n * c["band_image"] + z * c["stride_z"] * c["band_plane"] + y * c["stride_y"] * c["band_row"]
                    source = f.at(compute, band, offset)
                    line = f.at(
                        kind.storage, gradient, (box.n + n) * c["g_n"] + (box.z + z) * c["g_z"] + (box.y + y) * c["g_y"] + box.x
                    )
                    with f.loop(0, box.count_x, lanes) as x:
                        mask = f.mask(box.count_x - x, lanes)
                        g = widen(f, kind, f.masked_load(vector_of(kind), f.at(kind.storage, line, x), mask, BYTES[kind.storage]))
                        here = f.at(compute, source, x)
                        for total, tap in zip(sums, offsets, strict=True):
                            # lanes past the row's end are other pixels (perhaps infinite): masked, not multiplied by zero
                            loaded = f.masked_load(whole, f.at(compute, here, tap), mask, BYTES[compute])
                            total.set(f.fma(loaded, g, total.get()) if kind.floating else loaded * g + total.get())
                for t, total in zip(reversed(chosen), reversed(sums), strict=True):
                    # repeated last taps hold the same sum
                    f.store(total.get(), f.at(whole, sums_at, t), align=64)
        with f.loop(0, c["taps"]) as tap:
            total, width = f.load(whole, f.at(whole, sums_at, tap), align=64), lanes
            while width > 1:
                width //= 2
                low, high = f.shuffle(total, total, range(width)), f.shuffle(total, total, range(width, 2 * width))
                total = f.emit(low.type, f"{name} {low.type} {low.name}, {high.name}")
            value = f.emit(compute, f"extractelement {total.type} {total.name}, i32 0")
            f.store(narrow(f, kind, value), f.slot(c["c_slot"]), channel * c["taps"] + tap)
    return module(*fill_functions(kind, row_order), f)


def vector_of(kind: Kind) -> str:
    return f"<{kind.lanes} x {kind.storage}>"
