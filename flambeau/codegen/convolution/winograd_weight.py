"""The gradient of 3 x 3 weights, of stride 1, by Winograd's algorithm: G^T [sum over tiles of (B^T d B) * (A dy A^T)] G.

Sixteen products of (channels, tiles) with (tiles, outputs), added over boxes of tiles in slices, and a phase that adds the
slices and goes back to nine taps. Tiles, and what becomes of values that are not finite, are as in winograd.py, on which this
stands. It calls weight.py's register tiles; winograd_plan.py plans the phases.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.convolution.halo import GEOMETRY, BandCopy, box_of, fill_functions, runs_of
from flambeau.codegen.convolution.winograd import PLANES, RUN_WORDS, TAPS, any_lane, tiles_function
from flambeau.codegen.cpu import vector_bytes
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.products.micro import call_tile

WEIGHT = (
    *GEOMETRY, "panels", "slices", "blocks", "piece", "row_step", "gradient", "partial", "flag", "plane", "c_n", "c_z",
    "c_y", "c_x", "end_y", "end_x", "micros",
)  # fmt: skip
TAPS_OF = ("channels", "outputs", "slices", "partial", "target", "flag")


def gradient_of_tile(d: list[list[Value]]) -> list[Value]:
    """A d A^T of two by two pixels."""
    e = [(d[0][j], d[0][j] + d[1][j], d[0][j] - d[1][j], -d[1][j]) for j in range(2)]
    return [v for i in range(4) for v in (e[0][i], e[0][i] + e[1][i], e[0][i] - e[1][i], -e[1][i])]


def taps_of_tile(p: list[list[Value]]) -> list[Value]:
    """G^T p G."""

    def three(a: Value, b: Value, c: Value, d: Value) -> tuple[Value, Value, Value]:
        both = (b + c) * 0.5
        return a + both, (b - c) * 0.5, both + d

    e = [three(*(p[i][j] for i in range(4))) for j in range(4)]
    return [v for i in range(3) for v in three(*(e[j][i] for j in range(4)))]


def _gradients_function(kind: Kind, pitch: int) -> Kernel:
    """void gradients(source, row, length, two_rows, columns, target): a run of tiles of a packed gradient, transformed.

    `source` has panels of two vectors of outputs, `row` pixels to a row. Plane k of the result begins at k * pitch steps. Tiles
    have a second row if `two_rows`; all together they have `columns` columns.
    """
    words = ("row", "length", "two_rows", "columns")
    f = Kernel("gradients", [("source", "ptr"), *((w, "i64") for w in words), ("target", "ptr")], internal=True)
    compute, whole, lanes, align = kind.compute, kind.accumulator, kind.lanes, vector_bytes()
    width = 2 * lanes
    below = f.select(f["two_rows"].differs(0), f["row"], f.i64(0)) * width
    with f.loop(0, f["length"]) as tile:
        beside = f["columns"] > tile * 2 + 1
        right = f.select(beside, f.i64(width), f.i64(0))
        corner = f.at(compute, f["source"], tile * (2 * width))
        goal = f.at(compute, f["target"], tile * width)
        for j in range(0, width, lanes):
            # where a row or a column isn't there, what is in its place is read and not taken
            upper = [f.load(whole, corner, j, align=align), f.load(whole, corner, right + j, align=align)]
            lower = [f.load(whole, corner, below + j, align=align), f.load(whole, corner, below + right + j, align=align)]
            there = f["two_rows"].differs(0)
            d = [[upper[0], f.select(beside, upper[1], 0)], [f.select(there, lower[0], 0), f.select(there & beside, lower[1], 0)]]
            for k, value in enumerate(gradient_of_tile(d)):
                f.store(value, f.at(compute, goal, k * pitch * width + j), align=align)
    return f


@compiled(BRIEF)
def winograd_weight_kernel(kind: Kind, row_order: str, pitch: int) -> str:
    """Partial sums (slice, plane, channel, output); the range is slices x blocks of channels. pitch: most tiles of a box."""
    f = Kernel()
    c = f.constants(WEIGHT)
    compute, lanes = kind.compute, kind.lanes
    width, size = 2 * lanes, BYTES[kind.compute]
    band = f.scratch(c["work"] + f["thread"] * c["slice"])
    runs = f.at("i8", band, f.ceiling_division((c["band_image"] * c["tile_n"] + 4 * lanes) * size, 64) * 64)
    tiles = f.at("i64", runs, RUN_WORDS * pitch + 8)
    gradients = f.at(compute, tiles, c["plane"] * PLANES)
    boxes = c["count_n"] * c["count_z"] * c["count_y"] * c["count_x"]
    pixels = c["images"] * c["c_n"]
    stride = c["panels"] * width
    with f.when(f["begin"].equals(0)):
        f.store(f.i64(0), f.scratch(c["flag"]))
    with f.loop(f["begin"], f["end"]) as index:
        piece, part = index.unsigned_rem(c["blocks"]), index.unsigned_div(c["blocks"])
        first_channel = piece * c["piece"]
        channels = f.minimum(c["piece"], c["channels"] - first_channel)
        partial = f.at(compute, f.scratch(c["partial"]), (part * PLANES * c["channels"] + first_channel) * stride)
        begin, end = (part * boxes).unsigned_div(c["slices"]), ((part + 1) * boxes).unsigned_div(c["slices"])
        with f.loop(begin, end) as number:
            box = box_of(f, c, number)
            count = box.pixels()
            number_of_runs = runs_of(f, c, box, f.i64(0), count, lanes, runs)
            copy = BandCopy(f, c, kind, row_order, box)
            with f.loop(0, channels, c["block"]) as first:
                some = f.minimum(c["block"], channels - first)
                copy.copy(f.slot(c["in_slot"]), first_channel + first, some, band)
                f.call(
                    "void", "tiles", band, some, c["band_channel"], c["band_row"], c["band_phase"], number_of_runs, runs,
                    f.at(compute, tiles, first * pitch), c["plane"], declare=False,
                )  # fmt: skip
            fresh = f.convert(number.equals(begin), "i64", "zext")
            with f.loop(0, c["panels"]) as panel:
                packed = f.at(compute, f.scratch(c["gradient"]), panel * pixels * width)
                with f.loop(0, number_of_runs) as r:
                    lane, length, offset, pixel = (f.load("i64", runs, r * RUN_WORDS + word) for word in range(4))
                    within, pair = offset.unsigned_rem(c["band_plane"]), c["band_row"] * 2
                    y, x = (box.y + within.unsigned_div(pair)) * 2, (box.x + within.unsigned_rem(pair)) * 2
                    f.call(
                        "void", "gradients", f.at(compute, packed, pixel * width), c["end_x"], length,
                        f.convert(y + 1 < c["end_y"], "i64", "zext"), c["end_x"] - x, f.at(compute, gradients, lane * width),
                        declare=False,
                    )  # fmt: skip
                with f.loop(0, PLANES) as k, f.loop(0, channels, c["row_step"]) as i:
                    here = f.minimum(channels - i, c["row_step"])
                    a = f.at(compute, tiles, k * c["plane"] + i * pitch)
                    b = f.at(compute, gradients, k * (pitch * width))
                    goal = f.at(compute, partial, (k * c["channels"] + i) * stride + panel * width)
                    call_tile(f, c["micros"], here, count, a, b, goal, stride, fresh)
    return module(*fill_functions(kind, row_order), tiles_function(kind, pitch), _gradients_function(kind, pitch), f)


@compiled(BRIEF)
def taps_kernel(kind: Kind) -> str:
    """Add the slices and go back to taps, (channel and tap, output); the range is the channels.

    The flag is raised if a value that belongs to the result is not finite.
    """
    f = Kernel()
    c = f.constants(TAPS_OF)
    compute, whole, lanes, align = kind.compute, kind.accumulator, kind.lanes, vector_bytes()
    stride = f.ceiling_division(c["outputs"], 2 * lanes) * (2 * lanes)
    never = f.variable(whole, 0)
    with f.loop(f["begin"], f["end"]) as channel, f.loop(0, c["outputs"], lanes) as output:
        sums = [f.variable(whole, 0) for _ in range(PLANES)]
        with f.loop(0, c["slices"]) as part:
            place = f.at(compute, f.scratch(c["partial"]), (part * PLANES * c["channels"] + channel) * stride + output)
            for k, total in enumerate(sums):
                total.set(total.get() + f.load(whole, f.at(compute, place, c["channels"] * stride * k), align=align))
        p = [[sums[4 * i + j].get() for j in range(4)] for i in range(4)]
        target = f.at(compute, f.scratch(c["target"]), channel * TAPS * stride + output)
        taps = taps_of_tile(p)
        for tap, value in enumerate(taps):
            f.store(value, f.at(compute, target, stride * tap), align=align)
        total = taps[0]
        for value in taps[1:]:
            total = total + value
        never.set(never.get() + f.select(f.mask(c["outputs"] - output, lanes), total - total, 0))
    found = f.emit(vector("i1", lanes), f"fcmp uno {whole} {never.get().name}, zeroinitializer")
    with f.when(any_lane(f, found, lanes)):
        f.store(f.i64(1), f.scratch(c["flag"]))
    return module(f)
