"""The gather kernel of convolutions: weights, packed or where they lie, times panels of patches taken from a band.

It computes the forward, the gradient of the input (once per stride phase, over the output's gradient) and transposed
convolutions. Stands on conv_band.py and gemm_micro.py; conv.py plans its phases.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.builder import Value, module
from flambeau.codegen.conv_band import GEOMETRY, BandCopy, Box, box_of, fill_functions, runs_of
from flambeau.codegen.gemm_micro import (
    BYTES,
    Epilogue,
    Kernel,
    Kind,
    call_tile,
    epilogue,
    register_rows,
    transpose_tile,
    vector,
    vector_bytes,
    widen,
)
from flambeau.codegen.jit import LIGHT, LIGHTEST, compile_kernel

BLOCK_STEPS = 288  # steps along (channel, tap) per block: a panel of patches then stays in the first-level cache
TILE_SLOTS = 192  # register tiles that a task may hold unfinished between blocks of channels
BOX_PIXELS = 1024

FORWARD = (
    *GEOMETRY,
    "rows",
    "row_step",
    "panels",
    "tile_panels",
    "count_m",
    "c_slot",
    "c_place",
    "c_n",
    "c_o",
    "c_z",
    "c_y",
    "c_x",
    "d_slot",
    "weights",
    "alpha",
    "beta",
    "micros",
    "heights",
    "height_taps",
)
HEIGHTS_AT = len(FORWARD)  # then the offsets of the rows of taps along y, then those of the taps in the band


def patches_function(kind: Kind, width: int, by_channel: bool) -> Kernel:
    """void patches(band, channels, band_channel, taps, tap_table, runs, run_table, panel): a panel of patches.

    Its steps are ordered by tap, then channel, or the other way round.
    """
    f = Kernel(
        "patches",
        [
            ("band", "ptr"),
            ("channels", "i64"),
            ("band_channel", "i64"),
            ("taps", "i64"),
            ("tap_table", "ptr"),
            ("runs", "i64"),
            ("run_table", "ptr"),
            ("panel", "ptr"),
        ],
        internal=True,
    )
    compute, whole = kind.compute, kind.accumulator
    align = BYTES[compute]

    def steps(body) -> None:
        outer, inner = ("channels", "taps") if by_channel else ("taps", "channels")
        with f.loop(0, f[outer]) as i, f.loop(0, f[inner]) as j:
            tap, channel = (j, i) if by_channel else (i, j)
            plane = f.at(compute, f["band"], f.load("i64", f["tap_table"], tap))
            body(f.at(compute, plane, channel * f["band_channel"]), f.at(compute, f["panel"], (i * f[inner] + j) * width))

    # a run is copied as one full vector: what it writes too much is overwritten by the next run or the next step
    with f.branches(f["runs"].equals(2)) as otherwise:
        places = [(f.load("i64", f["run_table"], r * 4), f.load("i64", f["run_table"], r * 4 + 2)) for r in range(2)]

        def two(source: Value, target: Value) -> None:
            for lane, offset in places:
                f.store(f.load(whole, source, offset, align=align), target, lane, align=align)

        steps(two)
        otherwise()

        def any_number(source: Value, target: Value) -> None:
            with f.loop(0, f["runs"]) as r:
                lane, offset = f.load("i64", f["run_table"], r * 4), f.load("i64", f["run_table"], r * 4 + 2)
                f.store(f.load(whole, source, offset, align=align), target, lane, align=align)

        steps(any_number)
    return f


def _rows_hit(
    f: Kernel, c: dict[str, Value], box: Box, first: Value, count: Value, heights: Value
) -> tuple[Value, Value]:
    """The taps [low, high) that reach into the input from any of the panel's pixels; the others would only add padding.

    Whole rows of taps are left out, in two dimensions only ("heights" is 0 in three).
    """
    row = box.count_x * box.count_n
    top = (box.y + first.unsigned_div(row)) * c["stride_y"] - c["pad_y"]
    bottom = (box.y + (first + count - 1).unsigned_div(row)) * c["stride_y"] - c["pad_y"]
    low, high = f.variable("i64", 0), f.variable("i64", c["heights"])
    with f.loop(0, c["heights"]) as i:
        offset = f.load("i64", heights, i)
        low.set(f.select(bottom + offset < 0, i + 1, low.get()))
    with f.loop(0, c["heights"]) as j:
        i = c["heights"] - 1 - j
        high.set(f.select(top + f.load("i64", heights, i) >= c["size_y"], i, high.get()))
    none = c["heights"].equals(0)
    end = f.maximum(high.get(), low.get())
    return f.select(none, f.i64(0), low.get() * c["height_taps"]), f.select(none, c["taps"], end * c["height_taps"])


@cache
def forward_text(kind: Kind, finish: Epilogue, row_order: str, in_place: bool) -> str:
    """The compute kernel: its range is groups x blocks of output channels x boxes of output pixels.

    in_place: "weights" is the slot of the weights, whose rows are ordered by channel, then tap; else packed ones lie there in the
    scratch memory.
    """
    height = register_rows()
    width, compute, lanes = 2 * kind.lanes, kind.compute, kind.lanes
    cell = height * width
    plain = finish.plain and kind.storage == compute
    f = Kernel()
    c = f.constants(FORWARD)
    heights = f.at("i64", f.load("ptr", f["p"]), HEIGHTS_AT)
    taps = f.at("i64", heights, c["heights"])
    slots = f.stack(compute, TILE_SLOTS * cell + 2 * width, align=64)
    runs = f.stack("i64", 4 * width)
    band = f.scratch(c["work"] + f["thread"] * c["slice"])
    panel = f.at("i8", band, f.ceiling_division((c["band_image"] * c["tile_n"] + 2 * width) * BYTES[compute], 64) * 64)
    boxes = c["count_n"] * c["count_z"] * c["count_y"] * c["count_x"]
    blocks = f.maximum(f.ceiling_division(c["channels"], c["block"]), 1)
    depth_total = c["channels"] * c["taps"]
    with f.loop(f["begin"], f["end"]) as index:
        box = box_of(f, c, index.unsigned_rem(boxes))
        rest = index.unsigned_div(boxes)
        tile_m, group = rest.unsigned_rem(c["count_m"]), rest.unsigned_div(c["count_m"])
        i0 = tile_m * c["tile_panels"] * c["row_step"]
        i1 = f.minimum(i0 + c["tile_panels"] * c["row_step"], c["rows"])
        source = f.at(kind.storage, f.slot(c["in_slot"]), group * c["channels"] * c["in_c"])
        if in_place:
            weights = f.at(compute, f.slot(c["weights"]), group * c["rows"] * depth_total)
        else:
            weights = f.at(compute, f.scratch(c["weights"]), group * c["panels"] * height * depth_total)
        target = f.at(kind.storage, f.slot(c["c_slot"]), group * c["rows"] * c["c_o"] + c["c_place"])
        bias = f.at(kind.storage, f.slot(c["d_slot"]), group * c["rows"])
        pixels = box.pixels()
        with f.loop(0, blocks) as block:
            first_channel = block * c["block"]
            count = f.minimum(c["block"], c["channels"] - first_channel)
            first = f.convert(block.equals(0), "i64", "zext")
            last = (block + 1).equals(blocks)
            with f.when(count * c["taps"] > 0):
                BandCopy(f, c, kind, row_order, box).copy(source, first_channel, count, band)
            with f.loop(0, pixels, width) as j:
                columns = f.minimum(pixels - j, width)
                number = runs_of(f, c, box, j, columns, lanes, runs, images_inside=True)
                low, high = (f.i64(0), c["taps"]) if in_place else _rows_hit(f, c, box, j, columns, heights)
                depth = (high - low) * count
                f.call(
                    "void",
                    "patches",
                    band,
                    count,
                    c["band_channel"],
                    high - low,
                    f.at("i64", taps, low),
                    number,
                    runs,
                    panel,
                    declare=False,
                )
                together = f.value(0, "i1")
                goal0 = f.load("i64", runs, 3)
                if plain:
                    # all pixels of the panel lie next to each other in the output
                    final = number - 1
                    spread = f.load("i64", runs, final * 4 + 3) + f.load("i64", runs, final * 4 + 1) - goal0
                    together = spread.equals(width) & columns.equals(width)
                with f.loop(i0, i1, c["row_step"]) as i:
                    rows = f.minimum(i1 - i, c["row_step"])
                    if in_place:
                        start = i * depth_total + first_channel * c["taps"]
                    else:
                        panel_start = (i.unsigned_div(c["row_step"]) * c["taps"] + low) * count
                        start = (first_channel * c["taps"] * c["panels"] + panel_start) * height
                    a = f.at(compute, weights, start)
                    row = (i - i0).unsigned_div(c["row_step"])
                    place = row * f.ceiling_division(pixels, width) + j.unsigned_div(f.i64(width))
                    tile = f.at(compute, slots, f.select(blocks.equals(1), f.i64(0), place) * cell)
                    stride = f.i64(width)
                    base = f.at(kind.storage, target, i * c["c_o"])
                    if plain:
                        tile = f.select(together, f.at(compute, base, goal0), tile)
                        stride = f.select(together, c["c_o"], stride)
                    zero = f.i64(0)
                    arguments = (depth, a, panel, tile, stride, first, depth_total, f.i64(1), zero, columns)
                    call_tile(f, c["micros"], rows, *arguments)
                    with f.when(f.select(together, f.value(0, "i1"), last)), f.loop(0, number) as r:
                        lane, length, goal = (f.load("i64", runs, r * 4 + word) for word in (0, 1, 3))
                        f.call(
                            "void",
                            "finish",
                            f.at(compute, tile, lane),
                            rows,
                            length,
                            f.at(kind.storage, base, goal),
                            c["c_o"],
                            c["c_x"],
                            f.at(kind.storage, bias, i),
                            f.i64(1),
                            zero,
                            c["alpha"],
                            c["beta"],
                            declare=False,
                        )
    helpers = [epilogue(kind, kind, finish, width), patches_function(kind, width, in_place), *fill_functions(kind, row_order)]
    return module(*helpers, f)


WEIGHTS = (
    "slot",
    "place",
    "group_stride",
    "row_stride",
    "channel_stride",
    "rows",
    "row_step",
    "panels",
    "channels",
    "taps",
    "area",
    "block",
    "destination",
)
WEIGHT_TAPS_AT = len(WEIGHTS)


@cache
def weights_text(kind: Kind) -> str:
    """Pack weights into panels of rows; the range is groups x panels x blocks of channels.

    The constants end with the place of each of the kernel's taps among the chosen ones, or -1. Within a block of channels steps
    are ordered by tap, then channel. The rows of one channel are loaded tap by tap and transposed.
    """
    f = Kernel()
    c = f.constants(WEIGHTS)
    places = f.at("i64", f.load("ptr", f["p"]), WEIGHT_TAPS_AT)
    height, lanes = register_rows(), kind.lanes
    tile = f.stack(kind.compute, lanes * lanes, align=64)
    blocks = f.ceiling_division(c["channels"], c["block"])
    with f.loop(f["begin"], f["end"]) as index:
        block, rest = index.unsigned_rem(blocks), index.unsigned_div(blocks)
        panel, group = rest.unsigned_rem(c["panels"]), rest.unsigned_div(c["panels"])
        row = panel * c["row_step"]
        rows = f.minimum(c["row_step"], c["rows"] - row)
        first = block * c["block"]
        count = f.minimum(c["block"], c["channels"] - first)
        source = f.at(kind.storage, f.slot(c["slot"]), c["place"] + group * c["group_stride"] + row * c["row_stride"])
        start = (group * c["panels"] * c["channels"] + first * c["panels"] + panel * count) * c["taps"] * height
        target = f.at(kind.compute, f.scratch(c["destination"]), start)
        with f.loop(0, c["area"], lanes) as raw:
            mask = f.mask(c["area"] - raw, lanes)
            with f.loop(0, count) as channel:
                here = f.at(kind.storage, source, (first + channel) * c["channel_stride"] + raw)
                with f.loop(0, rows, lanes) as begin:
                    with f.loop(0, f.minimum(rows - begin, lanes)) as r:
                        place = f.at(kind.storage, here, (begin + r) * c["row_stride"])
                        loaded = f.masked_load(vector(kind.storage, lanes), place, mask, BYTES[kind.storage])
                        f.store(widen(f, kind, loaded), tile, r * lanes, align=vector_bytes())
                    used = f.mask(height - begin, lanes)
                    with f.loop(0, f.minimum(c["area"] - raw, lanes), 16 // BYTES[kind.compute]) as column:
                        for i, value in enumerate(transpose_tile(f, kind.compute, tile, lanes, column)):
                            with f.when(raw + column + i < c["area"]):
                                place = f.load("i64", places, raw + column + i)
                                with f.when(place >= 0):
                                    goal = f.at(kind.compute, target, (place * count + channel) * height + begin)
                                    f.masked_store(value, goal, used, BYTES[kind.compute])
    return module(f)


@cache
def forward_kernel(kind: Kind, finish: Epilogue, row_order: str, in_place: bool) -> int:
    return compile_kernel(forward_text(kind, finish, row_order, in_place), pipeline=LIGHTEST)


@cache
def weights_kernel(kind: Kind) -> int:
    return compile_kernel(weights_text(kind), pipeline=LIGHT)
