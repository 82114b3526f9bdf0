"""Kernels of roi_align: means of samples in the bins of regions, and their gradient.

For each channel of a region the rows of the planes are added up with the weights of a row of bins, as whole vectors; then the
elements of that sum with the weights of each bin. The gradient goes the same way back. Stands on regions.py and strip_mine.py;
vision_ops/roi_align.py plans the phases.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.strip_mine import Strip, strips
from flambeau.codegen.vision.numbers import as_float, scaled_by
from flambeau.codegen.vision.regions import Region, Taps, bytes_of, room_of, taps_function

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
    "aligned",
    "row",
    "slice",
)


def scratch_of(kind: Kind, size: tuple[int, int], bins: tuple[int, int], samples: int) -> tuple[int, int, int, int]:
    """(taps along y, along x, bytes until the row, bytes of scratch memory) for each thread."""
    rooms = [room_of(b, samples, s) for b, s in zip(bins, size)]
    row = sum(bytes_of(kind, b, room) for b, room in zip(bins, rooms))
    return rooms[0], rooms[1], row, -(-(row + size[1] * BYTES[kind.compute]) // 64) * 64


class _Task:
    """A region and a block of channels, in a loop over `unit`s, of a kernel whose p holds buffers, then the scale."""

    def __init__(self, f: Kernel, kind: Kind, c: Constants, scale_slot: int):
        self.f, self.kind, self.c = f, kind, c
        self.scale = scaled_by(f, kind, scale_slot)
        self.memory = f.scratch(f["thread"] * c["slice"])
        self.row = f.scratch(f["thread"] * c["slice"] + c["row"])
        self.reach = f.stack("i64", 4)

    def region(self, rois: Value, number: Value) -> Region:
        return Region(self.f, self.kind, self.c, rois, number, self.scale, self.c["aligned"].differs(0))

    def taps(self, region: Region) -> tuple[Taps, Taps]:
        return region.taps(self.memory, self.reach)

    def channels(self, block: Value) -> tuple[Value, Value]:
        first = block * self.c["each"]
        return first, self.f.minimum(first + self.c["each"], self.c["channels"])


@compiled(INDEXED)
def forward_kernel(kind: Kind) -> str:
    """The range is blocks of channels of the regions. Slots: out (K, C, bins), input (N, C, H, W), rois (K, 5), scale."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, input, rois = (f.buffer(i) for i in range(3))
    compute, task = kind.compute, _Task(f, kind, c, 3)
    lanes = kind.lanes
    with f.loop(f["begin"], f["end"]) as unit:
        number, block = unit.unsigned_div(c["blocks"]), unit.unsigned_rem(c["blocks"])
        region = task.region(rois, number)
        with f.when(region.exists()):
            ys, xs = task.taps(region)
            count = as_float(f, f.maximum(region.count, 1), compute)
            first, last = task.channels(block)
            with f.loop(first, last) as channel:
                plane = f.at(kind.storage, input, (region.image * c["channels"] + channel) * c["size_y"] * c["size_x"])
                target = f.at(kind.storage, out, (number * c["channels"] + channel) * c["bins_y"] * c["bins_x"])
                with f.loop(0, c["bins_y"]) as by:
                    begin, end = f.load("i64", ys.starts, by), f.load("i64", ys.starts, by + 1)
                    line = f.at(kind.storage, plane, xs.first)
                    total = f.variable(kind.accumulator)

                    def add_rows(
                        strip: Strip, line: Value = line, begin: Value = begin, end: Value = end, total=total, ys: Taps = ys
                    ) -> None:
                        total.set(0)
                        with f.loop(begin, end) as tap:
                            place = f.load("i64", ys.places, tap) * c["size_x"] + strip.x
                            element = widen(f, kind, strip.load(kind.storage, f.at(kind.storage, line, place)))
                            weight = f.splat(f.load(compute, ys.weights, tap), lanes)
                            total.set(f.fma(element, weight, total.get()))
                        strip.store(total.get(), compute, f.at(compute, task.row, strip.x))

                    strips(f, f.maximum(xs.last - xs.first, 0), lanes, add_rows)
                    with f.loop(0, c["bins_x"]) as bx:
                        value = f.variable(compute, 0)
                        with f.loop(f.load("i64", xs.starts, bx), f.load("i64", xs.starts, bx + 1)) as tap:
                            element = f.load(compute, task.row, f.load("i64", xs.places, tap) - xs.first)
                            value.set(f.fma(element, f.load(compute, xs.weights, tap), value.get()))
                        f.store(narrow(f, kind, value.get() / count), target, by * c["bins_x"] + bx)
    return module(f, taps_function(kind))


@compiled(INDEXED)
def backward_kernel(kind: Kind) -> str:
    """The range is blocks of channels of the images. Slots: gradient of input (N, C, H, W) in the kind's compute type, gradient
    of out, rois, scale.
    """
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, gradient, rois = (f.buffer(i) for i in range(3))
    compute, task = kind.compute, _Task(f, kind, c, 3)
    lanes = kind.lanes
    zero = f.value(0.0, kind.accumulator)
    with f.loop(f["begin"], f["end"]) as unit:
        image, block = unit.unsigned_div(c["blocks"]), unit.unsigned_rem(c["blocks"])
        first, last = task.channels(block)
        size = c["size_y"] * c["size_x"]
        own = f.at(compute, out, (image * c["channels"] + first) * size)
        strips(f, (last - first) * size, lanes, lambda strip, own=own: strip.store(zero, compute, f.at(compute, own, strip.x)))
        with f.loop(0, c["regions"]) as number:
            region = task.region(rois, number)
            with f.when(region.exists() & region.image.equals(image)):
                ys, xs = task.taps(region)
                width = f.maximum(xs.last - xs.first, 0)
                count = as_float(f, f.maximum(region.count, 1), compute)
                with f.loop(first, last) as channel:
                    plane = f.at(compute, out, (image * c["channels"] + channel) * size + xs.first)
                    source = f.at(kind.storage, gradient, (number * c["channels"] + channel) * c["bins_y"] * c["bins_x"])
                    with f.loop(0, c["bins_y"]) as by:
                        strips(f, width, lanes, lambda strip: strip.store(zero, compute, f.at(compute, task.row, strip.x)))
                        with f.loop(0, c["bins_x"]) as bx:
                            share = widen(f, kind, f.load(kind.storage, source, by * c["bins_x"] + bx)) / count
                            with f.loop(f.load("i64", xs.starts, bx), f.load("i64", xs.starts, bx + 1)) as tap:
                                at = f.load("i64", xs.places, tap) - xs.first
                                added = f.fma(f.load(compute, xs.weights, tap), share, f.load(compute, task.row, at))
                                f.store(added, task.row, at)
                        with f.loop(f.load("i64", ys.starts, by), f.load("i64", ys.starts, by + 1)) as tap:
                            line = f.at(compute, plane, f.load("i64", ys.places, tap) * c["size_x"])
                            weight = f.splat(f.load(compute, ys.weights, tap), lanes)

                            def add(strip: Strip, line: Value = line, weight: Value = weight) -> None:
                                place = f.at(compute, line, strip.x)
                                share = strip.load(compute, f.at(compute, task.row, strip.x))
                                strip.store(f.fma(share, weight, strip.load(compute, place)), compute, place)

                            strips(f, width, lanes, add)
    return module(f, taps_function(kind))
