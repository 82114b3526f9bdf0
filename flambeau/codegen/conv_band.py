"""What the convolution kernels share: boxes of output pixels and the padded bands of input under them.

A band holds some channels of the input under a box, with zeros for the padding and the columns of each stride phase side by
side, so that every tap reads consecutive elements for consecutive pixels. All convolutions are three-dimensional here, with
leading extents of 1 where they are not. Stands on gemm_micro.py; conv_gather.py, conv_weight.py and conv_depthwise.py use it.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from flambeau.codegen.builder import Value
from flambeau.codegen.gemm_micro import BYTES, Kernel, Kind, vector, widen

Triple = tuple[int, int, int]
BAND_BYTES = 256 << 10

GEOMETRY = (
    "size_z",
    "size_y",
    "size_x",
    "stride_z",
    "stride_y",
    "stride_x",
    "pad_z",
    "pad_y",
    "pad_x",
    "out_z",
    "out_y",
    "out_x",
    "images",
    "channels",
    "groups",
    "taps",
    "tile_n",
    "tile_z",
    "tile_y",
    "tile_x",
    "count_n",
    "count_z",
    "count_y",
    "count_x",
    "band_z",
    "band_y",
    "band_phase",
    "band_row",
    "band_plane",
    "band_channel",
    "band_image",
    "block",
    "in_slot",
    "in_n",
    "in_c",
    "in_z",
    "in_y",
    "in_x",
    "work",
    "slice",
)


class Tensor5(NamedTuple):
    """A buffer slot and element strides along (image, channel, z, y, x)."""

    slot: int
    strides: tuple[int, int, int, int, int]


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


def box_of(f: Kernel, c: dict[str, Value], index: Value) -> Box:
    tile_x, rest = index.unsigned_rem(c["count_x"]), index.unsigned_div(c["count_x"])
    tile_y, rest = rest.unsigned_rem(c["count_y"]), rest.unsigned_div(c["count_y"])
    tile_z, tile_n = rest.unsigned_rem(c["count_z"]), rest.unsigned_div(c["count_z"])
    n, z, y, x = tile_n * c["tile_n"], tile_z * c["tile_z"], tile_y * c["tile_y"], tile_x * c["tile_x"]
    return Box(
        n,
        z,
        y,
        x,
        f.minimum(c["tile_n"], c["images"] - n),
        f.minimum(c["tile_z"], c["out_z"] - z),
        f.minimum(c["tile_y"], c["out_y"] - y),
        f.minimum(c["tile_x"], c["out_x"] - x),
    )


def row_order(source: Tensor5, size: Triple, stride: Triple) -> str:
    """How rows of the input are copied: "copy", "halves" (contiguous, stride 2) or "elements"."""
    contiguous = source.strides[4] == 1 or size[2] == 1
    return "copy" if contiguous and stride[2] == 1 else "halves" if contiguous and stride[2] == 2 else "elements"


def fill_function(kind: Kind, order: str) -> Kernel:
    """void fill(source, target, offset, size, stride, in_x, phase): one padded row, its columns sorted by stride phase.

    Element x of phase h is source[offset + x * stride + h] where that lies in [0, size), and zero elsewhere.
    """
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
    f.attributes = "alwaysinline nounwind"  # a row can be a single vector
    lanes, storage = kind.lanes, kind.storage
    steps = "<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">"

    size, offset, phase, target = f["size"], f["offset"], f["phase"], f["target"]
    align = BYTES[kind.compute]

    def read(start: Value) -> Value:
        """Vector of source[start:], zero outside the row."""
        position = f.emit(vector("i64", lanes), f"add {vector('i64', lanes)} {f.splat(start, lanes).name}, {steps}")
        inside = position.unsigned_below(f.splat(size, lanes))
        return widen(
            f, kind, f.masked_load(vector(storage, lanes), f.at(storage, f["source"], start), inside, BYTES[storage])
        )

    def zeros(begin: Value, end: Value) -> None:
        with f.loop(begin, end, lanes) as x:
            f.store(f.value(0, kind.accumulator), target, x, align=align)

    def copy() -> None:
        # whole vectors from left to right: what one writes too much is overwritten by the next or by the next row
        low = f.minimum(f.maximum(f.i64(0) - offset, 0), phase)
        high = f.maximum(f.minimum(size - offset, phase), low)
        with f.branches(phase <= lanes) as otherwise:
            # the whole row in one vector
            inside = f.mask(high, lanes)
            inside = f.emit(inside.type, f"and {inside.type} {inside.name}, {(f.mask(low, lanes) ^ 1).name}")
            row = f.masked_load(vector(storage, lanes), f.at(storage, f["source"], offset), inside, BYTES[storage])
            f.store(widen(f, kind, row), target, align=align)
            otherwise()
            pieces(low, high)

    def pieces(low: Value, high: Value) -> None:
        zeros(f.i64(0), low)
        whole = low + (high - low).unsigned_div(f.i64(lanes)) * lanes
        with f.loop(low, whole, lanes) as x:
            f.store(
                widen(f, kind, f.load(vector(storage, lanes), f["source"], offset + x, align=BYTES[storage])),
                target,
                x,
                align=align,
            )
        with f.when(whole < high):
            tail = f.masked_load(
                vector(storage, lanes),
                f.at(storage, f["source"], offset + whole),
                f.mask(high - whole, lanes),
                BYTES[storage],
            )
            f.store(widen(f, kind, tail), target, whole, align=align)
        zeros(high, phase)

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

    if order == "copy":
        copy()
    elif order == "halves":
        with f.loop(0, phase, lanes) as x:
            start = offset + x * 2
            low, high = read(start), read(start + lanes)
            for h in range(2):
                # each phase is written to its own place, so neither may run over into the other
                chosen = f.shuffle(low, high, range(h, 2 * lanes, 2))
                f.masked_store(chosen, f.at(kind.compute, target, x + phase * h), f.mask(phase - x, lanes))
    else:
        scalars()
    return f


def copy_band(
    f: Kernel, c: dict[str, Value], kind: Kind, box: Box, source: Value, first: Value, count: Value, band: Value
) -> None:
    """Fill `band` with channels [first, first + count) under the box; the padding becomes zeros."""
    with (
        f.loop(0, box.count_n) as n,
        f.loop(0, count) as channel,
        f.loop(0, c["band_z"]) as z,
        f.loop(0, c["band_y"]) as y,
    ):
        target = f.at(
            kind.compute,
            band,
            n * c["band_image"] + channel * c["band_channel"] + z * c["band_plane"] + y * c["band_row"],
        )
        at_z = box.z * c["stride_z"] - c["pad_z"] + z
        at_y = box.y * c["stride_y"] - c["pad_y"] + y
        inside = at_z.unsigned_below(c["size_z"]) & at_y.unsigned_below(c["size_y"])
        offset = (box.n + n) * c["in_n"] + (first + channel) * c["in_c"] + at_z * c["in_z"] + at_y * c["in_y"]
        row = f.at(kind.storage, source, f.select(inside, offset, 0))
        f.call(
            "void",
            "fill",
            row,
            target,
            box.x * c["stride_x"] - c["pad_x"],
            f.select(inside, c["size_x"], 0),
            c["stride_x"],
            c["in_x"],
            c["band_phase"],
            declare=False,
        )


def runs_of(
    f: Kernel,
    c: dict[str, Value],
    box: Box,
    first: Value,
    count: Value,
    longest: int,
    table: Value,
    images_inside: bool = False,
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
            words.append(
                (box.n + n) * c["c_n"] + (box.z + z) * c["c_z"] + (box.y + y) * c["c_y"] + (box.x + x) * c["c_x"]
            )
        for i, word in enumerate(words):
            f.store(word, table, number.get() * 4 + i)
        number.add(1)
        lane.add(length)
    return number.get()


class Geometry(NamedTuple):
    """A convolution cut into boxes.

    Kernel constants, offsets of the taps in the band, boxes, images per box, elements of a band, channels per block.
    """

    constants: tuple[int, ...]
    taps: tuple[int, ...]
    boxes: int
    images: int
    band: int
    block: int


Reach = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def geometry(
    kind: Kind,
    images: int,
    channels: int,
    groups: int,
    size: Triple,
    reach: Reach,
    stride: Triple,
    pad: Triple,
    out: Triple,
    box_pixels: int,
    wanted: int,
    source: Tensor5,
    block_steps: int,
    align: int = 1,
) -> Geometry:
    """Choose boxes (whole rows, then planes, then images: pixels of a box are consecutive) and lay out the band.

    reach: the offsets of the taps along each axis, from 0. align: a number of images per box that fits panels.
    """
    taps = len(reach[0]) * len(reach[1]) * len(reach[2])
    blocks = -(-channels // max(1, block_steps // max(1, taps)))
    block = max(1, -(-channels // max(1, blocks)))
    room = max(64, BAND_BYTES // (BYTES[kind.compute] * block))
    beyond = tuple(max(offsets, default=0) for offsets in reach)

    def extent(axis: int, count: int) -> int:
        return (count - 1) * stride[axis] + beyond[axis] + 1

    limit = max(1, min(box_pixels, -(-images * out[0] * out[1] * out[2] // max(1, wanted))))
    tiles = [1, 1, 1, 1]  # n z y x, filled from the innermost
    for axis in (3, 2, 1, 0):
        full = images if axis == 0 else out[axis - 1]
        others = 1
        for other in range(1, 4):
            others *= 1 if other == axis else extent(other - 1, tiles[other])
        most = room // others if axis == 0 else (room // others - beyond[axis - 1] - 1) // stride[axis - 1] + 1
        most = max(1, min(most, limit // (tiles[0] * tiles[1] * tiles[2] * tiles[3]), full))
        tiles[axis] = -(-full // -(-full // most))
        if axis == 0 and most >= align:
            tiles[0] = (
                min(full, -(-tiles[0] // align) * align)
                if -(-tiles[0] // align) * align <= most
                else most // align * align
            )
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
    return Geometry(
        constants, offsets, counts[0] * counts[1] * counts[2] * counts[3], tiles[0], image * tiles[0], block
    )
