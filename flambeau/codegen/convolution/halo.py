"""What the convolution kernels share: boxes of output pixels and the padded bands of input under them.

A band holds some channels of the input under a box, with zeros for the padding and the columns of each stride phase side by
side, so that every tap reads consecutive elements for consecutive pixels. All convolutions are three-dimensional here, with
leading extents of 1 where they are not. Stands on kernel.py and element_type.py; gather.py, weight.py and depthwise.py use it.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import NamedTuple

from flambeau.codegen.builder import Value
from flambeau.codegen.element_type import Kind, widen
from flambeau.codegen.kernel import BYTES, Constants, Kernel, transpose_rows, vector
from flambeau.codegen.runtime.threads import planned_threads

Triple = tuple[int, int, int]
BAND_BYTES = 256 << 10

GEOMETRY = (
    "size_z", "size_y", "size_x", "stride_z", "stride_y", "stride_x", "pad_z", "pad_y", "pad_x", "out_z", "out_y",
    "out_x", "images", "channels", "groups", "taps", "tile_n", "tile_z", "tile_y", "tile_x", "count_n", "count_z",
    "count_y", "count_x", "band_z", "band_y", "band_phase", "band_row", "band_plane", "band_channel", "band_image",
    "block", "in_slot", "in_n", "in_c", "in_z", "in_y", "in_x", "work", "slice",
)  # fmt: skip


class Tensor5(NamedTuple):
    """A buffer slot and element strides along (image, channel, z, y, x)."""

    slot: int
    strides: tuple[int, int, int, int, int]


Reach = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class Window(NamedTuple):
    """What the pixels of a result see of its source: images, extents of the source, offsets of the taps along each axis (from 0),
    stride and padding, extents of the result, and where the source lies.
    """

    images: int
    size: Triple
    reach: Reach
    stride: Triple
    pad: Triple
    out: Triple
    source: Tensor5


class Box(NamedTuple):
    """A task's part of the output: first image, z, y, x and how many of each; pixels in row-major order."""

    n: Value
    z: Value
    y: Value
    x: Value
    count_n: Value
    count_z: Value
    count_y: Value
    count_x: Value

    def pixels(self) -> Value:
        return self.count_n * self.count_z * self.count_y * self.count_x


def grain(total: int, tasks: int) -> int:
    """Units of work to a piece, so that every thread gets `tasks` pieces."""
    return max(1, total // (tasks * planned_threads()))


def box_of(f: Kernel, c: Constants, index: Value) -> Box:
    tile_x, rest = index.unsigned_rem(c["count_x"]), index.unsigned_div(c["count_x"])
    tile_y, rest = rest.unsigned_rem(c["count_y"]), rest.unsigned_div(c["count_y"])
    tile_z, tile_n = rest.unsigned_rem(c["count_z"]), rest.unsigned_div(c["count_z"])
    n, z, y, x = tile_n * c["tile_n"], tile_z * c["tile_z"], tile_y * c["tile_y"], tile_x * c["tile_x"]
    counts = (
        f.minimum(c[f"tile_{axis}"], c[whole] - first)
        for axis, whole, first in (("n", "images", n), ("z", "out_z", z), ("y", "out_y", y), ("x", "out_x", x))
    )
    return Box(n, z, y, x, *counts)


def end_unless_idle(f: Kernel, c: Constants) -> Value:
    """Where a kernel's range ends that stands behind another form of the same convolution: if there is a flag in the scratch
    memory ("flag" is its offset, never 0), there is nothing to do unless it is up.
    """
    flag = f.load("i64", f.select(c["flag"].equals(0), f.load("ptr", f["p"]), f.scratch(c["flag"])))
    return f.select(c["flag"].differs(0) & flag.equals(0), f["begin"], f["end"])


def image_row(c: Constants, index: Value, extents: str = "out") -> tuple[Value, Value, Value]:
    """Image, z and y of a row of pixels, of images with these extents."""
    planes, rows = c[f"{extents}_z"], c[f"{extents}_y"]
    rest = index.unsigned_div(rows)
    return rest.unsigned_div(planes), rest.unsigned_rem(planes), index.unsigned_rem(rows)


def row_order(window: Window, many: bool = True) -> str:
    """How rows of the source are copied: "copy", "halves" (contiguous, stride 2), "evens" (every second one of contiguous
    elements), "channels" or "elements".

    Channels that lie side by side are copied together, if there are many in a band.
    """
    contiguous, step = window.source.strides[4] == 1 or window.size[2] == 1, window.stride[2]
    if contiguous and step <= 2:
        return "copy" if step == 1 else "halves"
    if window.source.strides[4] == 2 and step == 1:
        return "evens"
    return "channels" if many and window.source.strides[1] == 1 else "elements"


def inside_row(f: Kernel, kind: Kind, row: Value, start: Value, size: Value) -> Value:
    """The vector row[start:], with zeros for what lies outside [0, size)."""
    type = vector("i32", kind.lanes)
    steps = "<" + ", ".join(f"i32 {i}" for i in range(kind.lanes)) + ">"
    first, end = (f.splat(f.convert(value, "i32", "trunc"), kind.lanes) for value in (start, size))
    inside = f.emit(type, f"add {type} {first.name}, {steps}").unsigned_below(end)
    place = f.at(kind.storage, row, start)
    return widen(f, kind, f.masked_load(vector(kind.storage, kind.lanes), place, inside, BYTES[kind.storage]))


def fill_functions(kind: Kind, order: str) -> list[Kernel]:
    """What a BandCopy calls, if anything: void fill(source, target, offset, size, stride, in_x, phase).

    It copies one padded row and sorts its columns by stride phase.

    Element x of phase h is source[offset + x * stride + h] where that lies in [0, size), and zero elsewhere.
    """
    if order == "copy":
        return []
    if order == "channels":
        return [_fill_channels(kind)]
    f = Kernel(
        "fill",
        [
            ("source", "ptr"),
            ("target", "ptr"),
            ("offset", "i64"),
            ("size", "i64"),
            ("stride", "i64"),
            ("in_x", "i64"),
            ("phase", "i64"),
        ],
        internal=True,
    )
    lanes, storage = kind.lanes, kind.storage
    size, offset, phase, target = f["size"], f["offset"], f["phase"], f["target"]

    def scalars() -> None:
        inside_all = (offset >= 0) & (offset + phase * f["stride"] <= size)
        with f.branches(inside_all) as otherwise:
            with f.loop(0, phase) as x:
                place = f.at(storage, f["source"], (offset + x * f["stride"]) * f["in_x"])
                with f.loop(0, f["stride"]) as h:
                    f.store(widen(f, kind, f.load(storage, f.at(storage, place, h * f["in_x"]))), target, h * phase + x)
            otherwise()
            with f.loop(0, f["stride"]) as h, f.loop(0, phase) as x:
                position = offset + x * f["stride"] + h
                inside = position.unsigned_below(size)
                safe = f.select(inside, position, 0)
                value = widen(f, kind, f.load(storage, f.at(storage, f["source"], safe * f["in_x"])))
                f.store(f.select(inside, value, 0), target, h * phase + x)

    if order == "halves":
        with f.loop(0, phase, lanes) as x:
            start = offset + x * 2
            low, high = (inside_row(f, kind, f["source"], start + at, size) for at in (0, lanes))
            chosen = [f.shuffle(low, high, range(h, 2 * lanes, 2)) for h in range(2)]
            goals = [f.at(kind.compute, target, x + phase * h) for h in range(2)]
            with f.branches(x + lanes <= phase) as otherwise:
                for value, goal in zip(chosen, goals, strict=True):
                    f.store(value, goal, align=BYTES[kind.compute])
                otherwise()
                # each phase is written to its own place, so neither may run over into the other
                for value, goal in zip(chosen, goals, strict=True):
                    f.masked_store(value, goal, f.mask(phase - x, lanes))
    elif order == "evens":
        with f.loop(0, phase, lanes) as x:
            start, end = (offset + x) * 2, f.maximum(size * 2 - 1, 0)
            low, high = (inside_row(f, kind, f["source"], start + at, end) for at in (0, lanes))
            # whole vectors from left to right, as where rows are copied
            f.store(f.shuffle(low, high, range(0, 2 * lanes, 2)), f.at(kind.compute, target, x), align=BYTES[kind.compute])
    else:
        scalars()
    return [f]


def _fill_channels(kind: Kind) -> Kernel:
    """void fill(source, target, offset, size, stride, in_x, phase, channels, band_channel): as above, for a row of all channels.

    A few channels of a vector of pixels are loaded at a time, and transposed.
    """
    words = ("offset", "size", "stride", "in_x", "phase", "channels", "band_channel")
    f = Kernel("fill", [("source", "ptr"), ("target", "ptr"), *((word, "i64") for word in words)], internal=True)
    lanes, storage, compute = kind.lanes, kind.storage, kind.compute
    few, align = 16 // BYTES[compute], BYTES[storage]
    phase = f["phase"]
    places, insides = f.stack("ptr", lanes), f.stack("i1", lanes)
    with f.loop(0, f["stride"]) as h, f.loop(0, phase, lanes) as x:
        with f.loop(0, lanes) as i:
            position = f["offset"] + (x + i) * f["stride"] + h
            inside = position.unsigned_below(f["size"])
            f.store(f.at(storage, f["source"], f.select(inside, position, 0) * f["in_x"]), places, i)
            f.store(inside, f.at("i1", insides, i))
        with f.loop(0, f["channels"], few) as channel:
            there = f.mask(f["channels"] - channel, few)

            def piece(pixel: int, channel: Value = channel, there: Value = there) -> Value:
                place = f.at(storage, f.load("ptr", places, pixel), channel)
                loaded = widen(f, kind, f.masked_load(vector(storage, few), place, there, align))
                return f.select(f.load("i1", f.at("i1", insides, pixel)), loaded, 0)

            row = f.at(compute, f["target"], channel * f["band_channel"] + h * phase + x)
            for number, value in enumerate(transpose_rows(f, compute, lanes, piece)):
                goal = f.at(compute, row, f["band_channel"] * number)
                with f.when(channel + number < f["channels"]), f.branches(x + lanes <= phase) as otherwise:
                    f.store(value, goal, align=BYTES[compute])
                    otherwise()
                    f.masked_store(value, goal, f.mask(phase - x, lanes), BYTES[compute])
    return f


class BandCopy:
    """Fills bands under one box; what all its rows have in common is computed once, where the object is made."""

    def __init__(self, f: Kernel, c: Constants, kind: Kind, order: str, box: Box):
        self.f, self.c, self.kind, self.order, self.box = f, c, kind, order, box
        self.x = box.x * c["stride_x"] - c["pad_x"]
        self.y = box.y * c["stride_y"] - c["pad_y"]
        self.z = box.z * c["stride_z"] - c["pad_z"]

    def copy(self, source: Value, first: Value, count: Value, band: Value) -> None:
        """Fill `band` with channels [first, first + count); the padding becomes zeros."""
        f, c, kind, box = self.f, self.c, self.kind, self.box
        compute, storage = kind.compute, kind.storage
        each = self.order != "channels"
        with f.loop(0, box.count_n) as n, f.loop(0, count if each else 1) as channel:
            image = (box.n + n) * c["in_n"] + (first + channel) * c["in_c"]
            slab = f.at(compute, band, n * c["band_image"] + channel * c["band_channel"])
            with f.loop(0, c["band_z"]) as z:
                at_z = self.z + z
                inside_z = at_z.unsigned_below(c["size_z"])
                plane = f.select(inside_z, image + at_z * c["in_z"], 0)
                size_y = f.select(inside_z, c["size_y"], 0)
                goal = f.at(compute, slab, z * c["band_plane"])
                with f.loop(0, c["band_y"]) as y:
                    at_y = self.y + y
                    inside = at_y.unsigned_below(size_y)
                    row = f.at(storage, source, f.select(inside, plane + at_y * c["in_y"], 0))
                    target = f.at(compute, goal, y * c["band_row"])
                    size = f.select(inside, c["size_x"], 0)
                    if self.order == "copy":
                        self._row(row, target, size)
                    else:
                        arguments = [row, target, self.x, size, c["stride_x"], c["in_x"], c["band_phase"]]
                        f.call("void", "fill", *arguments, *([] if each else [count, c["band_channel"]]), declare=False)

    def _row(self, row: Value, target: Value, size: Value) -> None:
        f, c, kind = self.f, self.c, self.kind
        # whole vectors from left to right: what one writes too much is overwritten by the next or by the next row
        with f.loop(0, c["band_phase"], kind.lanes) as x:
            loaded = inside_row(f, kind, row, self.x + x, size)
            f.store(loaded, target, x, align=BYTES[kind.compute])


def runs_of(
    f: Kernel, c: Constants, box: Box, first: Value, count: Value, longest: int, table: Value, images_inside: bool = False
) -> Value:
    """Cut pixels [first, first + count) of a box into runs within an output row of at most `longest` pixels.

    Writes (place in the panel, length, band offset, output offset) per run into `table` and returns the number of runs; the
    output offset is left out where the kernel has no strides for it. images_inside: pixels are counted along x, then images, then
    y and z (rows of the same height together), instead of along x, y, z, then images.
    """
    number, lane = f.variable("i64", 0), f.variable("i64", 0)
    with f.repeat(lambda: lane.get() < count):
        pixel = first + lane.get()
        x, rest = pixel.unsigned_rem(box.count_x), pixel.unsigned_div(box.count_x)
        if images_inside:
            n, rest = rest.unsigned_rem(box.count_n), rest.unsigned_div(box.count_n)
            y, z = rest.unsigned_rem(box.count_y), rest.unsigned_div(box.count_y)
        else:
            y, rest = rest.unsigned_rem(box.count_y), rest.unsigned_div(box.count_y)
            z, n = rest.unsigned_rem(box.count_z), rest.unsigned_div(box.count_z)
        length = f.minimum(f.minimum(box.count_x - x, count - lane.get()), longest)
        words = [
            lane.get(),
            length,
            n * c["band_image"] + z * c["stride_z"] * c["band_plane"] + y * c["stride_y"] * c["band_row"] + x,
        ]
        if "c_n" in c:
            words.append((box.n + n) * c["c_n"] + (box.z + z) * c["c_z"] + (box.y + y) * c["c_y"] + (box.x + x) * c["c_x"])
        for i, word in enumerate(words):
            f.store(word, table, number.get() * 4 + i)
        number.add(1)
        lane.add(length)
    return number.get()


class Geometry(NamedTuple):
    """A convolution cut into boxes.

    Kernel constants, offsets of the taps in the band, boxes, images and pixels per box, elements of a band, channels per block.
    """

    constants: tuple[int, ...]
    taps: tuple[int, ...]
    boxes: int
    images: int
    pixels: int
    band: int
    block: int


def geometry(
    kind: Kind, window: Window, channels: int, groups: int, block_steps: int, box_pixels: int, wanted: int = 1, align: int = 1
) -> Geometry:
    """Choose boxes (whole rows, then planes, then images: pixels of a box are consecutive) and lay out the band.

    block_steps: (channel, tap) steps of a block of channels; box_pixels: most pixels of a box; wanted: number of boxes, if there
    are so many; align: a number of images per box that fits panels.
    """
    images, size, reach, stride, pad, out, source = window
    taps = len(reach[0]) * len(reach[1]) * len(reach[2])
    blocks = -(-channels // max(1, block_steps // max(1, taps)))
    block = max(1, -(-channels // max(1, blocks)))
    room = max(64, BAND_BYTES // (BYTES[kind.compute] * block))
    beyond = tuple(max(offsets, default=0) for offsets in reach)

    def extent(axis: int, count: int) -> int:
        return (count - 1) * stride[axis] + beyond[axis] + 1

    limit = max(1, min(box_pixels, -(-images * prod(out) // max(1, wanted))))
    tiles = [1, 1, 1, 1]  # n z y x, filled from the innermost
    for axis in (3, 2, 1, 0):
        full = max(1, images) if axis == 0 else out[axis - 1]
        others = prod(extent(other - 1, tiles[other]) for other in range(1, 4) if other != axis)
        most = room // others if axis == 0 else (room // others - beyond[axis - 1] - 1) // stride[axis - 1] + 1
        most = max(1, min(most, limit // prod(tiles), full))
        tiles[axis] = -(-full // -(-full // most))
        if axis == 0 and most >= align:
            aligned = -(-tiles[0] // align) * align
            tiles[0] = min(full, aligned) if aligned <= most else most // align * align
        if tiles[axis] < full:
            break
    counts = (-(-images // tiles[0]), *(-(-out[axis] // tiles[axis + 1]) for axis in range(3)))
    band_z, band_y = extent(0, tiles[1]), extent(1, tiles[2])
    phase = -(-extent(2, tiles[3]) // stride[2])
    row = phase * stride[2]
    plane, channel = row * band_y, row * band_y * band_z
    image = channel * block
    offsets = tuple(z * plane + y * row + x % stride[2] * phase + x // stride[2] for z, y, x in product(*reach))
    constants = (
        *size,
        *stride,
        *pad,
        *out,
        images,
        channels,
        groups,
        taps,
        *tiles,
        *counts,
        band_z,
        band_y,
        phase,
        row,
        plane,
        channel,
        image,
        block,
        source.slot,
        *source.strides,
    )
    return Geometry(constants, offsets, prod(counts), tiles[0], prod(tiles), image * tiles[0], block)
