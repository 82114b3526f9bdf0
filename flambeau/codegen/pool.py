"""Kernels of pooling: reductions over windows of an image's last three axes, and the scatters and gathers that undo them.

A window is, per axis, a first position and a number of taps (tables, one entry per output position) a fixed step apart; strided,
dilated, clipped, adaptive and fractional pooling differ in their tables only. Windows of 2 x 2 that don't overlap have vector
kernels of their own. Stands on builder.py and the element kinds of gemm_micro.py; ops/pool.py plans the phases.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from flambeau.codegen.builder import Value, module
from flambeau.codegen.gemm_micro import BYTES, Kernel, Kind, narrow, suffix, vector, widen
from flambeau.codegen.jit import compile_kernel

GEOMETRY = (
    "channels",
    "out_z",
    "out_y",
    "out_x",
    "n",
    "c",
    "z",
    "y",
    "x",
    "o_n",
    "o_c",
    "o_z",
    "o_y",
    "o_x",
    "size_z",
    "size_y",
    "size_x",
    "step_z",
    "step_y",
    "step_x",
    "divisor",
    "table_plane",
    "slice",
)
AXES = "zyx"
BEGIN, COUNT, EXTENT = range(3)
LOWEST = {"uint8": 0, "int8": -(1 << 7), "int16": -(1 << 15), "int32": -(1 << 31), "int64": -(1 << 63)}


class Windows:
    """The tables of the windows: in the constants, or in a buffer with tables for every plane."""

    def __init__(self, f: Kernel, c: dict[str, Value], slot: int | None):
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


def _unordered(f: Kernel, value: Value) -> Value:
    shape = "i1" if value.type[0] != "<" else value.type[: value.type.index("x") + 2] + "i1>"
    return f.emit(shape, f"fcmp uno {value.type} {value.name}, {value.name}")


def _replaces(f: Kernel, kind: Kind, value: Value, best: Value) -> Value:
    """Whether a later element takes the place of the maximum: greater, or not a number."""
    return (value > best) | _unordered(f, value) if kind.floating else value > best


def _planes(f: Kernel, c: dict[str, Value], plane: Value, prefix: str = "") -> Value:
    channels = c["channels"]
    return plane.unsigned_div(channels) * c[prefix + "n"] + plane.unsigned_rem(channels) * c[prefix + "c"]


@cache
def forward_kernel(kind: Kind, reduce: str, index: str | None, buffered: bool) -> int:
    """Maximum or mean of every window; the range is rows of the output. Slots: out, [index], input, [tables]."""
    f = Kernel()
    c = f.constants(GEOMETRY)
    out, source = f.buffer(0), f.buffer(2 if index else 1)
    windows = Windows(f, c, (3 if index else 2) if buffered else None)
    with f.loop(f["begin"], f["end"]) as row:
        oy, rest = row.unsigned_rem(c["out_y"]), row.unsigned_div(c["out_y"])
        oz, plane = rest.unsigned_rem(c["out_z"]), rest.unsigned_div(c["out_z"])
        windows.of_plane(plane)
        image = f.at(kind.storage, source, _planes(f, c, plane))
        target = _planes(f, c, plane, "o_") + oz * c["o_z"] + oy * c["o_y"]
        first_z, count_z = windows.entry("z", BEGIN, oz), windows.entry("z", COUNT, oz)
        first_y, count_y = windows.entry("y", BEGIN, oy), windows.entry("y", COUNT, oy)
        if reduce == "mean":
            extent = windows.entry("z", EXTENT, oz) * windows.entry("y", EXTENT, oy)
        with f.loop(0, c["out_x"]) as ox:
            first_x, count_x = windows.entry("x", BEGIN, ox), windows.entry("x", COUNT, ox)
            start = 0 if reduce == "mean" else float("-inf") if kind.floating else LOWEST[kind.name]
            best = f.variable(kind.compute, start)
            where = f.variable("i64", (first_z * c["size_y"] + first_y) * c["size_x"] + first_x) if index else None
            with f.loop(0, count_z) as kz, f.loop(0, count_y) as ky:
                z, y = first_z + kz * c["step_z"], first_y + ky * c["step_y"]
                line = f.at(kind.storage, image, z * c["z"] + y * c["y"])
                with f.loop(0, count_x) as kx:
                    x = first_x + kx * c["step_x"]
                    value = widen(f, kind, f.load(kind.storage, line, x * c["x"]))
                    if reduce == "mean":
                        best.add(value)
                    else:
                        taken = _replaces(f, kind, value, best.get())
                        best.set(f.select(taken, value, best.get()))
                        if where is not None:
                            where.set(f.select(taken, (z * c["size_y"] + y) * c["size_x"] + x, where.get()))
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
    return compile_kernel(module(f))


@cache
def mean_kernel(kind: Kind) -> int:
    """Means of windows of images whose rows are contiguous: the window's rows are added up first, then its columns.

    The range is rows of the output. Slots: out, input; scratch: a row of the input per thread.
    """
    f = Kernel()
    c = f.constants(GEOMETRY)
    windows = Windows(f, c, None)
    lanes, size = kind.lanes, BYTES[kind.storage]
    sums = f.scratch(f["thread"] * c["slice"])
    with f.loop(f["begin"], f["end"]) as row:
        oy, rest = row.unsigned_rem(c["out_y"]), row.unsigned_div(c["out_y"])
        oz, plane = rest.unsigned_rem(c["out_z"]), rest.unsigned_div(c["out_z"])
        windows.of_plane(plane)
        first_z, count_z = windows.entry("z", BEGIN, oz), windows.entry("z", COUNT, oz)
        first_y, count_y = windows.entry("y", BEGIN, oy), windows.entry("y", COUNT, oy)
        image = f.at(kind.storage, f.buffer(1), _planes(f, c, plane) + first_z * c["z"] + first_y * c["y"])

        def add_rows(x: Value, left: Value | None) -> None:
            total = f.variable(kind.accumulator, 0)
            with f.loop(0, count_z) as kz, f.loop(0, count_y) as ky:
                place = f.at(kind.storage, image, kz * c["z"] + ky * c["y"] + x)
                if left is None:
                    stored = f.load(vector(kind.storage, lanes), place, align=size)
                else:
                    stored = _masked(f, left, lanes, kind.storage, place, size)
                total.add(widen(f, kind, stored))
            f.store(total.get(), f.at(kind.compute, sums, x), align=BYTES[kind.compute])

        whole = c["size_x"] & -lanes
        with f.loop(0, whole, lanes) as x:
            add_rows(x, None)
        with f.when(whole < c["size_x"]):
            add_rows(whole, c["size_x"] - whole)
        extent = windows.entry("z", EXTENT, oz) * windows.entry("y", EXTENT, oy)
        target = f.at(kind.storage, f.buffer(0), _planes(f, c, plane, "o_") + oz * c["o_z"] + oy * c["o_y"])
        with f.loop(0, c["out_x"]) as ox:
            total = f.variable(kind.compute, 0)
            count_x = windows.entry("x", COUNT, ox)
            start = f.at(kind.compute, sums, windows.entry("x", BEGIN, ox))
            with f.loop(0, count_x) as kx:
                total.add(f.load(kind.compute, start, kx))
            divisor = f.select(c["divisor"].equals(0), extent * windows.entry("x", EXTENT, ox), c["divisor"])
            empty = (count_z * count_y * count_x).equals(0)
            quotient = total.get() / f.convert(divisor, kind.compute, "sitofp")
            f.store(narrow(f, kind, f.select(empty, f.value(0, kind.compute), quotient)), target, ox * c["o_x"])
    return compile_kernel(module(f))


def _gathered(f: Kernel, element: str, base: Value, index: Value, lanes: int) -> Value:
    """Elements base[index[i]]."""
    pointers = f.emit(vector("ptr", lanes), f"getelementptr {element}, ptr {base.name}, {index.type} {index.name}")
    result = vector(element, lanes)
    name = f"llvm.masked.gather.{suffix(result)}.v{lanes}p0"
    f.declarations.add(f"declare {result} @{name}({pointers.type}, <{lanes} x i1>, {result})")
    on = ", ".join(["i1 true"] * lanes)
    return f.emit(
        result,
        f"call {result} @{name}({pointers.type} align {BYTES[element]} {pointers.name}, <{lanes} x i1> <{on}>, "
        f"{result} zeroinitializer)",
    )


@cache
def maximum_kernel(kind: Kind, index: str | None) -> int:
    """Maxima of windows, none of them empty, of images and results whose rows are contiguous; the range is rows of the output.

    The maximum of the window's rows is found first, column by column, then that of its columns; of equal elements the first in
    the window wins, of those that are not numbers the last. Slots: out, [index], input; scratch: two rows of
    the input per thread.
    """
    f = Kernel()
    c = f.constants(GEOMETRY)
    windows = Windows(f, c, None)
    lanes, size, compute = kind.lanes, BYTES[kind.storage], kind.compute
    whole, whole_lines = vector(compute, lanes), vector("i32", lanes)
    source, out = f.buffer(2 if index else 1), f.buffer(0)
    largest = f.scratch(f["thread"] * c["slice"])
    lines = f.at(compute, largest, c["size_x"] + lanes)

    def strips(count: Value, body: Callable[[Value, Value | None], None]) -> None:
        end = count & -lanes
        with f.loop(0, end, lanes) as x:
            body(x, None)
        with f.when(end < count):
            body(end, count - end)

    with f.loop(f["begin"], f["end"]) as row:
        oy, rest = row.unsigned_rem(c["out_y"]), row.unsigned_div(c["out_y"])
        oz, plane = rest.unsigned_rem(c["out_z"]), rest.unsigned_div(c["out_z"])
        windows.of_plane(plane)
        first_z, count_z = windows.entry("z", BEGIN, oz), windows.entry("z", COUNT, oz)
        first_y, count_y = windows.entry("y", BEGIN, oy), windows.entry("y", COUNT, oy)
        image = f.at(kind.storage, source, _planes(f, c, plane))

        def down(x: Value, left: Value | None) -> None:
            best = f.variable(whole, float("-inf"))
            line = f.variable(whole_lines, f.splat(f.convert(first_z * c["size_y"] + first_y, "i32", "trunc"), lanes))
            with f.loop(0, count_z) as kz, f.loop(0, count_y) as ky:
                z, y = first_z + kz * c["step_z"], first_y + ky * c["step_y"]
                place = f.at(kind.storage, image, z * c["z"] + y * c["y"] + x)
                if left is None:
                    stored = f.load(vector(kind.storage, lanes), place, align=size)
                else:
                    stored = _masked(f, left, lanes, kind.storage, place, size)
                value = widen(f, kind, stored)
                taken = _replaces(f, kind, value, best.get())
                best.set(f.select(taken, value, best.get()))
                if index:
                    number = f.splat(f.convert(z * c["size_y"] + y, "i32", "trunc"), lanes)
                    line.set(f.select(taken, number, line.get()))
            f.store(best.get(), f.at(compute, largest, x), align=BYTES[compute])
            if index:
                f.store(line.get(), f.at("i32", lines, x), align=4)

        strips(c["size_x"], down)
        target = _planes(f, c, plane, "o_") + oz * c["o_z"] + oy * c["o_y"]
        table = {
            what: f.at("i64", windows.place, (c["out_z"] + c["out_y"]) * 3 + c["out_x"] * what)
            for what in (BEGIN, COUNT)
        }
        most = c["divisor"]  # the most taps that a window has along x
        step = f.splat(f.convert(c["step_x"], "i32", "trunc"), lanes)

        def across(x: Value, left: Value | None) -> None:
            def entries(what: int) -> Value:
                if left is None:
                    wide = f.load(vector("i64", lanes), table[what], x, align=8)
                else:
                    wide = _masked(f, left, lanes, "i64", f.at("i64", table[what], x), 8)
                return f.convert(wide, whole_lines, "trunc")

            first, last = entries(BEGIN), entries(COUNT) - 1
            if left is not None:
                last = f.select(last < 0, f.value(0, whole_lines), last)
            best = f.variable(whole, _gathered(f, compute, largest, first, lanes))
            line = f.variable(whole_lines, _gathered(f, "i32", lines, first, lanes) if index else 0)
            column = f.variable(whole_lines, first)
            with f.loop(1, most) as k:
                tap = f.splat(f.convert(k, "i32", "trunc"), lanes)
                place = first + f.select(tap < last, tap, last) * step
                value = _gathered(f, compute, largest, place, lanes)
                before = best.get()
                taken = _replaces(f, kind, value, before)
                if index:
                    found = _gathered(f, "i32", lines, place, lanes)
                    earlier = value.equals(before) & (found < line.get())
                    later = _unordered(f, value) & ((found >= line.get()) | before.equals(before))
                    taken = (value > before) | earlier | later
                    line.set(f.select(taken, found, line.get()))
                    column.set(f.select(taken, place, column.get()))
                best.set(f.select(taken, value, before))
            stores = [(narrow(f, kind, best.get()), f.at(kind.storage, out, target + x), size)]
            if index:
                flat = line.get() * f.splat(f.convert(c["size_x"], "i32", "trunc"), lanes) + column.get()
                flat = flat if index == "i32" else f.convert(flat, vector("i64", lanes), "sext")
                stores.append((flat, f.at(index, f.buffer(1), target + x), BYTES[index]))
            for value, place, align in stores:
                if left is None:
                    f.store(value, place, align=align)
                else:
                    f.masked_store(value, place, f.mask(left, lanes), align)

        strips(c["out_x"], across)
    return compile_kernel(module(f))


def _clear_plane(f: Kernel, c: dict[str, Value], kind: Kind, image: Value, unit: bool) -> None:
    zero = f.value(0, kind.storage)
    with f.loop(0, c["size_z"]) as z, f.loop(0, c["size_y"]) as y:
        line = f.at(kind.storage, image, z * c["z"] + y * c["y"])
        with f.loop(0, c["size_x"]) as x:
            f.store(zero, line, x if unit else x * c["x"])


def _outputs(f: Kernel, c: dict[str, Value]):
    """Loops over the output positions of a plane: contexts to enter in order."""
    return f.loop(0, c["out_z"]), f.loop(0, c["out_y"]), f.loop(0, c["out_x"])


def _position(f: Kernel, c: dict[str, Value], flat: Value, dense: bool) -> Value:
    """Element offset in a plane of a flat position in it."""
    if dense:
        return flat
    x, rest = flat.unsigned_rem(c["size_x"]), flat.unsigned_div(c["size_x"])
    return rest.unsigned_div(c["size_y"]) * c["z"] + rest.unsigned_rem(c["size_y"]) * c["y"] + x * c["x"]


@cache
def scatter_kernel(kind: Kind, index: str, dense: bool, adds: bool) -> int:
    """Zeroed planes with values added, or stored, at their indices; the range is planes. Slots: out, values, index.

    An index outside its plane is left out, and leaves itself (if not negative, 1 + itself)
    as the error code.
    """
    f = Kernel()
    c = f.constants(GEOMETRY)
    volume = c["size_z"] * c["size_y"] * c["size_x"]
    out, values, places = f.buffer(0), f.buffer(1), f.buffer(2)
    with f.loop(f["begin"], f["end"]) as plane:
        image = f.at(kind.storage, out, _planes(f, c, plane))
        _clear_plane(f, c, kind, image, dense)
        place = _planes(f, c, plane, "o_")
        loops = _outputs(f, c)
        with loops[0] as oz, loops[1] as oy, loops[2] as ox:
            at = place + oz * c["o_z"] + oy * c["o_y"] + ox * c["o_x"]
            flat = f.load(index, places, at)
            flat = flat if index == "i64" else f.convert(flat, "i64", "sext")
            value = f.load(kind.storage, values, at)
            with f.branches(flat.unsigned_below(volume)) as otherwise:
                goal = f.at(kind.storage, image, _position(f, c, flat, dense))
                if adds:
                    value = narrow(f, kind, widen(f, kind, f.load(kind.storage, goal)) + widen(f, kind, value))
                f.store(value, goal)
                otherwise()
                f.store(f.select(flat < 0, flat, flat + 1), f["p"], 2)
    return compile_kernel(module(f))


@cache
def gather_kernel(kind: Kind, index: str, dense: bool) -> int:
    """The elements of planes at their indices; the range is planes. Slots: out, planes, index. Errors as of `scatter_kernel`."""
    f = Kernel()
    c = f.constants(GEOMETRY)
    volume = c["size_z"] * c["size_y"] * c["size_x"]
    out, images, places = f.buffer(0), f.buffer(1), f.buffer(2)
    with f.loop(f["begin"], f["end"]) as plane:
        image = f.at(kind.storage, images, _planes(f, c, plane))
        place = _planes(f, c, plane, "o_")
        loops = _outputs(f, c)
        with loops[0] as oz, loops[1] as oy, loops[2] as ox:
            at = place + oz * c["o_z"] + oy * c["o_y"] + ox * c["o_x"]
            flat = f.load(index, places, at)
            flat = flat if index == "i64" else f.convert(flat, "i64", "sext")
            with f.branches(flat.unsigned_below(volume)) as otherwise:
                f.store(f.load(kind.storage, image, _position(f, c, flat, dense)), out, at)
                otherwise()
                f.store(f.select(flat < 0, flat, flat + 1), f["p"], 2)
    return compile_kernel(module(f))


@cache
def spread_kernel(kind: Kind, unit: bool) -> int:
    """The gradient of the mean: every window gets its share. The range is planes. Slots: out, gradient."""
    f = Kernel()
    c = f.constants(GEOMETRY)
    windows = Windows(f, c, None)
    with f.loop(f["begin"], f["end"]) as plane:
        windows.of_plane(plane)
        image = f.at(kind.storage, f.buffer(0), _planes(f, c, plane))
        _clear_plane(f, c, kind, image, unit)
        place = _planes(f, c, plane, "o_")
        loops = _outputs(f, c)
        with loops[0] as oz, loops[1] as oy:
            extent = windows.entry("z", EXTENT, oz) * windows.entry("y", EXTENT, oy)
            with loops[2] as ox:
                divisor = f.select(c["divisor"].equals(0), extent * windows.entry("x", EXTENT, ox), c["divisor"])
                g = widen(
                    f, kind, f.load(kind.storage, f.buffer(1), place + oz * c["o_z"] + oy * c["o_y"] + ox * c["o_x"])
                )
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
    return compile_kernel(module(f))


# ---------------------------------------------------------------- windows of 2 x 2, two apart

PAIRS = ("out_y", "out_x", "size_y", "size_x")


def _masked(f: Kernel, count: Value, lanes: int, load: str, pointer: Value, align: int) -> Value:
    return f.masked_load(vector(load, lanes), pointer, f.mask(count, lanes), align)


@cache
def pairs_forward_kernel(kind: Kind, reduce: str, coded: bool) -> int:
    """Maximum or mean of 2 x 2 windows of contiguous planes; the range is rows of the output. Slots: out, [code], input.

    The code is the number of the window's element (0 to 3) that is the maximum, as a byte.
    """
    f = Kernel()
    c = f.constants(PAIRS)
    lanes, size = kind.lanes, BYTES[kind.storage]
    with f.loop(f["begin"], f["end"]) as row:
        plane, oy = row.unsigned_div(c["out_y"]), row.unsigned_rem(c["out_y"])
        top = f.at(kind.storage, f.buffer(2 if coded else 1), (plane * c["size_y"] + oy * 2) * c["size_x"])
        lines = top, f.at(kind.storage, top, c["size_x"])
        target = f.at(kind.storage, f.buffer(0), row * c["out_x"])

        def block(x: Value, left: Value | None) -> None:
            values = []
            for line in lines:
                place = f.at(kind.storage, line, x * 2)
                if left is None:
                    pair = f.load(vector(kind.storage, 2 * lanes), place, align=size)
                else:
                    pair = _masked(f, left * 2, 2 * lanes, kind.storage, place, size)
                values += [widen(f, kind, f.shuffle(pair, pair, range(half, 2 * lanes, 2))) for half in (0, 1)]
            best = values[0]
            code = f.value(0, vector("i8", lanes))
            if reduce == "mean":
                best = ((best + values[1]) + values[2] + values[3]) * 0.25
                values = []
            for number, value in enumerate(values[1:], 1):
                taken = _replaces(f, kind, value, best)
                best = f.select(taken, value, best)
                if coded:
                    code = f.select(taken, f.value(number, code.type), code)
            best = narrow(f, kind, best)
            stores = [(best, f.at(kind.storage, target, x), size)]
            if coded:
                stores.append((code, f.at("i8", f.buffer(1), row * c["out_x"] + x), 1))
            for value, place, align in stores:
                if left is None:
                    f.store(value, place, align=align)
                else:
                    f.masked_store(value, place, f.mask(left, lanes), align)

        whole = c["out_x"] & -lanes
        with f.loop(0, whole, lanes) as x:
            block(x, None)
        with f.when(whole < c["out_x"]):
            block(whole, c["out_x"] - whole)
    return compile_kernel(module(f))


@cache
def pairs_backward_kernel(kind: Kind, reduce: str) -> int:
    """The gradient of the maximum or mean of 2 x 2 windows; the range is rows of the output. Slots: out, gradient, [code]."""
    f = Kernel()
    c = f.constants(PAIRS)
    lanes, size = kind.lanes, BYTES[kind.storage]
    with f.loop(f["begin"], f["end"]) as row:
        plane, oy = row.unsigned_div(c["out_y"]), row.unsigned_rem(c["out_y"])
        top = f.at(kind.storage, f.buffer(0), (plane * c["size_y"] + oy * 2) * c["size_x"])
        lines = top, f.at(kind.storage, top, c["size_x"])
        gradient = f.at(kind.storage, f.buffer(1), row * c["out_x"])
        codes = f.at("i8", f.buffer(2), row * c["out_x"]) if reduce == "max" else None
        both = [i // 2 + (i % 2) * lanes for i in range(2 * lanes)]

        def block(x: Value, left: Value | None) -> None:
            def load(storage: str, source: Value, align: int) -> Value:
                if left is None:
                    return f.load(vector(storage, lanes), source, x, align=align)
                return _masked(f, left, lanes, storage, f.at(storage, source, x), align)

            g = load(kind.storage, gradient, size)
            if codes is None:
                share = narrow(f, kind, widen(f, kind, g) * 0.25)
            else:
                code, zero = load("i8", codes, 1), f.value(0, g.type)
            for r, line in enumerate(lines):
                even, odd = [share if codes is None else f.select(code.equals(2 * r + k), g, zero) for k in (0, 1)]
                spread = f.shuffle(even, odd, both)
                place = f.at(kind.storage, line, x * 2)
                if left is None:
                    f.store(spread, place, align=size)
                else:
                    f.masked_store(spread, place, f.mask(left * 2, 2 * lanes), size)

        whole = c["out_x"] & -lanes
        with f.loop(0, whole, lanes) as x:
            block(x, None)
        with f.when(whole < c["out_x"]):
            block(whole, c["out_x"] - whole)
        zero = f.value(0, kind.storage)
        with f.when(c["size_x"] > c["out_x"] * 2):
            for line in lines:
                f.store(zero, line, c["size_x"] - 1)
        with f.when((oy + 1).equals(c["out_y"])):
            with f.when(c["size_y"] > c["out_y"] * 2):
                with f.loop(0, c["size_x"]) as x:
                    f.store(zero, f.at(kind.storage, top, c["size_x"] * 2), x)
    return compile_kernel(module(f))


@cache
def pairs_gather_kernel(kind: Kind) -> int:
    """The elements of 2 x 2 windows that their codes name; the range is rows of the output. Slots: out, planes, code."""
    f = Kernel()
    c = f.constants(PAIRS)
    with f.loop(f["begin"], f["end"]) as row:
        plane, oy = row.unsigned_div(c["out_y"]), row.unsigned_rem(c["out_y"])
        top = f.at(kind.storage, f.buffer(1), (plane * c["size_y"] + oy * 2) * c["size_x"])
        with f.loop(0, c["out_x"]) as x:
            code = f.convert(f.load("i8", f.buffer(2), row * c["out_x"] + x), "i64", "zext")
            value = f.load(kind.storage, top, (code >> 1) * c["size_x"] + x * 2 + (code & 1))
            f.store(value, f.buffer(0), row * c["out_x"] + x)
    return compile_kernel(module(f))
