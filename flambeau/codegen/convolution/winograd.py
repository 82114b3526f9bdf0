"""Convolutions with 3 x 3 taps and stride 1 by Winograd's F(2 x 2, 3 x 3): 16 multiplications where 36 are.

A tile is 2 x 2 pixels of the result and the 4 x 4 of the source that they see. With B, G and A of the algorithm each tile is
A^T [(G g G^T) * (B^T d B)] A, where the products in brackets are added over channels: sixteen matrix products of the
transformed weights with the transformed tiles. Tiles are cut into boxes and gathered from bands as pixels of a convolution with
4 x 4 taps and stride 2 are. A value that is not finite would spread over its tile: whoever finds one in a result raises a
flag, and the direct form, which stands behind, does everything again. So it does where a tap is zero in all weights, as in masked
convolutions: pixels under it must not count at all, and by sums and differences they would to within rounding.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016. Errors are below the direct form's, as sums are
shorter and the transforms have no factors but 1, -1 and 1/2 (Barabasz et al., "Error Analysis and Improving the Accuracy of
Winograd Convolution for Deep Neural Networks", ACM TOMS 2020). Stands on halo.py, gather.py and products.micro;
winograd_plan.py plans its phases.
"""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.codegen.builder import Value, module
from flambeau.codegen.convolution.gather import WeightPacking
from flambeau.codegen.convolution.halo import GEOMETRY, BandCopy, Box, box_of, fill_functions, runs_of
from flambeau.codegen.cpu import vector_bytes
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.products.epilogue import Epilogue

PLANES = 16  # products to a tile
TAPS = 9
RUN_WORDS = 4  # of a run in a table, as halo.runs_of writes them
BLOCK = 32  # channels of a panel of weights that one unit of work transforms

# then places of taps
TRANSFORM = ("slot", "row_stride", "channel_stride", "rows", "channels", "area", "into", "target", "seen")
WINOGRAD = (
    *GEOMETRY, "rows", "height", "panels", "tile_panels", "count_m", "gather", "c_slot", "c_place", "c_n", "c_o", "c_z", "c_y",
    "c_x", "row_step", "column_step", "end_y", "end_x", "d_slot", "w_slot", "weights", "flag", "seen", "seen_words", "plane",
    "most_panels", "micro", "edge", "edge_columns",
)  # fmt: skip


def source_of_tile(d: list[list[Value]]) -> list[Value]:
    """B^T d B."""
    e = [[d[0][j] - d[2][j], d[1][j] + d[2][j], d[2][j] - d[1][j], d[1][j] - d[3][j]] for j in range(4)]
    return [v for i in range(4) for v in (e[0][i] - e[2][i], e[1][i] + e[2][i], e[2][i] - e[1][i], e[1][i] - e[3][i])]


def pixels_of_tile(m: list[list[Value]]) -> list[list[Value]]:
    """A^T m A, two rows of two."""
    e = [(m[0][j] + m[1][j] + m[2][j], m[1][j] - m[2][j] - m[3][j]) for j in range(4)]
    return [[e[0][i] + e[1][i] + e[2][i], e[1][i] - e[2][i] - e[3][i]] for i in range(2)]


def weights_of_tile(g: list[list[Value]]) -> list[Value]:
    """G g G^T."""

    def three(a: Value, b: Value, c: Value) -> tuple[Value, Value, Value, Value]:
        outer = a + c
        return a, (outer + b) * 0.5, (outer - b) * 0.5, c

    e = [three(*(g[i][j] for i in range(3))) for j in range(3)]
    return [v for i in range(4) for v in three(*(e[j][i] for j in range(3)))]


def any_lane(f: Kernel, lanes_on: Value, lanes: int) -> Value:
    """Whether any lane of a mask is on."""
    return f.convert(lanes_on, f"i{lanes}", "bitcast").differs(0)


@compiled(BRIEF)
def transform_kernel(kind: Kind, height: int) -> str:
    """Weights to (panel of `height` rows, plane, channel, row); the range is panels x blocks of channels.

    Each unit of work leaves a word whose bits say which taps have weights other than zero. The constants end as those of
    gather.weights_kernel.
    """
    f = Kernel()
    c = f.constants(TRANSFORM)
    packing = WeightPacking(f, c, kind, height, len(TRANSFORM))
    lanes, whole, align = kind.lanes, kind.accumulator, BYTES[kind.compute]
    packed = f.stack(kind.compute, TAPS * BLOCK * height + lanes, align=64)
    into = f.slot(c["into"])
    blocks = f.ceiling_division(c["channels"], BLOCK)
    with f.loop(f["begin"], f["end"]) as index:
        block, panel = index.unsigned_rem(blocks), index.unsigned_div(blocks)
        row, first = panel * height, block * BLOCK
        count = f.minimum(c["channels"] - first, BLOCK)
        packing.pack(row * c["row_stride"] + first * c["channel_stride"], row, count, packed)
        tap, plane = count * height, c["channels"] * height
        seen = [f.variable(vector("i1", lanes), 0) for _ in range(TAPS)]
        target = f.at(kind.compute, f.at("i8", into, c["target"]), panel * plane * PLANES + first * height)
        with f.loop(0, tap, lanes) as i:
            source, goal = f.at(kind.compute, packed, i), f.at(kind.compute, target, i)
            # what is too much in the last vector of all taps but the last is the next one's
            g = [[f.load(whole, f.at(kind.compute, source, tap * (3 * y + x)), align=align) for x in range(3)] for y in range(3)]
            mask = f.mask(tap - i, lanes)
            for some, value in zip(seen, (value for row in g for value in row), strict=True):
                some.set(some.get() | (f.emit(mask.type, f"fcmp une {whole} {value.name}, zeroinitializer") & mask))
            with f.branches(i + lanes <= tap) as otherwise:
                for k, value in enumerate(weights_of_tile(g)):
                    f.store(value, f.at(kind.compute, goal, plane * k), align=align)
                otherwise()
                for k, value in enumerate(weights_of_tile(g)):
                    f.masked_store(value, f.at(kind.compute, goal, plane * k), mask, align)
        word = f.i64(0)
        for bit, some in enumerate(seen):
            word = word | f.select(any_lane(f, some.get(), lanes), f.i64(1 << bit), f.i64(0))
        f.store(word, f.at("i8", into, c["seen"]), index)
    return module(f)


@compiled(BRIEF)
def lower_kernel() -> str:
    """Lower the flag."""
    f = Kernel()
    f.store(f.i64(0), f.scratch(f.constants(("flag",))["flag"]))
    return module(f)


def tiles_function(kind: Kind, width: int) -> Kernel:
    """void tiles(band, channels, band_channel, band_row, band_phase, runs, run_table, panel, plane): tiles, transformed.

    Plane k of the panel begins at k * plane and has `width` tiles to a channel.
    """
    words = ("channels", "band_channel", "band_row", "band_phase", "runs")
    f = Kernel(
        "tiles",
        [("band", "ptr"), *((w, "i64") for w in words), ("run_table", "ptr"), ("panel", "ptr"), ("plane", "i64")],
        internal=True,
    )
    compute, whole, align = kind.compute, kind.accumulator, BYTES[kind.compute]
    columns = (f.i64(0), f["band_phase"], f.i64(1), f["band_phase"] + 1)
    with f.loop(0, f["channels"]) as channel:
        source, target = (f.at(compute, f["band"], channel * f["band_channel"]), f.at(compute, f["panel"], channel * width))
        # a run is written as one full vector: what is too much is overwritten by the next run, channel or plane, or is past all
        with f.loop(0, f["runs"]) as r:
            lane, offset = (f.load("i64", f["run_table"], r * RUN_WORDS + word) for word in (0, 2))
            rows = [f.at(compute, source, offset + f["band_row"] * y) for y in range(4)]
            d = [[f.load(whole, row, x, align=align) for x in columns] for row in rows]
            place = f.at(compute, target, lane)
            for k, value in enumerate(source_of_tile(d)):
                f.store(value, f.at(compute, place, f["plane"] * k), align=align)
    return f


def _pixels_function(kind: Kind, finish: Epilogue, width: int) -> Kernel:
    """void pixels(tile, plane, rows, lane, length, c, c_row, row_step, column_step, two_rows, columns, d, flag): a run's results.

    `length` tiles from `lane` on in `rows` output channels; they have `columns` columns of pixels, and a second row if
    `two_rows`. The flag is raised if one is not finite.
    """
    words = ("plane", "rows", "lane", "length")
    steps = ("c_row", "row_step", "column_step", "two_rows", "columns")
    f = Kernel(
        "pixels",
        [
            ("tile", "ptr"),
            *((w, "i64") for w in words),
            ("c", "ptr"),
            *((w, "i64") for w in steps),
            ("d", "ptr"),
            ("flag", "ptr"),
        ],
        internal=True,
    )
    lanes, compute, whole, align = kind.lanes, kind.compute, kind.accumulator, BYTES[kind.compute]
    size = BYTES[kind.storage]
    inside = f.mask(f["length"], lanes)
    first, second = f.mask(f["columns"], lanes), f.mask(f["columns"] - lanes, lanes)
    never = f.variable(whole, 0)
    scattered = None if finish.columns == "unit" else f.stack(kind.storage, 4 * lanes, align=64)
    with f.loop(0, f["rows"]) as row:
        source = f.at(compute, f["tile"], row * width + f["lane"])
        m = [[f.load(whole, f.at(compute, source, f["plane"] * (4 * i + j)), align=align) for j in range(4)] for i in range(4)]
        y = pixels_of_tile(m)
        total = y[0][0] + y[0][1] + y[1][0] + y[1][1]
        never.set(never.get() + f.select(inside, total - total, 0))  # zero, unless something is not finite
        if finish.addend is not None:
            bias = f.splat(widen(f, kind, f.load(kind.storage, f["d"], row)), lanes)
            y = [[v + bias for v in pair] for pair in y]
        if finish.apply is not None:
            y = [[finish.apply(f, v) for v in pair] for pair in y]
        place = f.at(kind.storage, f["c"], row * f["c_row"])

        def store(i: int, pair: list[Value], place: Value = place) -> None:
            a, b = (narrow(f, kind, v) for v in pair)
            goal = f.at(kind.storage, place, f["row_step"] * i)
            order = [n for lane in range(lanes) for n in (lane, lane + lanes)]
            if scattered is None:
                low, high = (f.shuffle(a, b, order[half:][:lanes]) for half in (0, lanes))
                beyond = f.at(kind.storage, goal, lanes)
                with f.branches(f["columns"].equals(2 * lanes)) as otherwise:  # masks are slow on some processors
                    f.store(low, goal, align=size)
                    f.store(high, beyond, align=size)
                    otherwise()
                    with f.branches(f["columns"] >= lanes) as fewer:
                        f.store(low, goal, align=size)
                        f.masked_store(high, beyond, second, size)
                        fewer()
                        f.masked_store(low, goal, first, size)
            else:
                for half in range(2):
                    f.store(f.shuffle(a, b, order[half * lanes :][:lanes]), scattered, half * lanes, align=size)
                with f.loop(0, f["columns"]) as x:
                    f.store(f.load(kind.storage, scattered, x), goal, x * f["column_step"])

        store(0, y[0])
        with f.when(f["two_rows"].differs(0)):
            store(1, y[1])
    found = f.emit(vector("i1", lanes), f"fcmp uno {whole} {never.get().name}, zeroinitializer")
    with f.when(any_lane(f, found, lanes)):
        f.store(f.i64(1), f["flag"])
    return f


@dataclass
class Panel:
    """`columns` tiles of a box, in `runs` runs listed in `table`; transformed they are in `planes`."""

    columns: Value
    runs: Value
    table: Value
    planes: Value


class Winograd:
    """The compute kernel: its range is blocks of output channels x boxes of tiles."""

    def __init__(self, kind: Kind, finish: Epilogue, row_order: str, vectors: int) -> None:
        self.kind, self.row_order, self.width = kind, row_order, vectors * kind.lanes
        f = self.f = Kernel()
        c = self.c = f.constants(WINOGRAD)
        size = BYTES[kind.compute]
        self.band = f.scratch(c["work"] + f["thread"] * c["slice"])
        band_bytes = (c["band_image"] * c["tile_n"] + 4 * kind.lanes) * size
        self.tables = f.at("i8", self.band, f.ceiling_division(band_bytes, 64) * 64)
        self.table_words = RUN_WORDS * self.width + 8  # the last is the number of runs
        self.planes = f.at("i64", self.tables, c["most_panels"] * self.table_words)
        self.products = f.at(kind.compute, self.planes, c["most_panels"] * c["plane"] * PLANES)
        boxes = c["count_n"] * c["count_z"] * c["count_y"] * c["count_x"]
        with f.loop(f["begin"], self.end_if_all_taps_count()) as index:
            self.unit(box_of(f, c, index.unsigned_rem(boxes)), index.unsigned_div(boxes))

    def end_if_all_taps_count(self) -> Value:
        """Where the range ends: at once, and with the flag up, if a tap is zero in all weights."""
        f, c = self.f, self.c
        seen = f.variable("i64", 0)
        with f.loop(0, c["seen_words"]) as i:
            seen.set(seen.get() | f.load("i64", f.at("i8", f.slot(c["w_slot"]), c["seen"]), i))
        masked = seen.get().differs((1 << TAPS) - 1)
        with f.when(masked):
            f.store(f.i64(1), f.scratch(c["flag"]))
        return f.select(masked, f["begin"], f["end"])

    def panel(self, box: Box, number: Value) -> Panel:
        f, table = self.f, self.f.at("i64", self.tables, number * self.table_words)
        columns = f.minimum(box.pixels() - number * self.width, self.width)
        planes = f.at(self.kind.compute, self.planes, number * self.c["plane"] * PLANES)
        return Panel(columns, f.load("i64", table, RUN_WORDS * self.width), table, planes)

    def unit(self, box: Box, part: Value) -> None:
        f, c, kind = self.f, self.c, self.kind
        panels = f.ceiling_division(box.pixels(), self.width)
        with f.loop(0, panels) as number:
            table = f.at("i64", self.tables, number * self.table_words)
            start = number * self.width
            columns = f.minimum(box.pixels() - start, self.width)
            runs = runs_of(f, c, box, start, columns, kind.lanes, table, images_inside=True)
            f.store(runs, table, RUN_WORDS * self.width)
        source = f.slot(c["in_slot"])
        copy = BandCopy(f, c, kind, self.row_order, box)
        with f.loop(0, c["channels"], c["block"]) as first:
            count = f.minimum(c["block"], c["channels"] - first)
            copy.copy(source, first, count, self.band)
            with f.loop(0, panels) as number:
                panel = self.panel(box, number)
                f.call(
                    "void", "tiles", self.band, count, c["band_channel"], c["band_row"], c["band_phase"], panel.runs,
                    panel.table, f.at(kind.compute, panel.planes, first * self.width), c["plane"], declare=False,
                )  # fmt: skip
        begin = part * c["tile_panels"]
        end = f.minimum(begin + c["tile_panels"], c["panels"])
        with f.loop(begin, end, c["gather"]) as group:
            self.multiply(box, panels, group, f.minimum(group + c["gather"], end))

    def multiply(self, box: Box, panels: Value, begin: Value, end: Value) -> None:
        """Output channels of panels [begin, end) of all tiles of the box."""
        f, c, kind = self.f, self.c, self.kind
        tile = c["height"] * self.width
        one, zero = f.i64(1), f.i64(0)
        step = c["channels"] * c["height"]
        weights = f.at(kind.compute, f.at("i8", f.slot(c["w_slot"]), c["weights"]), begin * step * PLANES)
        with f.loop(0, PLANES) as k, f.loop(0, end - begin) as row, f.loop(0, panels) as number:
            panel = self.panel(box, number)
            goal = f.at(kind.compute, self.products, ((row * panels + number) * PLANES + k) * tile)
            micro = f.select(panel.columns <= c["edge_columns"], c["edge"], c["micro"])
            f.call_pointer(
                "void", f.pointer(micro), c["channels"], f.at(kind.compute, weights, (row * PLANES + k) * step),
                f.at(kind.compute, panel.planes, k * c["plane"]), goal, f.i64(self.width), one, zero, one, zero, panel.columns,
            )  # fmt: skip
        target = f.at(kind.storage, f.slot(c["c_slot"]), c["c_place"])
        bias, flag = f.slot(c["d_slot"]), f.scratch(c["flag"])
        with f.loop(0, end - begin) as row, f.loop(0, panels) as number:
            panel = self.panel(box, number)
            first = (begin + row) * c["height"]
            products = f.at(kind.compute, self.products, (row * panels + number) * PLANES * tile)
            with f.loop(0, panel.runs) as r:
                lane, length, offset, goal = (f.load("i64", panel.table, r * RUN_WORDS + word) for word in range(4))
                within = offset.unsigned_rem(c["band_plane"])
                pair = c["band_row"] * 2
                y, x = (box.y + within.unsigned_div(pair)) * 2, (box.x + within.unsigned_rem(pair)) * 2
                f.call(
                    "void", "pixels", products, tile, f.minimum(c["rows"] - first, c["height"]), lane, length,
                    f.at(kind.storage, target, first * c["c_o"] + goal), c["c_o"], c["row_step"], c["column_step"],
                    f.convert(y + 1 < c["end_y"], "i64", "zext"), f.minimum(length * 2, c["end_x"] - x),
                    f.at(kind.storage, bias, first), flag, declare=False,
                )  # fmt: skip


@compiled(BRIEF)
def winograd_kernel(kind: Kind, finish: Epilogue, row_order: str, vectors: int) -> str:
    """The text of the compute kernel and its helpers."""
    kernel = Winograd(kind, finish, row_order, vectors)
    helpers = [tiles_function(kind, kernel.width), _pixels_function(kind, finish, kernel.width), *fill_functions(kind, row_order)]
    return module(*helpers, kernel.f)


def plane_size(channels: int, width: int) -> int:
    """Elements from one plane of a panel of tiles to the next: not a multiple of a page, so that planes don't compete for lines
    of the cache, and a vector more than there is.
    """
    return channels * width + vector_bytes()
