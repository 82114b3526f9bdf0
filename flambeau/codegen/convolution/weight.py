"""Gradient of a convolution's weight: dw[(channel, tap), output] = sum over pixels of patch * output gradient.

Three phases: the output's gradient is packed into panels of output channels, tasks over blocks of input channels (and slices of
the images, where channels are few) multiply rows of patches with them in register tiles, and the partial sums of
the slices are added and transposed into the weight's layout. Stands on halo.py and products.pack; conv.py plans the phases.
"""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.codegen.builder import Value, module
from flambeau.codegen.convolution.halo import GEOMETRY, BandCopy, Box, box_of, end_unless_idle, fill_functions, runs_of
from flambeau.codegen.cpu import register_rows, vector_bytes
from flambeau.codegen.element_type import Kind, narrow
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, transpose_tile
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.products.micro import Table, call_tile, multiply_add
from flambeau.codegen.products.pack import pack_panel

PIXEL_STEPS = 256  # pixels per pass over a panel of the output's gradient, which then stays in the first-level cache
ROW_VECTORS = 4  # rows per task of the reduction, in vectors: longer runs of memory written
GRADIENT = ("g_slot", "g_n", "g_o", "g_pixel", "images", "groups", "outputs", "panels", "pixels", "destination")
WEIGHT = (
    *GEOMETRY, "outputs", "panels", "slices", "blocks", "row_step", "gradient", "partial", "g_slot", "g_n", "g_o",
    "g_pixel", "micros", "flag",
)  # fmt: skip
REDUCE = ("rows", "outputs", "panels", "groups", "slices", "partial", "c_slot", "row_tiles")


@compiled(BRIEF)
def pack_gradient_kernel(kind: Kind, order: str) -> str:
    """The output's gradient as (group, panel, image, pixel, output channel); the range is groups x panels x images."""
    f = Kernel()
    c = f.constants(GRADIENT)
    width = 2 * kind.lanes
    with f.loop(f["begin"], f["end"]) as index:
        image, rest = index.unsigned_rem(c["images"]), index.unsigned_div(c["images"])
        panel, group = rest.unsigned_rem(c["panels"]), rest.unsigned_div(c["panels"])
        source = f.at(kind.storage, f.slot(c["g_slot"]), image * c["g_n"] + (group * c["outputs"] + panel * width) * c["g_o"])
        target = f.at(kind.compute, f.scratch(c["destination"]), index * c["pixels"] * width)
        f.call(
            "void",
            "pack",
            source,
            c["g_o"],
            c["g_pixel"],
            f.minimum(c["outputs"] - panel * width, width),
            c["pixels"],
            target,
            declare=False,
        )
    return module(pack_panel(kind, width, order), f)


def _micro(kind: Kind, rows: int, pitch: int) -> Kernel:
    """void patch_rows(k, a, b, c, c_stride, first): C tile (+)= rows of patches, `pitch` apart, * packed gradient."""
    f = Kernel(f"patch_{rows}", [("k", "i64"), ("a", "ptr"), ("b", "ptr"), ("c", "ptr"), ("c_stride", "i64"), ("first", "i64")])
    lanes, whole, compute = kind.lanes, kind.accumulator, kind.compute
    goals = [f.at(compute, f["c"], f["c_stride"] * i) for i in range(rows)]
    tile = [[f.variable(whole) for _ in range(2)] for _ in range(rows)]
    with f.branches(f["first"].differs(0)) as otherwise:
        for cell in (cell for row in tile for cell in row):
            cell.set(0)
        otherwise()
        for i, row in enumerate(tile):
            for j, cell in enumerate(row):
                cell.set(f.load(whole, goals[i], j * lanes, align=vector_bytes()))
    with f.loop(0, f["k"]) as p:
        b = f.at(compute, f["b"], p * (2 * lanes))
        columns = [f.load(whole, b, j * lanes, align=vector_bytes()) for j in range(2)]
        a = f.at(compute, f["a"], p)
        for i, row in enumerate(tile):
            broadcast = f.splat(f.load(compute, a, i * pitch), lanes)
            for j, cell in enumerate(row):
                cell.set(multiply_add(f, kind, broadcast, columns[j], cell.get()))
    for i, row in enumerate(tile):
        for j, cell in enumerate(row):
            f.store(cell.get(), goals[i], j * lanes, align=vector_bytes())
    return f


def patch_table(kind: Kind, rows: Iterable[int], pitch: int = PIXEL_STEPS) -> Table:
    return Table(("patch", kind, pitch), lambda r: _micro(kind, r, pitch), rows)


def _rows(kind: Kind) -> Kernel:
    """void rows(band, count, row_table, runs, run_table, target): `count` rows of patches, each PIXEL_STEPS long."""
    f = Kernel(
        "rows",
        [("band", "ptr"), ("count", "i64"), ("row_table", "ptr"), ("runs", "i64"), ("run_table", "ptr"), ("target", "ptr")],
        internal=True,
    )
    lanes, compute = kind.lanes, kind.compute
    with f.loop(0, f["count"]) as i:
        source = f.at(compute, f["band"], f.load("i64", f["row_table"], i))
        target = f.at(compute, f["target"], i * PIXEL_STEPS)
        with f.loop(0, f["runs"]) as r:
            lane, length, offset = (f.load("i64", f["run_table"], r * 4 + word) for word in range(3))
            here, there = f.at(compute, source, offset), f.at(compute, target, lane)
            # whole vectors: what is written too much is overwritten by the next run or the next row
            with f.loop(0, length, lanes) as x:
                f.store(f.load(kind.accumulator, here, x, align=BYTES[compute]), there, x, align=BYTES[compute])
    return f


def _pack_gradient(f: Kernel, c: Constants, kind: Kind, box: Box, group: Value, p: Value, depth: Value, local: Value) -> None:
    """The output's gradient at `depth` pixels of a box from `p` on, in panels of outputs."""
    width = 2 * kind.lanes
    pixel = (box.z * c["out_y"] + box.y) * c["out_x"] + box.x + p
    with f.loop(0, c["panels"]) as panel:
        first_output = panel * width
        place = box.n * c["g_n"] + (group * c["outputs"] + first_output) * c["g_o"] + pixel * c["g_pixel"]
        f.call(
            "void",
            "pack",
            f.at(kind.storage, f.slot(c["g_slot"]), place),
            c["g_o"],
            c["g_pixel"],
            f.minimum(c["outputs"] - first_output, width),
            depth,
            f.at(kind.compute, local, panel * PIXEL_STEPS * width),
            declare=False,
        )


@compiled(BRIEF)
def weight_kernel(kind: Kind, row_order: str, order: str | None) -> str:
    """Partial sums (slice, group, channel and tap, output); the range is slices x groups x blocks of channels.

    order: None if the output's gradient was packed by a phase before; otherwise its stride class: each task packs what it uses
    (boxes of one image only).
    """
    f = Kernel()
    c = f.constants(WEIGHT)
    taps = f.at("i64", f.load("ptr", f["p"]), len(WEIGHT))
    height, compute = register_rows(), kind.compute
    width = 2 * kind.lanes
    patches = f.stack(compute, height * PIXEL_STEPS + kind.lanes, align=64)
    runs = f.stack("i64", 4 * PIXEL_STEPS)
    band = f.scratch(c["work"] + f["thread"] * c["slice"])
    row_table = f.at("i8", band, f.ceiling_division((c["band_image"] * c["tile_n"] + width) * BYTES[compute], 64) * 64)
    local = f.at("i8", row_table, f.ceiling_division(c["block"] * c["taps"], 8) * 64)
    boxes = c["count_n"] * c["count_z"] * c["count_y"] * c["count_x"]
    all_pixels = c["images"] * c["out_z"] * c["out_y"] * c["out_x"]
    stride = c["panels"] * width
    with f.loop(f["begin"], end_unless_idle(f, c)) as index:
        block, rest = index.unsigned_rem(c["blocks"]), index.unsigned_div(c["blocks"])
        group, part = rest.unsigned_rem(c["groups"]), rest.unsigned_div(c["groups"])
        first_channel = block * c["block"]
        count = f.minimum(c["block"], c["channels"] - first_channel)
        rows = count * c["taps"]
        with f.loop(0, count) as channel, f.loop(0, c["taps"]) as tap:
            f.store(channel * c["band_channel"] + f.load("i64", taps, tap), row_table, channel * c["taps"] + tap)
        source = f.at(kind.storage, f.slot(c["in_slot"]), group * c["channels"] * c["in_c"])
        partial = f.at(compute, f.scratch(c["partial"]), (rest * c["channels"] + first_channel) * c["taps"] * stride)
        gradient = f.at(compute, f.scratch(c["gradient"]), group * c["panels"] * all_pixels * width)
        begin, end = (part * boxes).unsigned_div(c["slices"]), ((part + 1) * boxes).unsigned_div(c["slices"])
        with f.loop(begin, end) as number:
            box = box_of(f, c, number)
            BandCopy(f, c, kind, row_order, box).copy(source, first_channel, count, band)
            pixels = box.pixels()
            # boxes are whole in all but their outermost axis, so their pixels follow each other in the packed gradient
            first_pixel = ((box.n * c["out_z"] + box.z) * c["out_y"] + box.y) * c["out_x"] + box.x
            with f.loop(0, pixels, PIXEL_STEPS) as p:
                depth = f.minimum(pixels - p, PIXEL_STEPS)
                fresh = f.convert(number.equals(begin) & p.equals(0), "i64", "zext")
                number_of_runs = runs_of(f, c, box, p, depth, PIXEL_STEPS, runs)
                if order is not None:
                    _pack_gradient(f, c, kind, box, group, p, depth, local)
                with f.loop(0, rows, c["row_step"]) as i:
                    here = f.minimum(rows - i, c["row_step"])
                    f.call("void", "rows", band, here, f.at("i64", row_table, i), number_of_runs, runs, patches, declare=False)
                    with f.loop(0, c["panels"]) as panel:
                        if order is None:
                            b = f.at(compute, gradient, (panel * all_pixels + first_pixel + p) * width)
                        else:
                            b = f.at(compute, local, panel * PIXEL_STEPS * width)
                        goal = f.at(compute, partial, i * stride + panel * width)
                        call_tile(f, c["micros"], here, depth, patches, b, goal, stride, fresh)
    helpers = [*fill_functions(kind, row_order), _rows(kind)] + ([] if order is None else [pack_panel(kind, width, order)])
    return module(*helpers, f)


@compiled(BRIEF)
def reduce_kernel(kind: Kind, transposed: bool) -> str:
    """Add the slices into (group, output, channel and tap), or as they lie if `transposed`.

    The range is groups x tiles of rows.
    """
    f = Kernel()
    c = f.constants(REDUCE)
    lanes, whole, compute = kind.lanes, kind.accumulator, kind.compute
    stride = c["panels"] * (2 * lanes)
    span = lanes * ROW_VECTORS
    tile = f.stack(compute, lanes * lanes, align=64)
    with f.loop(f["begin"], f["end"]) as index:
        group, start = index.unsigned_div(c["row_tiles"]), index.unsigned_rem(c["row_tiles"]) * span
        stop = f.minimum(start + span, c["rows"])
        with f.loop(0, c["outputs"], lanes) as output, f.loop(start, stop, lanes) as row:
            rows = f.minimum(stop - row, lanes)
            if transposed:
                target = f.at(kind.storage, f.slot(c["c_slot"]), (group * c["rows"] + row) * c["outputs"] + output)
                mask = f.mask(c["outputs"] - output, lanes)
            else:
                target = f.at(kind.storage, f.slot(c["c_slot"]), (group * c["outputs"] + output) * c["rows"] + row)
                mask = f.mask(rows, lanes)
            with f.loop(0, rows) as i:
                total = f.variable(whole, 0)
                with f.loop(0, c["slices"]) as part:
                    place = ((part * c["groups"] + group) * c["rows"] + row + i) * stride + output
                    total.set(total.get() + f.load(whole, f.scratch(c["partial"]), place, align=vector_bytes()))
                if transposed:
                    goal = f.at(kind.storage, target, i * c["outputs"])
                    f.masked_store(narrow(f, kind, total.get()), goal, mask, BYTES[kind.storage])
                else:
                    f.store(total.get(), tile, i * lanes, align=vector_bytes())
            if not transposed:
                with f.loop(0, f.minimum(c["outputs"] - output, lanes), 16 // BYTES[compute]) as column:
                    for i, value in enumerate(transpose_tile(f, compute, tile, lanes, column)):
                        with f.when(output + column + i < c["outputs"]):
                            goal = f.at(kind.storage, target, (column + i) * c["rows"])
                            f.masked_store(narrow(f, kind, value), goal, mask, BYTES[kind.storage])
    return module(f)
