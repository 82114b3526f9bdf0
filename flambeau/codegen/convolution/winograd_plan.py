"""Phases of Winograd's form of a convolution, and the rule by which it is chosen.

Stands on winograd.py and halo.py; conv.py puts what is planned here in front of the direct form's phase.
"""

from __future__ import annotations

from math import gcd, prod
from typing import NamedTuple

from flambeau.base.flags import flags
from flambeau.codegen.convolution.extents import LATE, PARTS, Beforehand, Convolution, Weights, rounded
from flambeau.codegen.convolution.halo import Geometry, Tensor5, Window, geometry, grain, row_order
from flambeau.codegen.convolution.weight import patch_table
from flambeau.codegen.convolution.winograd import (
    BLOCK,
    PLANES,
    RUN_WORDS,
    lower_kernel,
    plane_size,
    transform_kernel,
    winograd_kernel,
)
from flambeau.codegen.convolution.winograd_weight import taps_kernel, winograd_weight_kernel
from flambeau.codegen.cpu import register_rows, second_level_bytes
from flambeau.codegen.element_type import Kind
from flambeau.codegen.kernel import BYTES
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.epilogue import Epilogue
from flambeau.codegen.products.matrix import SCRATCH
from flambeau.codegen.products.micro import LONG_TURN, row_counts, steps_together, tile_addresses
from flambeau.codegen.runtime.threads import planned_threads

WEIGHT_TILES = 64  # to a box, of which the gradient of the weight is added up at once
WEIGHT_TASKS = 4  # of the gradient of the weight, for each thread
FLAG = 64  # its offset in the scratch memory of a convolution
BAND_CHANNELS = 8  # in a band: it stays in the first-level cache until its tiles are transformed
MOST_PANELS = 12  # of tiles to a box
PRODUCT_BYTES = 48 << 10  # of unfinished products, which stay in the caches until pixels are made of them
# what a vector of tiles costs, in steps of the processor, per channel, output channel, and channel of an output channel
GATHERED, FINISHED, MULTIPLIED = 48, 44, 8
STREAMED = 5  # what reading the weights of a channel of an output channel costs
PREPARED = 6  # and what transforming them costs, divided among the threads
WEIGHT_GATHERED = 64  # what a vector of tiles costs the gradient of the weight, per channel or output channel
ADDED, FOLDED = 16, 10  # what a slice costs it per channel of an output channel, and what going back to taps costs
DIRECT = 18  # what a vector of tiles costs the direct form per channel of an output channel
GAIN = 0.9  # of the direct form's estimated time, from which it isn't worth compiling more


class Boxes(NamedTuple):
    """Boxes of tiles, panels of output channels per task, and the time that all tasks take."""

    geometry: Geometry
    tile_panels: int
    time: float


def tile_window(window: Window) -> Window:
    """What tiles of two by two pixels of the result see."""
    four = (0, 1, 2, 3)
    out_z, *out = window.out
    tiles = (out_z, *(-(-n // 2) for n in out))
    return window._replace(reach=((0,), four, four), stride=(1, 2, 2), out=tiles)


def _tiles(window: Window) -> int:
    return window.images * prod(tile_window(window).out)


def boxes(kind: Kind, window: Window, channels: int, panels: int, tile: tuple[int, int]) -> Boxes:
    """The boxes and parts that take least time."""
    (height, vectors), threads = tile, planned_threads()
    width, best = vectors * kind.lanes, None
    most = MOST_PANELS * width
    room = max(width, second_level_bytes() // (2 * PLANES * channels * BYTES[kind.compute]) // width * width)
    align = width // gcd(width, window.out[2])
    for wanted in PARTS:
        g = geometry(kind, window, channels, 1, BAND_CHANNELS * PLANES, min(most, room), wanted, align)
        columns = -(-g.pixels // kind.lanes)
        for parts in [p for p in PARTS if p <= panels]:
            tile_panels = -(-panels // parts)
            rows, tasks = tile_panels * height, -(-panels // tile_panels) * g.boxes
            task = columns * (MULTIPLIED * rows * channels + GATHERED * channels + FINISHED * rows) + STREAMED * rows * channels
            time = task * (-(-tasks // threads) + LATE)
            if best is None or time < best.time:
                best = Boxes(g, tile_panels, time)
    assert best is not None
    return best


def applies(kind: Kind, window: Window, groups: int, taps: int) -> bool:
    """Whether it can compute such a convolution at all."""
    three = (0, 1, 2)
    return kind.floating and groups == 1 and taps == 9 and window.reach == ((0,), three, three) and window.stride == (1, 1, 1)


def pays(kind: Kind, window: Window, channels: int, rows: int, chosen: Boxes) -> bool:
    """Whether it takes less time than the direct form."""
    if flags.winograd in ("always", "never"):
        return flags.winograd == "always"
    pairs, threads = rows * channels, planned_threads()
    direct = DIRECT * -(-_tiles(window) // kind.lanes) * pairs / threads
    return chosen.time + PREPARED * pairs / threads < GAIN * direct


def winograd_phases(
    kind: Kind,
    window: Window,
    channels: int,
    rows: int,
    w: Weights,
    chosen: Boxes,
    tile: tuple[int, int],
    target: Tensor5,
    place: int,
    finish: Epilogue,
    bias_slot: int,
    beforehand: Beforehand | None,
) -> tuple[list[Phase], int]:
    """Phases, and the scratch memory that they need; what begins behind the flag is free again after them."""
    (height, vectors), size = tile, BYTES[kind.compute]
    width, panels, (g, tile_panels, _) = vectors * kind.lanes, -(-rows // height), chosen
    total = panels * -(-channels // BLOCK)
    before = FLAG + 64 if beforehand is None else beforehand.size
    seen, weights = before, before + rounded(8 * total)
    work = weights + rounded(panels * height * channels * PLANES * size)
    slot, into, w_slot = (w.slot, SCRATCH, SCRATCH) if beforehand is None else (1, 0, beforehand.slot)
    constants = (slot, w.strides[1], w.strides[2], rows, channels, w.area, into, weights, seen, *w.places)
    transform = Phase(transform_kernel(kind, height), total, grain(total, 8), constants)
    phases = [Phase(lower_kernel(), 1, 1, (FLAG,))]
    if beforehand is None:
        phases.append(transform)
    else:
        beforehand.phases.append(transform)
        beforehand.size, beforehand.uses, work = work, max(beforehand.uses, _tiles(window)), FLAG + 64
    plane, most_panels = plane_size(channels, width), -(-g.pixels // width)
    gather = max(1, min(tile_panels, PRODUCT_BYTES // (PLANES * height * width * size * most_panels)))
    share = rounded((g.band + 4 * kind.lanes) * size) + most_panels * (RUN_WORDS * width + 8) * 8
    share = rounded(share + (most_panels * plane + gather * most_panels * height * width) * PLANES * size)
    together = steps_together(rows * channels * PLANES * window.images * prod(window.out))
    micros = tile_addresses(kind, height, vectors, "packed", g.pixels if together == LONG_TURN else width, together)
    out_n, out_o, out_z, out_y, out_x = target.strides
    constants = (
        *g.constants, work, share, rows, height, panels, tile_panels, -(-panels // tile_panels), gather, target.slot, place,
        out_n, out_o, out_z, 2 * out_y, 2 * out_x, out_y, out_x, window.out[1], window.out[2], bias_slot, w_slot, weights, FLAG,
        seen, transform.total, plane, most_panels, *micros,
    )  # fmt: skip
    tiles = tile_window(window)
    total = -(-panels // tile_panels) * g.boxes
    main = Phase(winograd_kernel(kind, finish, row_order(tiles), vectors), total, grain(total, 16), constants)
    return [*phases, main], work + share * planned_threads()


class Slices(NamedTuple):
    """How the gradient of a weight is cut: boxes of tiles, channels to a task, blocks of them, and slices of the boxes."""

    geometry: Geometry
    piece: int
    blocks: int
    slices: int


def slices_of(kind: Kind, conv: Convolution, window: Window) -> Slices:
    """Tiles of some channels fill half of the second-level cache; slices are as few as keep the threads busy."""
    g = geometry(kind, tile_window(window), conv.channels, 1, BAND_CHANNELS * PLANES, WEIGHT_TILES)
    most = max(register_rows(), second_level_bytes() // (2 * PLANES * WEIGHT_TILES * BYTES[kind.compute]))
    piece = -(-conv.channels // -(-conv.channels // most))
    blocks = -(-conv.channels // piece)
    return Slices(g, piece, blocks, max(1, min(g.boxes, -(-WEIGHT_TASKS * planned_threads() // blocks))))


def weight_pays(kind: Kind, conv: Convolution, window: Window) -> bool:
    """Whether the gradient of the weight takes less time by tiles."""
    if not applies(kind, window, conv.groups, conv.taps):
        return False
    if flags.winograd in ("always", "never"):
        return flags.winograd == "always"
    _, _, blocks, slices = slices_of(kind, conv, window)
    vectors, pairs = _tiles(window) / kind.lanes, conv.channels * conv.outputs
    gathered = WEIGHT_GATHERED * (conv.channels + conv.outputs * blocks)
    time = vectors * (MULTIPLIED * pairs + gathered) + pairs * (ADDED * slices + FOLDED) / kind.lanes
    return time < GAIN * DIRECT * vectors * pairs


def weight_phases(kind: Kind, conv: Convolution, window: Window, flag: int, target: int, free: int) -> tuple[list[Phase], int]:
    """Phases that add up the gradient of the weight at `target`, from the packed gradient at the start of the scratch memory, of
    which what begins at `free` is theirs; and the end of that.
    """
    size, width, height, channels = BYTES[kind.compute], 2 * kind.lanes, register_rows(), conv.channels
    panels, threads = -(-conv.outputs // width), planned_threads()
    g, piece, blocks, slices = slices_of(kind, conv, window)
    row_step = -(-piece // -(-piece // height))
    pitch = -(-g.pixels // kind.lanes) * kind.lanes
    plane = plane_size(channels=piece, width=pitch)
    work = free + rounded(slices * PLANES * channels * panels * width * size)
    share = rounded((g.band + 4 * kind.lanes) * size) + (RUN_WORDS * pitch + 8) * 8 + (plane + pitch * width) * PLANES * size
    table = patch_table(kind, row_counts(piece, row_step) | row_counts(channels % piece, row_step), pitch)
    _, out_y, out_x = conv.out
    constants = (
        *g.constants, work, rounded(share), panels, slices, blocks, piece, row_step, 0, free, flag, plane,
        conv.pixels, out_y * out_x, 2 * out_x, 2, out_y, out_x, table,
    )  # fmt: skip
    main = Phase(winograd_weight_kernel(kind, row_order(tile_window(window)), pitch), slices * blocks, 1, constants)
    taps = Phase(taps_kernel(kind), channels, grain(channels, 8), (channels, conv.outputs, slices, free, target, flag))
    return [main, taps], work + rounded(share) * threads
