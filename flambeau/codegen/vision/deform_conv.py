"""Kernels of deformable convolution: columns of elements between the pixels, and both ways back from their gradient.

columns[n, (c, i, j), p] = mask[n, g, i, j, p] * input[n, c] at the place that tap (i, j) of output position p has by its offset;
bilinear, with zeros around the image. The product with the weights is a matrix product. Vectors are of output positions, whose
places and weights are found once for all channels of an offset group. Stands on numbers.py and strip_mine.py;
vision_ops/deform_conv.py plans the phases.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.strip_mine import gather, strips
from flambeau.codegen.vision.numbers import floor, settled

CONSTANTS = (
    "channels",
    "size_y",
    "size_x",
    "taps_y",
    "taps_x",
    "out_y",
    "out_x",
    "step_y",
    "step_x",
    "pad_y",
    "pad_x",
    "spread_y",
    "spread_x",
    "groups",
    "blocks",
    "each",
    "parts",
)
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # of the square that a place lies in, as (y, x)


class _Places:
    """A vector of places: output positions p ... of a tap (a number) of an offset group of image n."""

    def __init__(
        self, f: Kernel, kind: Kind, c: Constants, offset: Value, mask: Value | None, n: Value, group: Value, tap: Value, p: Value
    ):
        self.f, self.kind, self.c, self.p = f, kind, c, p
        self.lanes = kind.lanes
        self.size = BYTES[kind.storage]
        count = c["out_y"] * c["out_x"]
        self.exist = f.mask(count - p, self.lanes)
        taps = c["taps_y"] * c["taps_x"]
        self.number = ((n * c["groups"] + group) * taps + tap) * count + p  # of the first, in the mask
        across = ((n * c["groups"] + group) * taps + tap) * count * 2 + p
        self.offsets = across, across + count  # of the first's y and x
        place = f.splat(f.convert(p, "i32", "trunc"), self.lanes)
        steps = Value(f, place.type, "<" + ", ".join(f"i32 {i}" for i in range(self.lanes)) + ">")
        number, width = place + steps, f.splat(f.convert(c["out_x"], "i32", "trunc"), self.lanes)
        row = number.unsigned_div(width)
        lows: dict[str, Value] = {}
        inside: dict[str, tuple[Value, Value]] = {}
        self.parts: dict[str, tuple[Value, Value]] = {}  # along each axis, the weights of the corners
        for axis, along, own, by in (
            ("y", row, self.offsets[0], tap.unsigned_div(c["taps_x"])),
            ("x", number - row * width, self.offsets[1], tap.unsigned_rem(c["taps_x"])),
        ):
            first = along * f.splat(f.convert(c[f"step_{axis}"], "i32", "trunc"), self.lanes) + f.splat(
                f.convert(by * c[f"spread_{axis}"] - c[f"pad_{axis}"], "i32", "trunc"), self.lanes
            )
            at = settled(f, kind, f.convert(first, kind.accumulator, "sitofp") + self.load(offset, own))
            size = f.splat(f.convert(c[f"size_{axis}"], "i32", "trunc"), self.lanes)
            end = f.convert(size, kind.accumulator, "sitofp")
            at = f.select(at < -2.0, f.value(-2.0, at.type), at)  # whole numbers that fit; NaN stays
            at = f.select(at > end, end, at)
            low = floor(f, at)
            lows[axis] = f.call(first.type, f"llvm.fptosi.sat.v{self.lanes}i32.{_suffix(kind)}", low)
            high = settled(f, kind, at - low)
            self.parts[axis] = f.value(1.0, at.type) - high, high
            inside[axis] = lows[axis].unsigned_below(size), (lows[axis] + 1).unsigned_below(size)
        self.mask = self.load(mask, self.number) if mask is not None else None
        wide = f.splat(f.convert(c["size_x"], "i32", "trunc"), self.lanes)
        self.places, self.read = [], []
        for y, x in CORNERS:
            self.places.append((lows["y"] + y) * wide + (lows["x"] + x))
            self.read.append(inside["y"][y] & inside["x"][x] & self.exist)
        self.weights = [self.parts["y"][y] * self.parts["x"][x] for y, x in CORNERS]

    def load(self, array: Value, at: Value) -> Value:
        f, kind = self.f, self.kind
        place = f.at(kind.storage, array, at)
        return widen(f, kind, f.masked_load(vector(kind.storage, self.lanes), place, self.exist, self.size))

    def store(self, value: Value, array: Value, at: Value) -> None:
        f, kind = self.f, self.kind
        f.masked_store(narrow(f, kind, value), f.at(kind.storage, array, at), self.exist, self.size)

    def elements(self, plane: Value) -> list[Value]:
        """Those at the four corners, zeros outside."""
        f, kind = self.f, self.kind
        return [
            widen(f, kind, gather(f, kind.storage, plane, index, read, self.lanes)) for index, read in zip(self.places, self.read)
        ]


def _suffix(kind: Kind) -> str:
    return f"v{kind.lanes}f{8 * BYTES[kind.compute]}"


class _Unit:
    """What a number of the range stands for: some positions of a tap of an offset group of an image."""

    def __init__(self, f: Kernel, kind: Kind, c: Constants, unit: Value):
        self.p = unit.unsigned_rem(c["blocks"]) * kind.lanes
        rest = unit.unsigned_div(c["blocks"])
        taps = c["taps_y"] * c["taps_x"]
        self.tap, rest = rest.unsigned_rem(taps), rest.unsigned_div(taps)
        self.group, self.n = rest.unsigned_rem(c["groups"]), rest.unsigned_div(c["groups"])
        self.each = c["channels"].unsigned_div(c["groups"])
        self.first = self.group * self.each
        self.f, self.c, self.taps = f, c, taps

    def column(self, channel: Value) -> Value:
        """Where the positions of a channel begin among the columns."""
        row = (self.n * self.c["channels"] + channel) * self.taps + self.tap
        return row * (self.c["out_y"] * self.c["out_x"]) + self.p

    def plane(self, kind: Kind, array: Value, channel: Value) -> Value:
        size = self.c["size_y"] * self.c["size_x"]
        return self.f.at(kind.storage, array, (self.n * self.c["channels"] + channel) * size)


@compiled(INDEXED)
def columns_kernel(kind: Kind, masked: bool) -> str:
    """The range is blocks of positions. Slots: columns (N, C * taps, P), input (N, C, H, W), offset, [mask]."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, input, offset = (f.buffer(i) for i in range(3))
    with f.loop(f["begin"], f["end"]) as number:
        unit = _Unit(f, kind, c, number)
        places = _Places(f, kind, c, offset, f.buffer(3) if masked else None, unit.n, unit.group, unit.tap, unit.p)
        weights = [w if places.mask is None else w * places.mask for w in places.weights]
        with f.loop(unit.first, unit.first + unit.each) as channel:
            total = None
            for element, weight in zip(places.elements(unit.plane(kind, input, channel)), weights):
                total = element * weight if total is None else f.fma(element, weight, total)
            places.store(total, out, unit.column(channel))
    return module(f)


@compiled(INDEXED)
def offsets_kernel(kind: Kind, masked: bool) -> str:
    """Gradients of the offsets and of the mask; the range is blocks of positions. Slots: gradient of the offset, [of the mask],
    gradient of the columns, input, offset, [mask].
    """
    f = Kernel()
    c = f.constants(CONSTANTS)
    gradient, input, offset = (f.buffer(1 + masked + i) for i in range(3))
    totals = [f.variable(kind.accumulator) for _ in CORNERS]
    with f.loop(f["begin"], f["end"]) as number:
        unit = _Unit(f, kind, c, number)
        places = _Places(f, kind, c, offset, f.buffer(5) if masked else None, unit.n, unit.group, unit.tap, unit.p)
        for total in totals:
            total.set(0)
        with f.loop(unit.first, unit.first + unit.each) as channel:
            own = places.load(gradient, unit.column(channel))
            for total, element in zip(totals, places.elements(unit.plane(kind, input, channel))):
                total.set(f.fma(element, own, total.get()))
        shares = [total.get() for total in totals]
        (top, bottom), (left, right) = places.parts["y"], places.parts["x"]
        slopes = [
            (shares[2] - shares[0]) * left + (shares[3] - shares[1]) * right,
            (shares[1] - shares[0]) * top + (shares[3] - shares[2]) * bottom,
        ]
        for slope, at in zip(slopes, places.offsets):
            places.store(slope if places.mask is None else slope * places.mask, f.buffer(0), at)
        if masked:
            value = None
            for share, weight in zip(shares, places.weights):
                value = share * weight if value is None else f.fma(share, weight, value)
            places.store(value, f.buffer(1), places.number)
    return module(f)


@compiled(INDEXED)
def input_kernel(kind: Kind, masked: bool) -> str:
    """The gradient of the input; the range is parts of `each` channels of the offset groups of the images. Slots: gradient of the
    input in the kind's compute type, gradient of the columns, offset, [mask].
    """
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, gradient, offset = (f.buffer(i) for i in range(3))
    compute, lanes = kind.compute, kind.lanes
    indices, shares = f.stack("i32", lanes * 4, align=64), f.stack(compute, lanes * 4, align=64)
    own = f.stack(compute, lanes, align=64)
    zero = f.value(0.0, kind.accumulator)
    with f.loop(f["begin"], f["end"]) as number:
        part, rest = number.unsigned_rem(c["parts"]), number.unsigned_div(c["parts"])
        group, n = rest.unsigned_rem(c["groups"]), rest.unsigned_div(c["groups"])
        each = c["channels"].unsigned_div(c["groups"])
        first = group * each + part * c["each"]
        last = f.minimum(first + c["each"], (group + 1) * each)
        size, count, taps = c["size_y"] * c["size_x"], c["out_y"] * c["out_x"], c["taps_y"] * c["taps_x"]
        planes = f.at(compute, out, (n * c["channels"] + first) * size)
        strips(
            f,
            (last - first) * size,
            lanes,
            lambda strip, planes=planes: strip.store(zero, compute, f.at(compute, planes, strip.x)),
        )
        with f.loop(0, taps) as tap, f.loop(0, count, lanes) as p:
            places = _Places(f, kind, c, offset, f.buffer(3) if masked else None, n, group, tap, p)
            for k in range(4):
                weight = places.weights[k] if places.mask is None else places.weights[k] * places.mask
                index = f.select(places.read[k], places.places[k], -1)
                f.store(index, f.at("i32", indices, k * lanes), align=64 if lanes == 16 else 4)
                f.store(weight, f.at(compute, shares, k * lanes), align=BYTES[compute])
            with f.loop(first, last) as channel:
                plane = f.at(compute, out, (n * c["channels"] + channel) * size)
                column = ((n * c["channels"] + channel) * taps + tap) * count + p
                f.store(places.load(gradient, column), own, 0, align=BYTES[compute])
                with f.loop(0, f.i64(4 * lanes)) as i:
                    index = f.convert(f.load("i32", indices, i), "i64", "sext")
                    with f.when(index >= 0):
                        share = f.load(compute, shares, i) * f.load(compute, own, i & (lanes - 1))
                        f.store(f.load(compute, plane, index) + share, plane, index)
    return module(f)
