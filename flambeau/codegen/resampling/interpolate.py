"""Kernels of separable resampling: nearest, linear, cubic and antialiased interpolation along z, y and x, and their gradients.

Every axis has tables: for each output position its taps' input positions and weights. A row of the output is made in two steps:
the input rows of its z and y taps are added up with their weights, then the taps along x are gathered from this sum. The gradient
is another resampling, with transposed tables. Stands on builder.py and strip_mine.py; ops/nn/interpolate.py makes the tables.

Positions are i32, first all of x (tap by tap), then those of y and of z (output position by output position); weights
likewise, in the compute type.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.strip_mine import Strip, gather, strips

GEOMETRY = ("in_z", "in_y", "in_x", "out_z", "out_y", "out_x", "taps_z", "taps_y", "taps_x", "slice")


def _rows(f: Kernel, c: Constants, tables: tuple[Value, Value], compute: str, oz: Value, oy: Value, tap: Value | int):
    """(offset in the input plane, weight) of a row's tap: y taps change fastest."""
    positions, weights = tables
    tap = f.i64(tap)
    ky, kz = tap.unsigned_rem(c["taps_y"]), tap.unsigned_div(c["taps_y"])
    y = c["taps_x"] * c["out_x"] + oy * c["taps_y"] + ky
    z = c["taps_x"] * c["out_x"] + c["taps_y"] * c["out_y"] + oz * c["taps_z"] + kz
    row = f.convert(f.load("i32", positions, z), "i64", "sext") * c["in_y"] + f.convert(
        f.load("i32", positions, y), "i64", "sext"
    )
    return row * c["in_x"], f.load(compute, weights, y) * f.load(compute, weights, z)


def _round_to_byte(f: Kernel, value: Value) -> Value:
    """float lanes to the nearest of 0 ... 255, as i32."""
    low = f.select(value > 0.0, value, f.value(0, value.type)) + 0.5
    return f.convert(f.select(low < 255.0, low, f.value(255, value.type)), vector("i32", _lanes(value)), "fptosi")


def _lanes(value: Value) -> int:
    return int(value.type[1:].split(" ")[0])


def _load_row(f: Kernel, kind: Kind, line: Value, strip: Strip) -> Value:
    stored = strip.load(kind.storage, f.at(kind.storage, line, strip.x))
    if kind.name == "uint8":
        return f.convert(stored, vector("float", kind.lanes), "uitofp")
    return widen(f, kind, stored)


def _compute(kind: Kind) -> str:
    return "float" if kind.name == "uint8" else kind.compute


@compiled()
def forward_kernel(kind: Kind, row_taps: int, taps: int) -> str:
    """Resampled rows; the range is rows of the output. row_taps, taps: taps along z and y, and along x; 0 for any number.

    Slots: out, input, positions, weights; scratch: a row of the input per thread.
    """
    f = Kernel()
    c = f.constants(GEOMETRY)
    compute, lanes = _compute(kind), kind.lanes
    whole = vector(compute, lanes)
    tables = f.buffer(2), f.buffer(3)
    total = f.scratch(f["thread"] * c["slice"])
    with f.loop(f["begin"], f["end"]) as row:
        oy, rest = row.unsigned_rem(c["out_y"]), row.unsigned_div(c["out_y"])
        oz, plane = rest.unsigned_rem(c["out_z"]), rest.unsigned_div(c["out_z"])
        image = f.at(kind.storage, f.buffer(1), plane * c["in_z"] * c["in_y"] * c["in_x"])
        if row_taps:
            chosen = [_rows(f, c, tables, compute, oz, oy, t) for t in range(row_taps)]
            lines = [(f.at(kind.storage, image, offset), f.splat(weight, lanes)) for offset, weight in chosen]

            def add_rows(strip: Strip) -> None:
                value = None
                for line, weight in lines:
                    loaded = _load_row(f, kind, line, strip)
                    value = loaded * weight if value is None else f.fma(loaded, weight, value)
                f.store(value, f.at(compute, total, strip.x), align=BYTES[compute])

            strips(f, c["in_x"], lanes, add_rows)
        else:
            with f.loop(0, c["taps_z"] * c["taps_y"]) as t:
                offset, weight = _rows(f, c, tables, compute, oz, oy, t)
                line, weight = f.at(kind.storage, image, offset), f.splat(weight, lanes)

                def add_row(strip: Strip) -> None:
                    place = f.at(compute, total, strip.x)
                    before = f.load(whole, place, align=BYTES[compute])
                    before = f.select(f.splat(t.equals(0), lanes), f.value(0, whole), before)
                    f.store(f.fma(_load_row(f, kind, line, strip), weight, before), place, align=BYTES[compute])

                strips(f, c["in_x"], lanes, add_row)
        target = f.at(kind.storage, f.buffer(0), row * c["out_x"])

        def blend(strip: Strip) -> None:
            x, mask = strip.x, strip.mask()

            def tap(k: Value | int) -> tuple[Value, Value]:
                at = c["out_x"] * k + x
                if mask is None:
                    index = f.load(vector("i32", lanes), f.at("i32", tables[0], at), align=4)
                    weight = f.load(whole, f.at(compute, tables[1], at), align=BYTES[compute])
                else:
                    index = f.masked_load(vector("i32", lanes), f.at("i32", tables[0], at), mask, 4)
                    weight = f.masked_load(whole, f.at(compute, tables[1], at), mask, BYTES[compute])
                return gather(f, compute, total, index, mask, lanes), weight

            if taps:
                value = None
                for k in range(taps):
                    element, weight = tap(k)
                    value = element * weight if value is None else f.fma(element, weight, value)
            else:
                sum = f.variable(whole, 0)
                with f.loop(0, c["taps_x"]) as k:
                    element, weight = tap(k)
                    sum.set(f.fma(element, weight, sum.get()))
                value = sum.get()
            if kind.name == "uint8":
                stored = f.convert(_round_to_byte(f, value), vector("i8", lanes), "trunc")
            else:
                stored = narrow(f, kind, value)
            place = f.at(kind.storage, target, x)
            if mask is None:
                f.store(stored, place, align=BYTES[kind.storage])
            else:
                f.masked_store(stored, place, mask, BYTES[kind.storage])

        strips(f, c["out_x"], lanes, blend)
    return module(f)


@compiled()
def nearest_kernel(storage: str) -> str:
    """Rows of copied elements; the range is rows of the output. Slots: out, input, positions."""
    f = Kernel()
    c = f.constants(GEOMETRY)
    positions = f.buffer(2)
    lanes = 16 if BYTES[storage] <= 4 else 8
    with f.loop(f["begin"], f["end"]) as row:
        oy, rest = row.unsigned_rem(c["out_y"]), row.unsigned_div(c["out_y"])
        oz, plane = rest.unsigned_rem(c["out_z"]), rest.unsigned_div(c["out_z"])
        y = f.convert(f.load("i32", positions, c["out_x"] + oy), "i64", "sext")
        z = f.convert(f.load("i32", positions, c["out_x"] + c["out_y"] + oz), "i64", "sext")
        line = f.at(storage, f.buffer(1), ((plane * c["in_z"] + z) * c["in_y"] + y) * c["in_x"])
        target = f.at(storage, f.buffer(0), row * c["out_x"])
        start: Value | int = 0
        if BYTES[storage] >= 4:
            start = c["out_x"] & -lanes
            with f.loop(0, start, lanes) as x:
                index = f.load(vector("i32", lanes), f.at("i32", positions, x), align=4)
                f.store(gather(f, storage, line, index, None, lanes), f.at(storage, target, x), align=BYTES[storage])
        with f.loop(start, c["out_x"]) as x:
            f.store(f.load(storage, line, f.convert(f.load("i32", positions, x), "i64", "sext")), target, x)
    return module(f)
