"""Kernels of maxima along rows: of wide windows, whose elements are the lanes of vectors, and of small ones a fixed step apart.

Stands on rows.py and strip_mine.py; ops/nn/max_pool.py plans the phases.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, Variable, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.pooling.rows import row_of
from flambeau.codegen.pooling.windows import BEGIN, COUNT, GEOMETRY, Windows, planes, replaces, unordered
from flambeau.codegen.strip_mine import Strip, strips

LINE = ("size", "count", "pad", "first", "last")  # of a row; outputs first ... last - 1 have windows without padding


def _better(f: Kernel, kind: Kind, b: tuple[Value, Value | None], a: tuple[Value, Value | None]) -> Value:
    """Whether b is the maximum rather than a: greater, or equal and before it, or not a number and behind the last such."""
    (value, place), (best, known) = b, a
    if place is None:
        return replaces(f, kind, value, best)
    earlier = value.equals(best) & (place < known)
    return (value > best) | earlier | (unordered(f, value) & ((place > known) | best.equals(best)))


@compiled(INDEXED)
def wide_kernel(kind: Kind, index: str | None) -> str:
    """Maxima of windows of many elements along x, none of them empty; the range is rows of the output.

    Of equal elements the first in the window wins, of those that are not numbers the last. Slots: out, [index], input.
    """
    f = Kernel()
    c = f.constants(GEOMETRY)
    windows = Windows(f, c, None)
    lanes, integers = kind.lanes, vector("i32", kind.lanes)
    steps = Value(f, integers, "<" + ", ".join(f"i32 {i}" for i in range(lanes)) + ">")
    best = f.variable(kind.accumulator)
    where = f.variable(integers) if index else None
    with f.loop(f["begin"], f["end"]) as number:
        row = row_of(c, windows, number)
        image = f.at(kind.storage, f.buffer(2 if index else 1), planes(f, c, row.plane))
        target = planes(f, c, row.plane, "o_") + row.z * c["o_z"] + row.y * c["o_y"]
        with f.loop(0, c["out_x"]) as ox:
            first_x, count_x = windows.entry("x", BEGIN, ox), windows.entry("x", COUNT, ox)
            best.set(float("-inf"))
            if where is not None:
                first = (row.first_z * c["size_y"] + row.first_y) * c["size_x"] + first_x
                where.set(f.splat(f.convert(first, "i32", "trunc"), lanes))
            with f.loop(0, row.count_z) as kz, f.loop(0, row.count_y) as ky:
                z, y = row.first_z + kz * c["step_z"], row.first_y + ky * c["step_y"]
                run = f.at(kind.storage, image, z * c["z"] + y * c["y"] + first_x)
                flat = (z * c["size_y"] + y) * c["size_x"] + first_x

                def take(strip: Strip, run: Value = run, flat: Value = flat) -> None:
                    value = widen(f, kind, strip.load(kind.storage, f.at(kind.storage, run, strip.x)))
                    taken, mask = replaces(f, kind, value, best.get()), strip.mask()
                    taken = taken if mask is None else taken & mask
                    best.set(f.select(taken, value, best.get()))
                    if where is not None:
                        place = f.splat(f.convert(flat + strip.x, "i32", "trunc"), lanes) + steps
                        where.set(f.select(taken, place, where.get()))

                strips(f, count_x, lanes, take)
            value, place = _of_lanes(f, kind, best, where)
            f.store(narrow(f, kind, value), f.buffer(0), target + ox * c["o_x"])
            if place is not None:
                f.store(place if index == "i32" else f.convert(place, "i64", "sext"), f.buffer(1), target + ox * c["o_x"])
    return module(f)


def _of_lanes(f: Kernel, kind: Kind, best: Variable, where: Variable | None) -> tuple[Value, Value | None]:
    """The maximum of a vector's elements, and its place."""
    value, place, width = best.get(), where.get() if where is not None else None, kind.lanes
    while width > 1:
        width //= 2
        low, high = range(width), range(width, 2 * width)
        a = f.shuffle(value, value, low), None if place is None else f.shuffle(place, place, low)
        b = f.shuffle(value, value, high), None if place is None else f.shuffle(place, place, high)
        taken = _better(f, kind, b, a)
        value = f.select(taken, b[0], a[0])
        place = None if place is None else f.select(taken, b[1], a[1])

    def only(x: Value, type: str) -> Value:
        return f.emit(type, f"extractelement {x.type} {x.name}, i64 0")

    return only(value, kind.compute), None if place is None else only(place, "i32")


@compiled(INDEXED)
def line_kernel(kind: Kind, taps: int, step: int, spread: int) -> str:
    """Maxima of windows of `taps` elements, `spread` apart, every `step` elements of contiguous rows, which are the range.

    Slots: out, input. Windows that reach out of their row are taken element by element.
    """
    f = Kernel()
    c = f.constants(LINE)
    lanes, size = kind.lanes, BYTES[kind.storage]
    needed = step * (lanes - 1) + 1
    wide = vector(kind.storage, lanes * step)
    with f.loop(f["begin"], f["end"]) as row:
        line = f.at(kind.storage, f.buffer(1), row * c["size"])
        out = f.at(kind.storage, f.buffer(0), row * c["count"])

        def one(x: Value, line: Value = line, out: Value = out) -> None:
            best = f.variable(kind.compute, float("-inf"))
            for k in range(taps):
                place = x * step + k * spread - c["pad"]
                with f.when(place.unsigned_below(c["size"])):
                    value = widen(f, kind, f.load(kind.storage, line, place))
                    best.set(f.select(replaces(f, kind, value, best.get()), value, best.get()))
            f.store(narrow(f, kind, best.get()), out, x)

        def several(strip: Strip, line: Value = line, out: Value = out) -> None:
            best = None
            for k in range(taps):
                place = f.at(kind.storage, line, (c["first"] + strip.x) * step + k * spread - c["pad"])
                many = f.i64(needed) if strip.left is None else (strip.left - 1) * step + 1
                if step == 1:
                    read = strip.load(kind.storage, place)
                else:  # all that lies between them, but nothing behind the last
                    run = f.masked_load(wide, place, f.mask(many, lanes * step), size)
                    read = f.shuffle(run, run, range(0, lanes * step, step))
                read = widen(f, kind, read)
                best = read if best is None else f.select(replaces(f, kind, read, best), read, best)
            strip.store(narrow(f, kind, best), kind.storage, f.at(kind.storage, out, c["first"] + strip.x))

        with f.loop(0, c["first"]) as x:
            one(x)
        strips(f, c["last"] - c["first"], lanes, several)
        with f.loop(c["last"], c["count"]) as x:
            one(x)
    return module(f)
