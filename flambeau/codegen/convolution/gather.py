"""The gather kernel of convolutions: weights, packed or where they lie, times panels of patches taken from a band.

It computes the forward, the gradient of the input (once per stride phase, over the output's gradient) and transposed
convolutions. Stands on halo.py and products.micro; conv.py plans its phases.
"""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.codegen.builder import Value, module
from flambeau.codegen.convolution.halo import GEOMETRY, BandCopy, Box, box_of, end_unless_idle, fill_functions, runs_of
from flambeau.codegen.cpu import register_rows, vector_bytes
from flambeau.codegen.element_type import Kind, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, transpose_pieces, vector
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.products.epilogue import Epilogue, epilogue

PANEL_BYTES = 36 << 10  # of patches: a panel then stays in the first-level cache
TILE_VECTORS = 5376  # of register tiles that a task may hold unfinished between blocks of channels
BOX_PIXELS = 1024
AHEAD = 8  # channels whose weights are asked for while others are packed: they may lie pages apart

FORWARD = (
    *GEOMETRY, "rows", "height", "panels", "tile_panels", "count_m", "c_slot", "c_place", "c_n", "c_o", "c_z", "c_y",
    "c_x", "d_slot", "w_slot", "weights", "alpha", "beta", "micro", "edge", "edge_columns", "flag", "heights", "height_taps",
)  # fmt: skip
HEIGHTS_AT = len(FORWARD)  # then the offsets of the rows of taps along y, then those of the taps in the band


def channel_tile(rows: int) -> tuple[int, int]:
    """Rows and vectors of the register tile for so many output channels, whose number mostly divides by 8."""
    if vector_bytes() < 64:
        most, vectors = register_rows(), 2
    else:
        most, vectors = (4, 6) if rows <= 4 else (8, 3)
    return -(-rows // -(-rows // most)), vectors


def patches_function(kind: Kind, vectors: int, by_channel: bool) -> Kernel:
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
    compute, whole, width = kind.compute, kind.accumulator, vectors * kind.lanes
    align = BYTES[compute]

    def steps(body) -> None:
        outer, inner = ("channels", "taps") if by_channel else ("taps", "channels")
        with f.loop(0, f[outer]) as i, f.loop(0, f[inner]) as j:
            tap, channel = (j, i) if by_channel else (i, j)
            plane = f.at(compute, f["band"], f.load("i64", f["tap_table"], tap))
            body(f.at(compute, plane, channel * f["band_channel"]), f.at(compute, f["panel"], (i * f[inner] + j) * width))

    # a run is copied as one full vector: what it writes too much is overwritten by the next run or the next step
    with f.branches(f["runs"].equals(vectors)) as otherwise:
        places = [(f.load("i64", f["run_table"], r * 4), f.load("i64", f["run_table"], r * 4 + 2)) for r in range(vectors)]

        def as_many(source: Value, target: Value) -> None:
            for lane, offset in places:
                f.store(f.load(whole, source, offset, align=align), target, lane, align=align)

        steps(as_many)
        otherwise()

        def any_number(source: Value, target: Value) -> None:
            with f.loop(0, f["runs"]) as r:
                lane, offset = f.load("i64", f["run_table"], r * 4), f.load("i64", f["run_table"], r * 4 + 2)
                f.store(f.load(whole, source, offset, align=align), target, lane, align=align)

        steps(any_number)
    return f


def _rows_hit(f: Kernel, c: Constants, box: Box, first: Value, count: Value, heights: Value) -> tuple[Value, Value]:
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


@dataclass
class Unit:
    """A unit of work: a block of output channels (rows of the product) times a box of output pixels, in one group."""

    box: Box
    pixels: Value
    first_row: Value
    end_row: Value
    source: Value
    weights: Value
    target: Value
    bias: Value


@dataclass
class ChannelBlock:
    """The input channels [first, first + count) that are added in one pass; `fresh` is 1 in the first pass."""

    first: Value
    count: Value
    fresh: Value
    last: Value


@dataclass
class Panel:
    """The patches of `columns` pixels of the box from `start` on, in `runs` runs: `depth` steps, of the taps from `low` on.

    together: the pixels lie next to each other in the output, from `goal` on, so that tiles are computed where they belong.
    """

    start: Value
    columns: Value
    runs: Value
    low: Value
    depth: Value
    together: Value
    goal: Value


class Gather:
    """The compute kernel: its range is groups x blocks of output channels x boxes of output pixels.

    in_place: slot "w_slot" has the weights, whose rows are ordered by channel, then tap; else it has packed ones at "weights".
    """

    def __init__(self, kind: Kind, finish: Epilogue, row_order: str, vectors: int, in_place: bool) -> None:
        self.kind, self.row_order, self.in_place = kind, row_order, in_place
        self.width = vectors * kind.lanes
        self.plain = finish.plain and kind.storage == kind.compute
        f = self.f = Kernel()
        c = self.c = f.constants(FORWARD)
        self.heights = f.at("i64", f.load("ptr", f["p"]), HEIGHTS_AT)
        self.taps = f.at("i64", self.heights, c["heights"])
        self.tiles = f.stack(kind.compute, TILE_VECTORS * kind.lanes, align=64)
        self.runs = f.stack("i64", 4 * self.width)
        self.band = f.scratch(c["work"] + f["thread"] * c["slice"])
        band_bytes = (c["band_image"] * c["tile_n"] + 2 * self.width) * BYTES[kind.compute]
        self.panel = f.at("i8", self.band, f.ceiling_division(band_bytes, 64) * 64)
        boxes = c["count_n"] * c["count_z"] * c["count_y"] * c["count_x"]
        self.blocks = f.maximum(f.ceiling_division(c["channels"], c["block"]), 1)
        self.depth = c["channels"] * c["taps"]
        with f.loop(f["begin"], end_unless_idle(f, c)) as index:
            self.add_channels(self.unit(index, boxes))

    def unit(self, index: Value, boxes: Value) -> Unit:
        f, c, kind = self.f, self.c, self.kind
        box = box_of(f, c, index.unsigned_rem(boxes))
        rest = index.unsigned_div(boxes)
        tile_m, group = rest.unsigned_rem(c["count_m"]), rest.unsigned_div(c["count_m"])
        first_row = tile_m * c["tile_panels"] * c["height"]
        end_row = f.minimum(first_row + c["tile_panels"] * c["height"], c["rows"])
        source = f.at(kind.storage, f.slot(c["in_slot"]), group * c["channels"] * c["in_c"])
        if self.in_place:
            weights = f.at(kind.compute, f.slot(c["w_slot"]), group * c["rows"] * self.depth)
        else:
            packed = f.at("i8", f.slot(c["w_slot"]), c["weights"])
            weights = f.at(kind.compute, packed, group * c["panels"] * c["height"] * self.depth)
        target = f.at(kind.storage, f.slot(c["c_slot"]), group * c["rows"] * c["c_o"] + c["c_place"])
        bias = f.at(kind.storage, f.slot(c["d_slot"]), group * c["rows"])
        return Unit(box, box.pixels(), first_row, end_row, source, weights, target, bias)

    def add_channels(self, unit: Unit) -> None:
        """Block after block of channels: fill the band, then all tiles take what it adds to them."""
        f, c = self.f, self.c
        with f.loop(0, self.blocks) as number:
            first = number * c["block"]
            count = f.minimum(c["block"], c["channels"] - first)
            fresh = f.convert(number.equals(0), "i64", "zext")
            block = ChannelBlock(first, count, fresh, (number + 1).equals(self.blocks))
            with f.when(count * c["taps"] > 0):
                BandCopy(f, c, self.kind, self.row_order, unit.box).copy(unit.source, first, count, self.band)
            with f.loop(0, unit.pixels, self.width) as start:
                panel = self.gather_panel(unit, block, start)
                with f.loop(unit.first_row, unit.end_row, c["height"]) as row:
                    self.multiply(unit, block, panel, row)

    def gather_panel(self, unit: Unit, block: ChannelBlock, start: Value) -> Panel:
        f, c = self.f, self.c
        columns = f.minimum(unit.pixels - start, self.width)
        number = runs_of(f, c, unit.box, start, columns, self.kind.lanes, self.runs, images_inside=True)
        if self.in_place:
            low, high = f.i64(0), c["taps"]
        else:
            low, high = _rows_hit(f, c, unit.box, start, columns, self.heights)
        depth = (high - low) * block.count
        f.call(
            "void",
            "patches",
            self.band,
            block.count,
            c["band_channel"],
            high - low,
            f.at("i64", self.taps, low),
            number,
            self.runs,
            self.panel,
            declare=False,
        )
        together = f.variable("i1", 0)
        goal = f.load("i64", self.runs, 3)
        if self.plain:
            # run by run: rows of several images, or of permuted dimensions, may end where one run of pixels would
            together.set(columns.equals(self.width))
            with f.loop(1, number) as r:
                together.set(together.get() & f.load("i64", self.runs, r * 4 + 3).equals(goal + f.load("i64", self.runs, r * 4)))
        return Panel(start, columns, number, low, depth, together.get(), goal)

    def multiply(self, unit: Unit, block: ChannelBlock, panel: Panel, row: Value) -> None:
        """One register tile of rows from `row` on: add the product, and in the last pass store what the epilogue makes of it."""
        f, c, kind = self.f, self.c, self.kind
        height, rows = c["height"], f.minimum(unit.end_row - row, c["height"])
        if self.in_place:
            start = row * self.depth + block.first * c["taps"]
        else:
            panel_start = (row.unsigned_div(height) * c["taps"] + panel.low) * block.count
            start = (block.first * c["taps"] * c["panels"] + panel_start) * height
        weights = f.at(kind.compute, unit.weights, start)
        row_of_tiles = (row - unit.first_row).unsigned_div(height)
        place = row_of_tiles * f.ceiling_division(unit.pixels, self.width) + panel.start.unsigned_div(f.i64(self.width))
        tile = f.at(kind.compute, self.tiles, f.select(self.blocks.equals(1), f.i64(0), place) * height * self.width)
        stride, together = f.i64(self.width), panel.together & rows.equals(height)
        base = f.at(kind.storage, unit.target, row * c["c_o"])
        if self.plain:
            tile = f.select(together, f.at(kind.compute, base, panel.goal), tile)
            stride = f.select(together, c["c_o"], stride)
        one, zero = f.i64(1), f.i64(0)
        micro = f.select(panel.columns <= c["edge_columns"], c["edge"], c["micro"])
        f.call_pointer(
            "void",
            f.pointer(micro),
            panel.depth,
            weights,
            self.panel,
            tile,
            stride,
            block.fresh,
            self.depth,
            one,
            zero,
            panel.columns,
            *([rows] if self.in_place else []),
        )
        with f.when(f.select(together, f.value(0, "i1"), block.last)), f.loop(0, panel.runs) as r:
            lane, length, goal = (f.load("i64", self.runs, r * 4 + word) for word in (0, 1, 3))
            f.call(
                "void",
                "finish",
                f.at(kind.compute, tile, lane),
                rows,
                length,
                f.at(kind.storage, base, goal),
                c["c_o"],
                c["c_x"],
                f.at(kind.storage, unit.bias, row),
                one,
                zero,
                c["alpha"],
                c["beta"],
                declare=False,
            )


@compiled(BRIEF)
def forward_kernel(kind: Kind, finish: Epilogue, row_order: str, vectors: int, in_place: bool) -> str:
    """The text of the compute kernel and its helpers."""
    gather = Gather(kind, finish, row_order, vectors, in_place)
    helpers = [
        epilogue(kind, kind, finish, gather.width),
        patches_function(kind, vectors, in_place),
        *fill_functions(kind, row_order),
    ]
    return module(*helpers, gather.f)


WEIGHTS = (
    "slot", "place", "group_stride", "row_stride", "channel_stride", "rows", "panels", "channels", "taps", "area", "block",
    "before_panel", "before_block", "into", "destination", "flag",
)  # fmt: skip
WEIGHT_TAPS_AT = len(WEIGHTS)


class WeightPacking:
    """Packs weights of a panel of `height` rows, as the constants WEIGHTS describe them.

    A vector of taps of each row is loaded, and a few rows at a time are transposed; past the last row it is packed again. The
    constants end with the place of each of the kernel's taps among the chosen ones, or -1.
    """

    def __init__(self, f: Kernel, c: Constants, kind: Kind, height: int, taps_at: int) -> None:
        self.f, self.c, self.kind, self.height = f, c, kind, height
        self.places = f.at("i64", f.load("ptr", f["p"]), taps_at)
        self.few = 16 // BYTES[kind.compute]
        self.tile = f.stack(kind.compute, -(-height // self.few) * self.few * kind.lanes, align=64)

    def pack(self, first_place: Value, row: Value, count: Value, target: Value) -> None:
        """`count` channels, whose first row's first weight lies at `first_place`: steps are ordered by tap, then channel."""
        f, c, kind, height, few, tile = self.f, self.c, self.kind, self.height, self.few, self.tile
        lanes, size, align = kind.lanes, BYTES[kind.compute], BYTES[kind.storage]
        source = f.at(kind.storage, f.slot(c["slot"]), first_place)
        rows = [f.at(kind.storage, source, f.minimum(c["rows"] - 1 - row, i) * c["row_stride"]) for i in range(height)]
        with f.loop(0, c["area"], lanes) as raw:
            left = f.minimum(c["area"] - raw, lanes)
            mask = f.mask(left, lanes)
            with f.branches(left.equals(1)) as otherwise:  # as the last of nine
                place = f.load("i64", self.places, raw)
                with f.when(place >= 0), f.loop(0, count) as channel:
                    goal = f.at(kind.compute, target, (place * count + channel) * height)
                    for i, row in enumerate(rows):
                        value = f.load(kind.storage, row, channel * c["channel_stride"] + raw)
                        f.store(widen(f, kind, value), goal, i)
                otherwise()
                with f.loop(0, count) as channel:
                    offset = channel * c["channel_stride"] + raw
                    for row in rows:
                        f.fetch(f.at(kind.storage, row, offset + c["channel_stride"] * AHEAD))
                    taken = [
                        widen(f, kind, f.masked_load(vector(kind.storage, lanes), f.at(kind.storage, row, offset), mask, align))
                        for row in [*rows, *rows[-1:] * (-height % few)]
                    ]
                    for start in range(0, height, few):
                        for i, value in enumerate(transpose_pieces(f, taken[start : start + few])):
                            f.store(value, tile, (start + i) * lanes, align=vector_bytes())
                    with f.loop(0, left) as tap:
                        place = f.load("i64", self.places, raw + tap)
                        with f.when(place >= 0):
                            goal = f.at(kind.compute, target, (place * count + channel) * height)
                            within = tap & (few - 1)
                            step = f.at(kind.compute, tile, within * lanes + (tap - within))
                            for start in range(0, height, few):
                                piece = vector(kind.compute, min(few, height - start))
                                f.store(f.load(piece, step, start * lanes, align=size), goal, start, align=size)


@compiled(BRIEF)
def weights_kernel(kind: Kind, height: int) -> str:
    """Pack weights into panels of `height` rows; the range is groups x panels x blocks of channels.

    before_panel, before_block: units before the next panel, and the next block.
    """
    f = Kernel()
    c = f.constants(WEIGHTS)
    packing = WeightPacking(f, c, kind, height, WEIGHT_TAPS_AT)
    blocks = f.ceiling_division(c["channels"], c["block"])
    with f.loop(f["begin"], end_unless_idle(f, c)) as index:
        block, panel = index.unsigned_div(c["before_block"]), index.unsigned_div(c["before_panel"])
        block, panel = block.unsigned_rem(blocks), panel.unsigned_rem(c["panels"])
        group = index.unsigned_div(blocks * c["panels"])
        row, first = panel * height, block * c["block"]
        count = f.minimum(c["block"], c["channels"] - first)
        place = c["place"] + group * c["group_stride"] + row * c["row_stride"] + first * c["channel_stride"]
        begin = (group * c["panels"] * c["channels"] + first * c["panels"] + panel * count) * c["taps"] * height
        packing.pack(place, row, count, f.at(kind.compute, f.at("i8", f.slot(c["into"]), c["destination"]), begin))
    return module(f)
