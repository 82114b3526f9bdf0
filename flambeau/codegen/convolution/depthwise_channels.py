"""Depthwise convolutions of images whose channels lie side by side (channels_last): vectors of channels, read where they lie.

The forward copies nothing but the weights, which are packed by taps. A row of pixels of the result leaves out the taps that see
padding; pixels near its ends look at each tap. Stands on halo.py and extents.py; conv.py and
weight_plan.py plan with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from flambeau.codegen.builder import Value, module
from flambeau.codegen.convolution.extents import Phases, Weights, rounded
from flambeau.codegen.convolution.halo import Tensor5, Window, grain, image_row
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.epilogue import Epilogue
from flambeau.codegen.runtime.threads import planned_threads

PIXELS, VECTORS = 4, 2  # of a register tile: eight sums, and the weights of a tap
TAP_WORDS, TABLE_WORDS = 5, 3  # of a tap in the constants, and in the table of those that a row of pixels sees
WINDOW = (
    "images", "channels", "out_z", "out_y", "out_x", "size_z", "size_y", "size_x", "stride_z", "stride_y", "stride_x", "pad_z",
    "pad_y", "pad_x", "in_slot", "in_n", "in_z", "in_y", "in_x", "taps", "work", "slice",
)  # fmt: skip
FORWARD = (*WINDOW, "low", "high", "c_slot", "c_place", "c_n", "c_z", "c_y", "c_x", "d_slot", "weights")
WEIGHT = (*WINDOW, "g_slot", "g_n", "g_z", "g_y", "g_x", "c_slot", "row_taps")
PACK = ("slot", "channels", "channel_stride", "pitch", "destination")  # then taps


def applies(kind: Kind, channels: int, *tensors: Tensor5) -> bool:
    """Whether channels lie side by side, enough to fill half a vector."""
    return 2 * channels >= kind.lanes and all(t.strides[1] == 1 for t in tensors)


def _inner(window: Window, offset: int) -> tuple[int, int]:
    """The pixels [low, high) along x whose tap at `offset` lies inside the source."""
    size, stride, pad, out = window.size[2], window.stride[2], window.pad[2], window.out[2]
    low = max(0, -((offset - pad) // stride))
    return min(low, out), max(min(low, out), min(out, (size - 1 + pad - offset) // stride + 1))


def _constants(window: Window, channels: int, work: int, share: int) -> tuple[int, ...]:
    source = window.source
    taps = len(window.reach[0]) * len(window.reach[1]) * len(window.reach[2])
    strides = source.strides[0], *source.strides[2:]
    return (
        window.images, channels, *window.out, *window.size, *window.stride, *window.pad, source.slot, *strides, taps, work, share,
    )  # fmt: skip


def _taps(window: Window) -> list[int]:
    """TAP_WORDS for each tap: its offsets along z, y and x, and the pixels along x that it has a source for."""
    return [word for z, y, x in product(*window.reach) for word in (z, y, x, *_inner(window, x))]


def forward_phases(
    kind: Kind, window: Window, channels: int, w: Weights, target: Tensor5, place: int, finish: Epilogue, bias_slot: int
) -> Phases:
    """Phases for the forward or a stride phase of the gradient of the input, as conv's of the general form."""
    taps, size = len(w.taps), BYTES[kind.compute]
    pitch = -(-channels // kind.lanes) * kind.lanes
    packing = Phase(pack_kernel(kind), taps, taps, (w.slot, channels, w.strides[0], pitch, 0, *w.taps))
    work = rounded(taps * pitch * size)
    share = rounded((taps + 1) * TABLE_WORDS * 8)
    ends = [_inner(window, x) for x in window.reach[2]]
    low = max((end[0] for end in ends), default=0)
    high = max(low, min((end[1] for end in ends), default=window.out[2]))
    strides = target.strides[0], *target.strides[2:]
    constants = (
        *_constants(window, channels, work, share), low, high, target.slot, place, *strides, bias_slot, 0, *_taps(window),
    )  # fmt: skip
    total = window.images * window.out[0] * window.out[1]
    main = Phase(forward_kernel(kind, finish._replace(columns="unit")), total, grain(total, 16), constants)
    return [*([packing] if taps else []), main], work + share * planned_threads()


def weight_phases(kind: Kind, window: Window, channels: int, dy: Tensor5, weight_slot: int) -> Phases:
    """Phases for the gradient of the weight."""
    taps = len(window.reach[0]) * len(window.reach[1]) * len(window.reach[2])
    share = rounded((taps + window.out[2] + window.size[2]) * VECTORS * kind.lanes * BYTES[kind.compute])
    strides = dy.strides[0], *dy.strides[2:]
    constants = (*_constants(window, channels, 0, share), dy.slot, *strides, weight_slot, len(window.reach[2]), *_taps(window))
    total = -(-channels // (VECTORS * kind.lanes))
    return [Phase(weight_kernel(kind), total, 1, constants)], share * planned_threads()


@compiled(BRIEF)
def pack_kernel(kind: Kind) -> str:
    """Weights as (tap, channel); the range is the taps."""
    f = Kernel()
    c = f.constants(PACK)
    chosen = f.at("i64", f.load("ptr", f["p"]), len(PACK))
    with f.loop(f["begin"], f["end"]) as tap:
        source = f.at(kind.storage, f.slot(c["slot"]), f.load("i64", chosen, tap))
        target = f.at(kind.compute, f.scratch(c["destination"]), tap * c["pitch"])
        with f.loop(0, c["channels"]) as channel:
            f.store(widen(f, kind, f.load(kind.storage, source, channel * c["channel_stride"])), target, channel)
    return module(f)


class Block(NamedTuple):
    """Some vectors of channels from `first` on; masks, if there are fewer."""

    first: Value
    vectors: int
    masks: list[Value] | None


class _Lanes:
    """Loads and stores of blocks of channels."""

    def __init__(self, f: Kernel, kind: Kind) -> None:
        self.f, self.kind = f, kind

    def blocks(self, channels: Value) -> Iterator[Block]:
        """Emits the loops over channels: whole blocks, then the rest vector by vector."""
        f, lanes = self.f, self.kind.lanes
        step = VECTORS * lanes
        whole = channels.unsigned_div(f.i64(step)) * step
        with f.loop(0, whole, step) as first:
            yield Block(first, VECTORS, None)
        with f.loop(whole, channels, lanes) as first:
            yield Block(first, 1, [f.mask(channels - first, lanes)])

    def load(self, item: str, place: Value, block: Block, masked: bool = True) -> list[Value]:
        """Vectors of `item` elements, widened if they are stored ones."""
        f, kind = self.f, self.kind
        type = vector(item, kind.lanes)
        loaded = []
        for v in range(block.vectors):
            at = f.at(item, place, v * kind.lanes)
            if block.masks and masked:
                value = f.masked_load(type, at, block.masks[v], BYTES[item])
            else:
                value = f.load(type, at, align=BYTES[item])
            loaded.append(widen(f, kind, value) if item == kind.storage else value)
        return loaded

    def store(self, values: list[Value], place: Value, block: Block) -> None:
        f, kind = self.f, self.kind
        for v, value in enumerate(values):
            at = f.at(kind.storage, place, v * kind.lanes)
            if block.masks:
                f.masked_store(value, at, block.masks[v], BYTES[kind.storage])
            else:
                f.store(value, at, align=BYTES[kind.storage])

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        return self.f.fma(a, b, c) if self.kind.floating else a * b + c


class Row(NamedTuple):
    """A row of pixels of the result: where it lies, its source, and the taps that see that."""

    target: Value
    source: Value
    table: Value
    count: Value


class Forward:
    """The forward kernel: its range is rows of pixels."""

    def __init__(self, kind: Kind, finish: Epilogue) -> None:
        f = self.f = Kernel()
        c = self.c = f.constants(FORWARD)
        self.kind, self.finish, self.lanes = kind, finish, _Lanes(f, kind)
        self.taps = f.at("i64", f.load("ptr", f["p"]), len(FORWARD))
        self.pitch = f.ceiling_division(c["channels"], kind.lanes) * kind.lanes
        with f.loop(f["begin"], f["end"]) as index:
            row = self.row(index)
            self.ends(row, f.i64(0), c["low"])
            last = c["low"] + ((c["high"] - c["low"]) & -PIXELS)
            with f.loop(c["low"], last, PIXELS) as x:
                for block in self.lanes.blocks(c["channels"]):
                    self.tile(row, x, block, PIXELS, near_end=False)
            self.ends(row, last, c["out_x"])

    def ends(self, row: Row, begin: Value, end: Value) -> None:
        with self.f.loop(begin, end) as x:
            for block in self.lanes.blocks(self.c["channels"]):
                self.tile(row, x, block, 1, near_end=True)

    def row(self, index: Value) -> Row:
        f, c = self.f, self.c
        n, z, y = image_row(c, index)
        at_z, at_y = z * c["stride_z"] - c["pad_z"], y * c["stride_y"] - c["pad_y"]
        table = f.scratch(c["work"] + f["thread"] * c["slice"])
        count = f.variable("i64", 0)
        with f.loop(0, c["taps"]) as tap:
            tap_z, tap_y, tap_x = (f.load("i64", self.taps, tap * TAP_WORDS + word) for word in range(3))
            words = (tap_x, tap_z * c["in_z"] + tap_y * c["in_y"] + tap_x * c["in_x"], tap * self.pitch)
            for number, word in enumerate(words):
                f.store(word, table, count.get() * TABLE_WORDS + number)
            inside = (at_z + tap_z).unsigned_below(c["size_z"]) & (at_y + tap_y).unsigned_below(c["size_y"])
            count.add(f.convert(inside, "i64", "zext"))
        offset = n * c["in_n"] + at_z * c["in_z"] + at_y * c["in_y"] - c["pad_x"] * c["in_x"]
        target = c["c_place"] + n * c["c_n"] + z * c["c_z"] + y * c["c_y"]
        storage = self.kind.storage
        places = f.at(storage, f.slot(c["c_slot"]), target), f.at(storage, f.slot(c["in_slot"]), offset)
        return Row(*places, table, count.get())

    def tile(self, row: Row, x: Value, block: Block, pixels: int, near_end: bool) -> None:
        """A register tile: pixels x vectors of channels."""
        f, c, kind = self.f, self.c, self.kind
        step = c["stride_x"] * c["in_x"]
        sources = [f.at(kind.storage, row.source, (x + p) * step + block.first) for p in range(pixels)]
        weights = f.at(kind.compute, f.scratch(c["weights"]), block.first)
        sums = [[f.variable(kind.accumulator, 0) for _ in range(block.vectors)] for _ in range(pixels)]
        with f.loop(0, row.count) as t:
            tap_x, offset, place = (f.load("i64", row.table, t * TABLE_WORDS + word) for word in range(3))

            def add(offset: Value = offset, place: Value = place) -> None:
                # a row of packed weights is as long as whole vectors
                factors = self.lanes.load(kind.compute, f.at(kind.compute, weights, place), block, masked=False)
                for source, row_of_sums in zip(sources, sums, strict=True):
                    values = self.lanes.load(kind.storage, f.at(kind.storage, source, offset), block)
                    for value, factor, total in zip(values, factors, row_of_sums, strict=True):
                        total.set(self.lanes.multiply_add(value, factor, total.get()))

            if near_end:
                with f.when((x * c["stride_x"] - c["pad_x"] + tap_x).unsigned_below(c["size_x"])):
                    add()
            else:
                add()
        biases = None
        if self.finish.addend is not None:
            biases = self.lanes.load(kind.storage, f.at(kind.storage, f.slot(c["d_slot"]), block.first), block)
        for p, row_of_sums in enumerate(sums):
            made = []
            for v, total in enumerate(row_of_sums):
                value = total.get() if biases is None else total.get() + biases[v]
                made.append(narrow(f, kind, value if self.finish.apply is None else self.finish.apply(f, value)))
            self.lanes.store(made, f.at(kind.storage, row.target, (x + p) * c["c_x"] + block.first), block)


@compiled(BRIEF)
def forward_kernel(kind: Kind, finish: Epilogue) -> str:
    """The text of the forward kernel."""
    return module(Forward(kind, finish).f)


class Gradient:
    """The kernel of the weight's gradient: its range is blocks of channels.

    Rows of pixels are copied first, so that vectors lie side by side: pixels are often as far apart as lines that share a set of
    the cache. Each row is added up by itself, and then to the others.
    """

    def __init__(self, kind: Kind) -> None:
        f = self.f = Kernel()
        c = self.c = f.constants(WEIGHT)
        self.kind, self.lanes, self.step = kind, _Lanes(f, kind), VECTORS * kind.lanes
        self.taps = f.at("i64", f.load("ptr", f["p"]), len(WEIGHT))
        self.totals = f.scratch(c["work"] + f["thread"] * c["slice"])
        self.gradient = f.at(kind.compute, self.totals, c["taps"] * self.step)
        self.source = f.at(kind.compute, self.gradient, c["out_x"] * self.step)
        made = f.stack(kind.storage, kind.lanes, align=64)
        with f.loop(f["begin"], f["end"]) as number:
            start = number * self.step
            for block in self.lanes.blocks(f.minimum(c["channels"] - start, self.step)):
                block = block._replace(first=start + block.first)
                self.add_rows(block)
                for v in range(block.vectors):
                    first = block.first + v * kind.lanes
                    with f.loop(0, c["taps"]) as tap:
                        total = f.load(kind.accumulator, self.total(tap, v), align=BYTES[kind.compute])
                        f.store(narrow(f, kind, total), made)
                        with f.loop(0, f.minimum(c["channels"] - first, kind.lanes)) as i:
                            f.store(f.load(kind.storage, made, i), f.slot(c["c_slot"]), (first + i) * c["taps"] + tap)

    def total(self, tap: Value, v: int) -> Value:
        """Where a tap's sums lie."""
        return self.f.at(self.kind.compute, self.totals, tap * self.step + v * self.kind.lanes)

    def copy(self, slot: Value, first: Value, count: Value, pitch: Value, block: Block, target: Value) -> None:
        f, kind = self.f, self.kind
        source = f.at(kind.storage, f.slot(slot), first + block.first)
        with f.loop(0, count) as x:
            values = self.lanes.load(kind.storage, f.at(kind.storage, source, x * pitch), block)
            for v, value in enumerate(values):
                f.store(value, f.at(kind.compute, target, x * self.step + v * kind.lanes), align=BYTES[kind.compute])

    def add_rows(self, block: Block) -> None:
        """Fills the block's totals."""
        f, c, kind = self.f, self.c, self.kind
        with f.loop(0, c["taps"]) as tap:
            for v in range(block.vectors):
                f.store(f.value(0, kind.accumulator), self.total(tap, v), align=BYTES[kind.compute])
        with f.loop(0, c["images"] * c["out_z"] * c["out_y"]) as index:
            n, z, y = image_row(c, index)
            place = n * c["g_n"] + z * c["g_z"] + y * c["g_y"]
            self.copy(c["g_slot"], place, c["out_x"], c["g_x"], block, self.gradient)
            with f.loop(0, c["taps"], c["row_taps"]) as first:
                at_z = z * c["stride_z"] - c["pad_z"] + f.load("i64", self.taps, first * TAP_WORDS)
                at_y = y * c["stride_y"] - c["pad_y"] + f.load("i64", self.taps, first * TAP_WORDS + 1)
                with f.when(at_z.unsigned_below(c["size_z"]) & at_y.unsigned_below(c["size_y"])):
                    place = n * c["in_n"] + at_z * c["in_z"] + at_y * c["in_y"]
                    self.copy(c["in_slot"], place, c["size_x"], c["in_x"], block, self.source)
                    with f.loop(first, first + c["row_taps"]) as tap:
                        self.add_row(block, tap)

    def add_row(self, block: Block, tap: Value) -> None:
        """Adds a copied row of the source, as a tap sees it, times one of the gradient."""
        f, c, kind = self.f, self.c, self.kind
        tap_x, low, high = (f.load("i64", self.taps, tap * TAP_WORDS + word) for word in range(2, TAP_WORDS))
        source = f.at(kind.compute, self.source, (tap_x - c["pad_x"]) * self.step)
        sums = [[f.variable(kind.accumulator, 0) for _ in range(block.vectors)] for _ in range(PIXELS)]

        def add(x: Value, pixels: int) -> None:
            for p in range(pixels):
                for v, total in enumerate(sums[p]):
                    places = (x + p) * c["stride_x"] * self.step + v * kind.lanes, (x + p) * self.step + v * kind.lanes
                    value, other = (
                        f.load(kind.accumulator, row, place, align=BYTES[kind.compute])
                        for row, place in zip((source, self.gradient), places, strict=True)
                    )
                    total.set(self.lanes.multiply_add(value, other, total.get()))

        last = low + ((high - low) & -PIXELS)
        with f.loop(low, last, PIXELS) as x:
            add(x, PIXELS)
        with f.loop(last, high) as x:
            add(x, 1)
        for v in range(block.vectors):
            value = (sums[0][v].get() + sums[1][v].get()) + (sums[2][v].get() + sums[3][v].get())
            before = f.load(kind.accumulator, self.total(tap, v), align=BYTES[kind.compute])
            f.store(before + value, self.total(tap, v), align=BYTES[kind.compute])


@compiled(BRIEF)
def weight_kernel(kind: Kind) -> str:
    """The text of the kernel of the weight's gradient."""
    return module(Gradient(kind).f)
