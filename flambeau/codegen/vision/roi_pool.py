"""Kernels of roi_pool: maxima of the bins of regions whose edges are whole numbers, and their gradient.

A row of bins takes the maximum of each column first, as whole vectors with the rows that they lie in, then that of each bin's
columns. Stands on numbers.py, regions.py and strip_mine.py; vision_ops/roi_pool.py plans the phases.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.strip_mine import Strip, strips
from flambeau.codegen.vision.numbers import as_float, ceiling, floor, product, rounded, scaled_by, settled, whole
from flambeau.codegen.vision.regions import NO_SUCH_IMAGE, NUMBERS

CONSTANTS = ("batch", "channels", "size_y", "size_x", "bins_y", "bins_x", "regions", "each", "blocks", "slice")
LEAST = -3.4028234663852886e38  # what an element must be above to be a maximum, in torchvision whatever the dtype


class WholeRegion:
    """Region number `number` with edges rounded to whole elements. Constants by name: bins_y, bins_x, size_y, size_x.

    through: whether the elements at the right and lower edge belong to it.
    """

    def __init__(self, f: Kernel, kind: Kind, c: Constants, rois: Value, number: Value, scale: Value, through: bool):
        self.f, self.kind, self.c = f, kind, c
        compute = kind.compute
        numbers = [widen(f, kind, f.load(kind.storage, rois, number * NUMBERS + i)) for i in range(NUMBERS)]
        self.image = whole(f, numbers[0])
        x1, y1, x2, y2 = (rounded(f, settled(f, kind, product(x, scale))) for x in numbers[1:])
        self.starts = {"y": y1, "x": x1}
        self.lengths = {}
        for axis, length in (("y", y2 - y1), ("x", x2 - x1)):
            length = settled(f, kind, as_float(f, f.maximum(length + int(through), 1), compute))
            self.lengths[axis] = settled(f, kind, length / as_float(f, c[f"bins_{axis}"], compute))

    def exists(self) -> Value:
        """Whether there is such an image; leaves an error word if not."""
        f = self.f
        exists = self.image.unsigned_below(self.c["batch"])
        with f.when(exists.equals(0)):
            f.store(f.i64(NO_SUCH_IMAGE), f["p"], 2)
        return exists

    def bin(self, axis: str, i: Value, without: int = 0) -> tuple[Value, Value]:
        """The first place of bin i along an axis, and that behind its last; not among the last places `without`."""
        f, compute = self.f, self.kind.compute
        length, most = self.lengths[axis], self.c[f"size_{axis}"] - without
        begin, end = (settled(f, self.kind, product(as_float(f, k, compute), length)) for k in (i, i + 1))
        begin = whole(f, floor(f, begin)) + self.starts[axis]
        end = whole(f, ceiling(f, end)) + self.starts[axis]
        return f.minimum(f.maximum(begin, 0), most), f.minimum(f.maximum(end, 0), most)

    def list_bins(self, axis: str, places: Value) -> None:
        """Store what `bin` gives for all bins along an axis as pairs of int64."""
        with self.f.loop(0, self.c[f"bins_{axis}"]) as i:
            for k, edge in enumerate(self.bin(axis, i)):
                self.f.store(edge, places, i * 2 + k)


def slice_of(kind: Kind, size_x: int, bins: tuple[int, int]) -> int:
    """Bytes of scratch memory for each thread: the edges of bins, a row of maxima and of the rows that they lie in."""
    return -(-(sum(bins) * 16 + size_x * (BYTES[kind.compute] + 4)) // 64) * 64


@compiled(INDEXED)
def forward_kernel(kind: Kind) -> str:
    """The range is blocks of channels of the regions. Slots: out, places of the maxima (int32; -1: none), input, rois, scale.

    Of equal elements the first in the bin is the maximum; those that are not numbers never are.
    """
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, places, input, rois = (f.buffer(i) for i in range(4))
    least = float("-inf") if kind.storage == "half" else LEAST
    compute, lanes, integers = kind.compute, kind.lanes, vector("i32", kind.lanes)
    down = f.scratch(f["thread"] * c["slice"])
    across = f.at("i64", down, c["bins_y"] * 2)
    maxima = f.at("i64", across, c["bins_x"] * 2)
    rows = f.at(compute, maxima, c["size_x"])
    best, where = f.variable(kind.accumulator), f.variable(integers)
    value, place = f.variable(compute), f.variable("i32")
    with f.loop(f["begin"], f["end"]) as unit:
        number, block = unit.unsigned_div(c["blocks"]), unit.unsigned_rem(c["blocks"])
        region = WholeRegion(f, kind, c, rois, number, scaled_by(f, kind, 4), True)
        with f.when(region.exists()):
            region.list_bins("y", down)
            region.list_bins("x", across)
            left, right = f.load("i64", across, 0), f.load("i64", across, c["bins_x"] * 2 - 1)
            first = block * c["each"]
            with f.loop(first, f.minimum(first + c["each"], c["channels"])) as channel:
                plane = f.at(kind.storage, input, (region.image * c["channels"] + channel) * c["size_y"] * c["size_x"])
                target = (number * c["channels"] + channel) * c["bins_y"] * c["bins_x"]
                with f.loop(0, c["bins_y"]) as by:
                    top, bottom = (f.load("i64", down, by * 2 + k) for k in (0, 1))

                    def column(strip: Strip, plane: Value = plane, top: Value = top, bottom: Value = bottom) -> None:
                        best.set(least)
                        where.set(-1)
                        with f.loop(top, bottom) as y:
                            at = f.at(kind.storage, plane, y * c["size_x"] + left + strip.x)
                            element = widen(f, kind, strip.load(kind.storage, at))
                            more = element > best.get()
                            best.set(f.select(more, element, best.get()))
                            row = f.splat(f.convert(y, "i32", "trunc"), lanes)
                            where.set(f.select(more, row, where.get()))
                        strip.store(best.get(), compute, f.at(compute, maxima, strip.x))
                        strip.store(where.get(), "i32", f.at("i32", rows, strip.x))

                    strips(f, f.maximum(right - left, 0), lanes, column)
                    with f.loop(0, c["bins_x"]) as bx:
                        begin, end = (f.load("i64", across, bx * 2 + k) for k in (0, 1))
                        empty = (bottom <= top) | (end <= begin)
                        value.set(least)
                        place.set(-1)
                        with f.loop(begin, end) as x:
                            element, row = f.load(compute, maxima, x - left), f.load("i32", rows, x - left)
                            own = row * f.convert(c["size_x"], "i32", "trunc") + f.convert(x, "i32", "trunc")
                            earlier = element.equals(value.get()) & own.unsigned_below(place.get())
                            better = (row >= 0) & ((element > value.get()) | earlier)
                            value.set(f.select(better, element, value.get()))
                            place.set(f.select(better, own, place.get()))
                        at = target + by * c["bins_x"] + bx
                        f.store(narrow(f, kind, f.select(empty, f.value(0.0, compute), value.get())), out, at)
                        f.store(place.get(), places, at)
    return module(f)


@compiled(INDEXED)
def backward_kernel(kind: Kind) -> str:
    """The range is blocks of channels of the images. Slots: gradient of input (N, C, H, W) in the kind's compute type, gradient
    of out, rois, places.
    """
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, gradient, rois, places = (f.buffer(i) for i in range(4))
    compute, lanes = kind.compute, kind.lanes
    zero = f.value(0.0, kind.accumulator)
    with f.loop(f["begin"], f["end"]) as unit:
        image, block = unit.unsigned_div(c["blocks"]), unit.unsigned_rem(c["blocks"])
        first = block * c["each"]
        last = f.minimum(first + c["each"], c["channels"])
        size, bins = c["size_y"] * c["size_x"], c["bins_y"] * c["bins_x"]
        own = f.at(compute, out, (image * c["channels"] + first) * size)
        strips(f, (last - first) * size, lanes, lambda strip, own=own: strip.store(zero, compute, f.at(compute, own, strip.x)))
        with f.loop(0, c["regions"]) as number:
            of = whole(f, widen(f, kind, f.load(kind.storage, rois, number * NUMBERS)))
            with f.when(of.equals(image)):
                with f.loop(first, last) as channel:
                    plane = f.at(compute, out, (image * c["channels"] + channel) * size)
                    source = (number * c["channels"] + channel) * bins
                    with f.loop(source, source + bins) as at:
                        place = f.convert(f.load("i32", places, at), "i64", "sext")
                        with f.when(place.unsigned_below(size)):
                            share = widen(f, kind, f.load(kind.storage, gradient, at))
                            f.store(f.load(compute, plane, place) + share, plane, place)
    return module(f)
