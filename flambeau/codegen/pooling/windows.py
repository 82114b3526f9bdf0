"""Kernels of pooling: reductions over windows of an image's last three axes, and the scatters and gathers that undo them.

A window is, per axis, a first position and a number of taps (tables, one entry per output position) a fixed step apart; strided,
dilated, clipped, adaptive and fractional pooling differ in their tables only. Images whose rows are contiguous and windows of
2 x 2 have vector kernels of their own (rows.py, pairs.py). Stands on builder.py and element_type.py;
ops/nn/max_pool.py plans the phases.
"""

from __future__ import annotations

import itertools

from flambeau.codegen.builder import Value, Variable, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Constants, Kernel

GEOMETRY = (
    "channels", "out_z", "out_y", "out_x", "n", "c", "z", "y", "x", "o_n", "o_c", "o_z", "o_y", "o_x", "size_z", "size_y",
    "size_x", "step_z", "step_y", "step_x", "divisor", "table_plane", "slice",
)  # fmt: skip
AXES = "zyx"
BEGIN, COUNT, EXTENT = range(3)
LOWEST = {"uint8": 0, "int8": -(1 << 7), "int16": -(1 << 15), "int32": -(1 << 31), "int64": -(1 << 63)}


class Windows:
    """The tables of the windows: in the constants, or in a buffer with tables for every plane."""

    def __init__(self, f: Kernel, c: Constants, slot: int | None):
        self.f, self.c = f, c
        self.base = f.at("i64", f.load("ptr", f["p"]), len(GEOMETRY)) if slot is None else f.buffer(slot)
        self.place: Value | None = None

    def of_plane(self, plane: Value) -> None:
        self.place = self.f.at("i64", self.base, plane * self.c["table_plane"])

    def entry(self, axis: str, what: int, position: Value) -> Value:
        before = self.f.i64(0)
        for earlier in AXES[: AXES.index(axis)]:
            before = before + self.c["out_" + earlier] * 3
        return self.f.load("i64", self.place, before + self.c["out_" + axis] * what + position)


def unordered(f: Kernel, value: Value) -> Value:
    shape = "i1" if value.type[0] != "<" else value.type[: value.type.index("x") + 2] + "i1>"
    return f.emit(shape, f"fcmp uno {value.type} {value.name}, {value.name}")


def replaces(f: Kernel, kind: Kind, value: Value, best: Value) -> Value:
    """Whether a later element takes the place of the maximum: greater, or not a number."""
    return (value > best) | unordered(f, value) if kind.floating else value > best


def planes(f: Kernel, c: Constants, plane: Value, prefix: str = "") -> Value:
    channels = c["channels"]
    return plane.unsigned_div(channels) * c[prefix + "n"] + plane.unsigned_rem(channels) * c[prefix + "c"]


@compiled()
def forward_kernel(kind: Kind, reduce: str, index: str | None, buffered: bool, taps: tuple[int, ...] | None = None) -> str:
    """Maximum or mean of every window; the range is rows of the output. Slots: out, [index], input, [tables].

    taps: how many all windows have along the three axes, if few and alike: they are then written out.
    """
    f = Kernel()
    c = f.constants(GEOMETRY)
    out, source = f.buffer(0), f.buffer(2 if index else 1)
    windows = Windows(f, c, (3 if index else 2) if buffered else None)
    with f.loop(f["begin"], f["end"]) as row:
        oy, rest = row.unsigned_rem(c["out_y"]), row.unsigned_div(c["out_y"])
        oz, plane = rest.unsigned_rem(c["out_z"]), rest.unsigned_div(c["out_z"])
        windows.of_plane(plane)
        image = f.at(kind.storage, source, planes(f, c, plane))
        target = planes(f, c, plane, "o_") + oz * c["o_z"] + oy * c["o_y"]
        first_z, count_z = windows.entry("z", BEGIN, oz), windows.entry("z", COUNT, oz)
        first_y, count_y = windows.entry("y", BEGIN, oy), windows.entry("y", COUNT, oy)
        if reduce == "mean":
            extent = windows.entry("z", EXTENT, oz) * windows.entry("y", EXTENT, oy)
        with f.loop(0, c["out_x"]) as ox:
            first_x, count_x = windows.entry("x", BEGIN, ox), windows.entry("x", COUNT, ox)
            start = 0 if reduce == "mean" else float("-inf") if kind.floating else LOWEST[kind.name]
            best = f.variable(kind.compute, start)
            where = f.variable("i64", (first_z * c["size_y"] + first_y) * c["size_x"] + first_x) if index else None

            def line_of(kz: Value, ky: Value) -> tuple[Value, Value]:
                z, y = first_z + kz * c["step_z"], first_y + ky * c["step_y"]
                return f.at(kind.storage, image, z * c["z"] + y * c["y"]), (z * c["size_y"] + y) * c["size_x"]

            def meet(
                line: Value,
                start: Value,
                kx: Value,
                first_x: Value = first_x,
                best: Variable = best,
                where: Variable | None = where,
            ) -> None:
                x = first_x + kx * c["step_x"]
                value = widen(f, kind, f.load(kind.storage, line, x * c["x"]))
                if reduce == "mean":
                    best.add(value)
                    return
                taken = replaces(f, kind, value, best.get())
                best.set(f.select(taken, value, best.get()))
                if where is not None:
                    where.set(f.select(taken, start + x, where.get()))

            if taps is not None:
                for kz, ky in itertools.product(range(taps[0]), range(taps[1])):
                    line = line_of(f.i64(kz), f.i64(ky))
                    for kx in range(taps[2]):
                        meet(*line, f.i64(kx))
            else:
                with f.loop(0, count_z) as kz, f.loop(0, count_y) as ky:
                    line = line_of(kz, ky)
                    with f.loop(0, count_x) as kx:
                        meet(*line, kx)
            place = target + ox * c["o_x"]
            result = best.get()
            if reduce == "mean":
                divisor = f.select(c["divisor"].equals(0), extent * windows.entry("x", EXTENT, ox), c["divisor"])
                empty = (count_z * count_y * count_x).equals(0)
                if kind.floating:
                    quotient = result / f.convert(divisor, kind.compute, "sitofp")
                else:
                    quotient = f.convert(result, "i64", "sext") if kind.compute != "i64" else result
                    quotient = quotient / f.select(divisor.equals(0), f.i64(1), divisor)
                    quotient = quotient if kind.compute == "i64" else f.convert(quotient, kind.compute, "trunc")
                result = f.select(empty, f.value(0, kind.compute), quotient)
            f.store(narrow(f, kind, result), out, place)
            if where is not None:
                found = where.get()
                f.store(found if index == "i64" else f.convert(found, index, "trunc"), f.buffer(1), place)
    return module(f)


def _clear_plane(f: Kernel, c: Constants, kind: Kind, image: Value, unit: bool) -> None:
    zero = f.value(0, kind.storage)
    with f.loop(0, c["size_z"]) as z, f.loop(0, c["size_y"]) as y:
        line = f.at(kind.storage, image, z * c["z"] + y * c["y"])
        with f.loop(0, c["size_x"]) as x:
            f.store(zero, line, x if unit else x * c["x"])


def _outputs(f: Kernel, c: Constants):
    """Loops over the output positions of a plane: contexts to enter in order."""
    return f.loop(0, c["out_z"]), f.loop(0, c["out_y"]), f.loop(0, c["out_x"])


def _position(c: Constants, flat: Value, dense: bool) -> Value:
    """Element offset in a plane of a flat position in it."""
    if dense:
        return flat
    x, rest = flat.unsigned_rem(c["size_x"]), flat.unsigned_div(c["size_x"])
    return rest.unsigned_div(c["size_y"]) * c["z"] + rest.unsigned_rem(c["size_y"]) * c["y"] + x * c["x"]


@compiled()
def scatter_kernel(kind: Kind, index: str, dense: bool, adds: bool) -> str:
    """Zeroed planes with values added, or stored, at their indices; the range is planes. Slots: out, values, index.

    An index outside its plane is left out, and leaves itself (if not negative, 1 + itself)
    as the error code.
    """
    f = Kernel()
    c = f.constants(GEOMETRY)
    volume = c["size_z"] * c["size_y"] * c["size_x"]
    out, values, places = f.buffer(0), f.buffer(1), f.buffer(2)
    with f.loop(f["begin"], f["end"]) as plane:
        image = f.at(kind.storage, out, planes(f, c, plane))
        _clear_plane(f, c, kind, image, dense)
        place = planes(f, c, plane, "o_")
        loops = _outputs(f, c)
        with loops[0] as oz, loops[1] as oy, loops[2] as ox:
            at = place + oz * c["o_z"] + oy * c["o_y"] + ox * c["o_x"]
            flat = f.load(index, places, at)
            flat = flat if index == "i64" else f.convert(flat, "i64", "sext")
            value = f.load(kind.storage, values, at)
            with f.branches(flat.unsigned_below(volume)) as otherwise:
                goal = f.at(kind.storage, image, _position(c, flat, dense))
                if adds:
                    value = narrow(f, kind, widen(f, kind, f.load(kind.storage, goal)) + widen(f, kind, value))
                f.store(value, goal)
                otherwise()
                f.store(f.select(flat < 0, flat, flat + 1), f["p"], 2)
    return module(f)


@compiled()
def gather_kernel(kind: Kind, index: str, dense: bool) -> str:
    """The elements of planes at their indices; the range is planes. Slots: out, planes, index. Errors as of `scatter_kernel`."""
    f = Kernel()
    c = f.constants(GEOMETRY)
    volume = c["size_z"] * c["size_y"] * c["size_x"]
    out, images, places = f.buffer(0), f.buffer(1), f.buffer(2)
    with f.loop(f["begin"], f["end"]) as plane:
        image = f.at(kind.storage, images, planes(f, c, plane))
        place = planes(f, c, plane, "o_")
        loops = _outputs(f, c)
        with loops[0] as oz, loops[1] as oy, loops[2] as ox:
            at = place + oz * c["o_z"] + oy * c["o_y"] + ox * c["o_x"]
            flat = f.load(index, places, at)
            flat = flat if index == "i64" else f.convert(flat, "i64", "sext")
            with f.branches(flat.unsigned_below(volume)) as otherwise:
                f.store(f.load(kind.storage, image, _position(c, flat, dense)), out, at)
                otherwise()
                f.store(f.select(flat < 0, flat, flat + 1), f["p"], 2)
    return module(f)


@compiled()
def spread_kernel(kind: Kind, unit: bool) -> str:
    """The gradient of the mean: every window gets its share. The range is planes. Slots: out, gradient."""
    f = Kernel()
    c = f.constants(GEOMETRY)
    windows = Windows(f, c, None)
    with f.loop(f["begin"], f["end"]) as plane:
        windows.of_plane(plane)
        image = f.at(kind.storage, f.buffer(0), planes(f, c, plane))
        _clear_plane(f, c, kind, image, unit)
        place = planes(f, c, plane, "o_")
        loops = _outputs(f, c)
        with loops[0] as oz, loops[1] as oy:
            extent = windows.entry("z", EXTENT, oz) * windows.entry("y", EXTENT, oy)
            with loops[2] as ox:
                divisor = f.select(c["divisor"].equals(0), extent * windows.entry("x", EXTENT, ox), c["divisor"])
                g = widen(f, kind, f.load(kind.storage, f.buffer(1), place + oz * c["o_z"] + oy * c["o_y"] + ox * c["o_x"]))
                if kind.floating:
                    share = g / f.convert(divisor, kind.compute, "sitofp")
                else:
                    share = g / (divisor if kind.compute == "i64" else f.convert(divisor, kind.compute, "trunc"))
                first_x = windows.entry("x", BEGIN, ox)
                with f.loop(0, windows.entry("z", COUNT, oz)) as kz, f.loop(0, windows.entry("y", COUNT, oy)) as ky:
                    z, y = windows.entry("z", BEGIN, oz) + kz, windows.entry("y", BEGIN, oy) + ky
                    line = f.at(kind.storage, image, z * c["z"] + y * c["y"])
                    with f.loop(0, windows.entry("x", COUNT, ox)) as kx:
                        goal = f.at(kind.storage, line, (first_x + kx) if unit else (first_x + kx) * c["x"])
                        f.store(narrow(f, kind, widen(f, kind, f.load(kind.storage, goal)) + share), goal)
    return module(f)
