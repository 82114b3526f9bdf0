"""Regions of interest: where the samples of their bins lie, as weighted taps along each axis.

A bin of roi_align is the mean of a grid of samples, each the bilinear interpolation between four elements. Both the grid and the
weights are products of what happens along y and along x, so that a bin is sum over y of wy * (sum over x of wx * element), with
few taps along each axis: neighbouring samples share them. `Region` reads a region and lists the taps of all its bins.
Stands on numbers.py; used by roi_align.py and position_sensitive.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from flambeau.codegen.builder import Value
from flambeau.codegen.element_type import Kind, widen
from flambeau.codegen.kernel import BYTES, Constants, Kernel
from flambeau.codegen.vision.numbers import as_float, ceiling, product, settled, whole

NO_SUCH_IMAGE = 1  # error word: a region of an image that isn't there
NUMBERS = 5  # of a region: the image, x1, y1, x2, y2
MOST_SAMPLES = 1 << 31  # along an axis of a bin; where more would be needed, none are taken


@dataclass
class Taps:
    """The taps of the bins along an axis: those of bin i are starts[i] ... starts[i + 1] - 1, each a place and a weight.

    first, last: the first place of them all, and the one behind the last.
    """

    starts: Value
    places: Value
    weights: Value
    first: Value
    last: Value


def room_of(bins: int, samples: int, size: int) -> int:
    """Taps that an axis may have: without a number of samples each bin has at most one for each place."""
    return bins * (2 * samples if samples > 0 else size)


def bytes_of(kind: Kind, bins: int, room: int) -> int:
    """Bytes of scratch memory that the taps of an axis take."""
    return (bins + 1 + room) * 8 + -(-room * BYTES[kind.compute] // 8) * 8


def taps_function(kind: Kind) -> Kernel:
    """Lists the taps of `bins` bins of length `bin` from `start` on, with `samples` samples each, on an axis of `size` places.

    Samples more than one place outside count nothing, those less than that as if they were on the edge.
    """
    compute = kind.compute
    f = Kernel(
        "taps",
        [
            ("start", compute),
            ("bin", compute),
            ("bins", "i64"),
            ("samples", "i64"),
            ("size", "i64"),
            ("starts", "ptr"),
            ("places", "ptr"),
            ("weights", "ptr"),
            ("reach", "ptr"),
        ],
        internal=True,
    )
    settle = partial(settled, f, kind)
    count, here = f.variable("i64", 0), f.variable("i64")
    first, last = f.variable("i64", f["size"]), f.variable("i64", 0)
    end, divisor = as_float(f, f["size"], compute), as_float(f, f["samples"], compute)

    def merge(place: Value, weight: Value) -> None:
        """Add a tap, or its weight to one of the two last taps if it is there already."""
        found = f.variable("i1", 0)
        for back in (1, 2):
            at = count.get() - back
            with f.when(at >= here.get()):
                with f.when(f.load("i64", f["places"], at).equals(place)):
                    f.store(f.load(compute, f["weights"], at) + weight, f["weights"], at)
                    found.set(1)
        with f.when(found.get().equals(0)):
            f.store(place, f["places"], count.get())
            f.store(weight, f["weights"], count.get())
            count.add(1)

    with f.loop(0, f["bins"]) as i:
        here.set(count.get())
        f.store(here.get(), f["starts"], i)
        corner = settle(f["start"] + settle(product(as_float(f, i, compute), f["bin"])))
        with f.loop(0, f["samples"]) as sample:
            within = settle(settle(product(as_float(f, sample, compute) + f.value(0.5, compute), f["bin"])) / divisor)
            at = settle(corner + within)
            with f.when((at >= -1.0) & (at <= end)):
                inside = f.maximum(at, 0.0)
                low = whole(f, inside)
                edge = low >= f["size"] - 1
                low = f.select(edge, f["size"] - 1, low)
                high_weight = f.select(edge, f.value(0.0, compute), inside - as_float(f, low, compute))
                first.set(f.minimum(first.get(), low))
                last.set(f.maximum(last.get(), f.select(edge, low, low + 1) + 1))
                merge(low, f.value(1.0, compute) - high_weight)
                with f.when(edge.equals(0)):
                    merge(low + 1, high_weight)
    f.store(count.get(), f["starts"], f["bins"])
    f.store(first.get(), f["reach"], 0)
    f.store(last.get(), f["reach"], 1)
    return f


class Region:
    """Region number `number`: its image, and how its bins lie. Coordinates are multiplied by `scale`.

    aligned: places are the middles of elements; else a region is at least one element long. Constants by name: bins_y, bins_x,
    size_y, size_x, samples (0 or less: one sample per place), and room_y and room_x for `taps`.
    """

    def __init__(self, f: Kernel, kind: Kind, c: Constants, rois: Value, number: Value, scale: Value, aligned: Value):
        self.f, self.kind, self.c = f, kind, c
        compute = kind.compute
        numbers = [widen(f, kind, f.load(kind.storage, rois, number * NUMBERS + i)) for i in range(NUMBERS)]
        self.image = whole(f, numbers[0])
        settle = partial(settled, f, kind)
        shift = f.select(aligned, f.value(0.5, compute), f.value(0.0, compute))
        x1, y1, x2, y2 = (settle(settle(product(x, scale)) - shift) for x in numbers[1:])
        self.starts = {"y": y1, "x": x1}
        self.bins: dict[str, Value] = {}
        self.samples: dict[str, Value] = {}
        for axis, length in (("y", y2 - y1), ("x", x2 - x1)):
            length = f.select(aligned, settle(length), f.maximum(settle(length), 1.0))
            self.bins[axis] = settle(length / as_float(f, c[f"bins_{axis}"], compute))
            needed = whole(f, ceiling(f, self.bins[axis]))
            needed = f.select((needed > 0) & (needed < MOST_SAMPLES), needed, 0)
            self.samples[axis] = f.select(c["samples"] > 0, c["samples"], needed)
        self.count = self.samples["y"] * self.samples["x"]

    def exists(self) -> Value:
        """Whether there is such an image; leaves an error word if not."""
        f = self.f
        exists = self.image.unsigned_below(self.c["batch"])
        with f.when(exists.equals(0)):
            f.store(f.i64(NO_SUCH_IMAGE), f["p"], 2)
        return exists

    def taps(self, memory: Value, reach: Value) -> tuple[Taps, Taps]:
        """The taps along y and along x, listed in scratch memory."""
        f, c, made = self.f, self.c, []
        for i, axis in enumerate("yx"):
            bins, room = c[f"bins_{axis}"], c[f"room_{axis}"]
            starts = memory
            places = f.at("i64", starts, bins + 1)
            weights = f.at("i64", places, room)
            memory = f.at("i64", weights, (room * BYTES[self.kind.compute] + 7) >> 3)
            own = f.at("i64", reach, 2 * i)
            f.call(
                "void",
                "taps",
                self.starts[axis],
                self.bins[axis],
                bins,
                self.samples[axis],
                c[f"size_{axis}"],
                starts,
                places,
                weights,
                own,
                declare=False,
            )
            made.append(Taps(starts, places, weights, f.load("i64", own, 0), f.load("i64", own, 1)))
        return made[0], made[1]
