"""Kernels of position-sensitive pooling: each bin of a region is taken from channels of its own (R-FCN).

Channel (c * bins_y + i) * bins_x + j of the input is read by bin (i, j) of channel c of the result alone. `align_*`: means of
samples as in roi_align, `pool_*`: means of the elements between edges that are whole numbers. Stands on regions.py and
roi_pool.py; vision_ops/ps_roi.py plans the phases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Constants, Kernel
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.strip_mine import strips
from flambeau.codegen.vision.numbers import as_float, scaled_by
from flambeau.codegen.vision.regions import Region, Taps, taps_function
from flambeau.codegen.vision.roi_pool import WholeRegion

CONSTANTS = (
    "batch",
    "channels",
    "size_y",
    "size_x",
    "bins_y",
    "bins_x",
    "samples",
    "room_y",
    "room_x",
    "regions",
    "each",
    "blocks",
    "slice",
)


class _Forward:
    """The loops over the bins of channels `each` at a time; slots: out (K, C', bins), channels (int32), input, rois, scale."""

    def __init__(self, f: Kernel, kind: Kind, c: Constants):
        self.f, self.kind, self.c = f, kind, c
        self.out, self.mapping, self.input, self.rois = (f.buffer(i) for i in range(4))
        self.scale = scaled_by(f, kind, 4)

    @contextmanager
    def bins(self, number: Value, block: Value, image: Value) -> Iterator[tuple[Value, Value, Value, Value]]:
        """A loop over (row, column, index of the result, the plane that it is taken from)."""
        f, c = self.f, self.c
        bins = c["bins_y"] * c["bins_x"]
        first = block * c["each"]
        with f.loop(first * bins, f.minimum((first + c["each"]) * bins, c["channels"])) as channel:
            rest = channel.unsigned_rem(bins)
            at = number * c["channels"] + channel
            f.store(f.convert(channel, "i32", "trunc"), self.mapping, at)
            plane = (image * c["channels"] + channel) * c["size_y"] * c["size_x"]
            yield (rest.unsigned_div(c["bins_x"]), rest.unsigned_rem(c["bins_x"]), at, f.at(self.kind.storage, self.input, plane))


@compiled(INDEXED)
def align_kernel(kind: Kind) -> str:
    """The range is blocks of the result's channels, region by region; the slots are those of `_Forward`."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    compute, own = kind.compute, _Forward(f, kind, c)
    memory, reach = f.scratch(f["thread"] * c["slice"]), f.stack("i64", 4)
    total = f.variable(compute)
    with f.loop(f["begin"], f["end"]) as unit:
        number, block = unit.unsigned_div(c["blocks"]), unit.unsigned_rem(c["blocks"])
        region = Region(f, kind, c, own.rois, number, own.scale, f.value(1, "i1"))
        with f.when(region.exists()):
            ys, xs = region.taps(memory, reach)
            with own.bins(number, block, region.image) as (y, x, at, plane):
                total.set(0)
                with _taps(f, kind, ys, y) as (row, height):
                    with _taps(f, kind, xs, x) as (column, width):
                        element = widen(f, kind, f.load(kind.storage, plane, row * c["size_x"] + column))
                        total.set(f.fma(element, height * width, total.get()))
                f.store(narrow(f, kind, total.get() / as_float(f, region.count, compute)), own.out, at)
    return module(f, taps_function(kind))


@contextmanager
def _taps(f: Kernel, kind: Kind, taps: Taps, bin: Value) -> Iterator[tuple[Value, Value]]:
    """A loop over the (place, weight) of a bin's taps."""
    with f.loop(f.load("i64", taps.starts, bin), f.load("i64", taps.starts, bin + 1)) as tap:
        yield f.load("i64", taps.places, tap), f.load(kind.compute, taps.weights, tap)


@compiled(INDEXED)
def pool_kernel(kind: Kind) -> str:
    """The range is blocks of the result's channels, region by region; the slots are those of `_Forward`.

    As in torchvision the last row and column of an image are left out here, but get their share of the gradient.
    """
    f = Kernel()
    c = f.constants(CONSTANTS)
    compute, own = kind.compute, _Forward(f, kind, c)
    total = f.variable(compute)
    with f.loop(f["begin"], f["end"]) as unit:
        number, block = unit.unsigned_div(c["blocks"]), unit.unsigned_rem(c["blocks"])
        region = WholeRegion(f, kind, c, own.rois, number, own.scale, False)
        with f.when(region.exists()):
            with own.bins(number, block, region.image) as (y, x, at, plane):
                (top, bottom), (left, right) = region.bin("y", y, 1), region.bin("x", x, 1)
                total.set(0)
                with f.loop(top, bottom) as row, f.loop(left, right) as column:
                    total.add(widen(f, kind, f.load(kind.storage, plane, row * c["size_x"] + column)))
                area = f.maximum(bottom - top, 0) * f.maximum(right - left, 0)
                mean = total.get() / as_float(f, f.maximum(area, 1), compute)
                f.store(narrow(f, kind, mean), own.out, at)
    return module(f)


class _Backward:
    """The loops over channels and regions; slots: gradient of input in the compute type, gradient of out, rois, scale."""

    def __init__(self, f: Kernel, kind: Kind, c: Constants):
        self.f, self.kind, self.c = f, kind, c
        self.out, self.gradient, self.rois = (f.buffer(i) for i in range(3))
        self.scale = scaled_by(f, kind, 3)

    @contextmanager
    def block(self, unit: Value) -> Iterator[tuple[Value, Value, Value]]:
        """(image, first channel, that behind the last), whose planes are zeros; the range is blocks of channels of the images."""
        f, c, compute, lanes = self.f, self.c, self.kind.compute, self.kind.lanes
        image, first = unit.unsigned_div(c["blocks"]), unit.unsigned_rem(c["blocks"]) * c["each"]
        last = f.minimum(first + c["each"], c["channels"])
        size, zero = c["size_y"] * c["size_x"], f.value(0.0, self.kind.accumulator)
        own = f.at(compute, self.out, (image * c["channels"] + first) * size)
        strips(f, (last - first) * size, lanes, lambda strip: strip.store(zero, compute, f.at(compute, own, strip.x)))
        yield image, first, last

    @contextmanager
    def channel(self, number: Value, image: Value, channel: Value) -> Iterator[tuple[Value, Value, Value, Value]]:
        """(row, column, gradient, plane) of the bin of a region that reads a channel."""
        f, c, kind = self.f, self.c, self.kind
        rest = channel.unsigned_rem(c["bins_y"] * c["bins_x"])
        share = widen(f, kind, f.load(kind.storage, self.gradient, number * c["channels"] + channel))
        plane = f.at(kind.compute, self.out, (image * c["channels"] + channel) * c["size_y"] * c["size_x"])
        yield rest.unsigned_div(c["bins_x"]), rest.unsigned_rem(c["bins_x"]), share, plane

    def add(self, plane: Value, row: Value, column: Value, share: Value) -> None:
        f, compute = self.f, self.kind.compute
        place = row * self.c["size_x"] + column
        f.store(f.load(compute, plane, place) + share, plane, place)


@compiled(INDEXED)
def align_backward_kernel(kind: Kind) -> str:
    """The range is blocks of channels of the images; the slots are those of `_Backward`."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    own = _Backward(f, kind, c)
    memory, reach = f.scratch(f["thread"] * c["slice"]), f.stack("i64", 4)
    with f.loop(f["begin"], f["end"]) as unit, own.block(unit) as (image, first, last):
        with f.loop(0, c["regions"]) as number:
            region = Region(f, kind, c, own.rois, number, own.scale, f.value(1, "i1"))
            with f.when(region.exists() & region.image.equals(image)):
                ys, xs = region.taps(memory, reach)
                count = as_float(f, region.count, kind.compute)
                with f.loop(first, last) as channel, own.channel(number, image, channel) as (y, x, g, plane):
                    share = g / count
                    with _taps(f, kind, ys, y) as (row, height), _taps(f, kind, xs, x) as (column, width):
                        own.add(plane, row, column, share * (height * width))
    return module(f, taps_function(kind))


@compiled(INDEXED)
def pool_backward_kernel(kind: Kind) -> str:
    """The range is blocks of channels of the images; the slots are those of `_Backward`."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    own = _Backward(f, kind, c)
    with f.loop(f["begin"], f["end"]) as unit, own.block(unit) as (image, first, last):
        with f.loop(0, c["regions"]) as number:
            region = WholeRegion(f, kind, c, own.rois, number, own.scale, False)
            with f.when(region.exists() & region.image.equals(image)):
                with f.loop(first, last) as channel, own.channel(number, image, channel) as (y, x, g, plane):
                    (top, bottom), (left, right) = region.bin("y", y), region.bin("x", x)
                    area = f.maximum(bottom - top, 0) * f.maximum(right - left, 0)
                    share = g / as_float(f, f.maximum(area, 1), kind.compute)
                    with f.loop(top, bottom) as row, f.loop(left, right) as column:
                        own.add(plane, row, column, share)
    return module(f)
