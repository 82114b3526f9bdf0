"""Kernels of pooling over images whose rows are contiguous: first the windows' rows are reduced, by vectors, then their columns.

Stands on windows.py and strip_mine.py; ops/nn/max_pool.py and ops/nn/average_pool.py plan the phases.
"""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.codegen.builder import Value, Variable, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.pooling.windows import BEGIN, COUNT, EXTENT, GEOMETRY, Windows, planes, replaces, unordered
from flambeau.codegen.strip_mine import Strip, gather, strips


@dataclass
class Row:
    """A row of the output: its plane, where in it, and what its windows cover along z and y."""

    plane: Value
    z: Value
    y: Value
    first_z: Value
    count_z: Value
    first_y: Value
    count_y: Value


def row_of(c: Constants, windows: Windows, number: Value) -> Row:
    y, rest = number.unsigned_rem(c["out_y"]), number.unsigned_div(c["out_y"])
    z, plane = rest.unsigned_rem(c["out_z"]), rest.unsigned_div(c["out_z"])
    windows.of_plane(plane)
    first_z, count_z = windows.entry("z", BEGIN, z), windows.entry("z", COUNT, z)
    first_y, count_y = windows.entry("y", BEGIN, y), windows.entry("y", COUNT, y)
    return Row(plane, z, y, first_z, count_z, first_y, count_y)


@compiled()
def mean_kernel(kind: Kind) -> str:
    """Means of windows of images whose rows are contiguous: the window's rows are added up first, then its columns.

    The range is rows of the output. Slots: out, input; scratch: a row of the input per thread.
    """
    f = Kernel()
    c = f.constants(GEOMETRY)
    windows = Windows(f, c, None)
    sums = f.scratch(f["thread"] * c["slice"])
    with f.loop(f["begin"], f["end"]) as number:
        row = row_of(c, windows, number)
        image = f.at(kind.storage, f.buffer(1), planes(f, c, row.plane) + row.first_z * c["z"] + row.first_y * c["y"])

        def add_rows(strip: Strip) -> None:
            total = f.variable(kind.accumulator, 0)
            with f.loop(0, row.count_z) as kz, f.loop(0, row.count_y) as ky:
                place = f.at(kind.storage, image, kz * c["z"] + ky * c["y"] + strip.x)
                total.add(widen(f, kind, strip.load(kind.storage, place)))
            f.store(total.get(), f.at(kind.compute, sums, strip.x), align=BYTES[kind.compute])

        strips(f, c["size_x"], kind.lanes, add_rows)
        extent = windows.entry("z", EXTENT, row.z) * windows.entry("y", EXTENT, row.y)
        target = f.at(kind.storage, f.buffer(0), planes(f, c, row.plane, "o_") + row.z * c["o_z"] + row.y * c["o_y"])
        with f.loop(0, c["out_x"]) as ox:
            total = f.variable(kind.compute, 0)
            count_x = windows.entry("x", COUNT, ox)
            start = f.at(kind.compute, sums, windows.entry("x", BEGIN, ox))
            with f.loop(0, count_x) as kx:
                total.add(f.load(kind.compute, start, kx))
            divisor = f.select(c["divisor"].equals(0), extent * windows.entry("x", EXTENT, ox), c["divisor"])
            empty = (row.count_z * row.count_y * count_x).equals(0)
            quotient = total.get() / f.convert(divisor, kind.compute, "sitofp")
            f.store(narrow(f, kind, f.select(empty, f.value(0, kind.compute), quotient)), target, ox * c["o_x"])
    return module(f)


class Maxima:
    """The kernel of maxima: those of the windows' rows go to scratch memory, with the rows' numbers if indices are wanted."""

    def __init__(self, kind: Kind, index: str | None) -> None:
        self.kind, self.index, self.lanes = kind, index, kind.lanes
        self.whole, self.integers = vector(kind.compute, kind.lanes), vector("i32", kind.lanes)
        f = self.f = Kernel()
        c = self.c = f.constants(GEOMETRY)
        self.windows = Windows(f, c, None)
        self.source, self.out = f.buffer(2 if index else 1), f.buffer(0)
        self.largest = f.scratch(f["thread"] * c["slice"])
        self.lines = f.at(kind.compute, self.largest, c["size_x"] + kind.lanes)
        with f.loop(f["begin"], f["end"]) as number:
            row = row_of(c, self.windows, number)
            self.reduce_rows(row)
            self.reduce_columns(row)

    def reduce_rows(self, row: Row) -> None:
        """The maximum of each column of the windows."""
        f, c, kind = self.f, self.c, self.kind
        image = f.at(kind.storage, self.source, planes(f, c, row.plane))

        def column(strip: Strip) -> None:
            best = f.variable(self.whole, float("-inf"))
            first = f.convert(row.first_z * c["size_y"] + row.first_y, "i32", "trunc")
            line = f.variable(self.integers, f.splat(first, self.lanes))
            with f.loop(0, row.count_z) as kz, f.loop(0, row.count_y) as ky:
                z, y = row.first_z + kz * c["step_z"], row.first_y + ky * c["step_y"]
                place = f.at(kind.storage, image, z * c["z"] + y * c["y"] + strip.x)
                value = widen(f, kind, strip.load(kind.storage, place))
                taken = replaces(f, kind, value, best.get())
                best.set(f.select(taken, value, best.get()))
                if self.index:
                    number = f.splat(f.convert(z * c["size_y"] + y, "i32", "trunc"), self.lanes)
                    line.set(f.select(taken, number, line.get()))
            f.store(best.get(), f.at(kind.compute, self.largest, strip.x), align=BYTES[kind.compute])
            if self.index:
                f.store(line.get(), f.at("i32", self.lines, strip.x), align=4)

        strips(f, c["size_x"], self.lanes, column)

    def reduce_columns(self, row: Row) -> None:
        """The maximum of each window, from those of its columns."""
        f, c, kind = self.f, self.c, self.kind
        target = planes(f, c, row.plane, "o_") + row.z * c["o_z"] + row.y * c["o_y"]
        begin, count = (
            f.at("i64", self.windows.place, (c["out_z"] + c["out_y"]) * 3 + c["out_x"] * what) for what in (BEGIN, COUNT)
        )
        most = c["divisor"]  # the most taps that a window has along x
        step = f.splat(f.convert(c["step_x"], "i32", "trunc"), self.lanes)

        def window(strip: Strip) -> None:
            def entries(table: Value) -> Value:
                return f.convert(strip.load("i64", f.at("i64", table, strip.x)), self.integers, "trunc")

            first, last = entries(begin), entries(count) - 1
            if strip.left is not None:
                last = f.select(last < 0, f.value(0, self.integers), last)
            best = f.variable(self.whole, self.gather(kind.compute, self.largest, first))
            line = f.variable(self.integers, self.gather("i32", self.lines, first) if self.index else 0)
            column = f.variable(self.integers, first)
            with f.loop(1, most) as k:
                tap = f.splat(f.convert(k, "i32", "trunc"), self.lanes)
                place = first + f.select(tap < last, tap, last) * step
                value = self.gather(kind.compute, self.largest, place)
                before = best.get()
                taken = replaces(f, kind, value, before)
                if self.index:
                    found = self.gather("i32", self.lines, place)
                    taken = self.precedes(value, found, before, line)
                    line.set(f.select(taken, found, line.get()))
                    column.set(f.select(taken, place, column.get()))
                best.set(f.select(taken, value, before))
            stores = [(narrow(f, kind, best.get()), kind.storage, f.at(kind.storage, self.out, target + strip.x))]
            if self.index:
                flat = line.get() * f.splat(f.convert(c["size_x"], "i32", "trunc"), self.lanes) + column.get()
                flat = flat if self.index == "i32" else f.convert(flat, vector("i64", self.lanes), "sext")
                stores.append((flat, self.index, f.at(self.index, f.buffer(1), target + strip.x)))
            for store in stores:
                strip.store(*store)

        strips(f, c["out_x"], self.lanes, window)

    def gather(self, element: str, base: Value, index: Value) -> Value:
        return gather(self.f, element, base, index, None, self.lanes)

    def precedes(self, value: Value, found: Value, best: Value, line: Variable) -> Value:
        """Whether a column's maximum takes the place of the best: greater, or equal and of an earlier row, or not a number."""
        earlier = value.equals(best) & (found < line.get())
        later = unordered(self.f, value) & ((found >= line.get()) | best.equals(best))
        return (value > best) | earlier | later


@compiled()
def maximum_kernel(kind: Kind, index: str | None) -> str:
    """Maxima of windows, none of them empty, of images and results whose rows are contiguous; the range is rows of the output.

    The maximum of the window's rows is found first, column by column, then that of its columns; of equal elements the first in
    the window wins, of those that are not numbers the last. Slots: out, [index], input; scratch: two rows of
    the input per thread.
    """
    return module(Maxima(kind, index).f)
