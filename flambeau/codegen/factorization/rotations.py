"""Plane rotations of neighbouring columns: the log that implicit QL and QR iterations keep of them, and their application to a
matrix of vectors, many sweeps to a tile of rows while it is in cache (Van Zee, van de Geijn and Quintana-Orti 2014,
"Restructuring the tridiagonal and bidiagonal QR algorithms for performance").

A sweep rotates columns p and p + s, then p + s and p + 2 s, ...; s is 1 or -1. A rotation is real, so a complex matrix is a real
one with twice the rows. Used by eigh.py and svd.py; stands on columns.py.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.builder import Value, Variable
from flambeau.codegen.factorization.columns import Field, helper, root
from flambeau.codegen.gemm_micro import Kernel

HEAD = 4                # words that tell of a sweep: its first column, its step, its rotations, where they are in the log
TOGETHER = 4            # vectors of rows that are rotated together
TINY = 1e-250           # sums of squares from which roots are taken as they are
LIFT = 2.0 ** 500

ROTATE = ("z", "ld", "from", "to", "log", "heads", "sweeps")


@cache
def rotate_text(field: Field, few: bool = False) -> Kernel:
    """void rotate(z, ld, from, to, log, heads, sweeps): sweeps of a log applied to rows [from, to) of a matrix, all counted in
    real parts; from, to: multiples of a vector. few: for few rows, less to compile."""
    f = helper("rotate", ROTATE, ("z", "log", "heads"))
    width = field.width

    def tile(i: Value, vectors: int) -> None:
        carried = [f.variable(field.vector) for _ in range(vectors)]
        with f.loop(0, f["sweeps"]) as k:
            start, step, count, offset = (f.load("i64", f["heads"], k * HEAD + word) for word in range(HEAD))
            step = step * f["ld"]
            first = start * f["ld"] + i
            for v, x in enumerate(carried):
                x.set(_load(f, field, f["z"], first + v * width))
            with f.loop(0, count) as t:
                pair = f.at(field.real, f["log"], (offset + t) * 2)
                c, s = (f.splat(f.load(field.real, pair, part), width) for part in range(2))
                here = first + t * step
                for v, x in enumerate(carried):
                    y, held = _load(f, field, f["z"], here + step + v * width), x.get()
                    _store(f, field, f.fma(s, y, c * held), f["z"], here + v * width)
                    x.set(f.fma(c, y, -(s * held)))
            for v, x in enumerate(carried):
                _store(f, field, x.get(), f["z"], first + count * step + v * width)
    if few:
        with f.loop(f["from"], f["to"], width) as i:
            tile(i, 1)
        return f
    whole = f["from"] + (f["to"] - f["from"]).unsigned_div(f.i64(TOGETHER * width)) * (TOGETHER * width)
    with f.loop(f["from"], whole, TOGETHER * width) as i:
        tile(i, TOGETHER)
    with f.loop(whole, f["to"], width) as i:
        tile(i, 1)
    return f


def _load(f: Kernel, field: Field, pointer: Value, index: Value) -> Value:
    return f.load(field.vector, f.at(field.real, pointer, index), align=field.bytes // field.parts)


def _store(f: Kernel, field: Field, value: Value, pointer: Value, index: Value) -> None:
    f.store(value, f.at(field.real, pointer, index), align=field.bytes // field.parts)


def log_rotation(f: Kernel, field: Field, log: Value, index: Value, c: Value, s: Value) -> None:
    """Write one rotation, given in double precision."""
    pair = f.at(field.real, log, index * 2)
    for part, x in enumerate((c, s)):
        f.store(x if field.real == "double" else f.convert(x, "float", "fptrunc"), pair, part)


def log_head(f: Kernel, heads: Value, sweep: Value, start: Value, step: Value, count: Value, offset: Value) -> None:
    for word, x in enumerate((start, step, count, offset)):
        f.store(x, heads, sweep * HEAD + word)


class Rotation:
    """The plane rotation that takes (g, h) to (r, 0): c, s and r are variables, in double precision. exact: so that vectors which
    many of them are applied to stay orthonormal; otherwise sooner."""

    def __init__(self, f: Kernel, exact: bool = True):
        self.f, self.exact = f, exact
        self.c, self.s, self.r = (f.variable("double") for _ in range(3))

    def find(self, g: Value, h: Value) -> None:
        f = self.f
        square = f.fma(g, g, h * h)
        size = root(f, square)
        self.r.set(size)
        if self.exact:
            self.c.set(g / size)
            self.s.set(h / size)
        else:       # sqrt(x) / x, of which root and quotient are found at the same time, is 1 / sqrt(x)
            inverse = size * (f.value(1, "double") / square)
            self.c.set(g * inverse)
            self.s.set(h * inverse)
        with f.when(square < TINY):
            g, h = g * LIFT, h * LIFT
            square = f.fma(g, g, h * h)
            zero = square.equals(0)
            size = root(f, f.select(zero, 1, square))
            self.r.set(f.select(zero, 0, size * (1 / LIFT)))
            self.c.set(f.select(zero, 1, g / size))
            self.s.set(f.select(zero, 0, h / size))


def insert_in_order(f: Kernel, values: Value, order: Value, n: Value, descending: bool) -> None:
    """Sort doubles by insertion, and with them the numbers 0 to n - 1 in `order`: they are nearly sorted."""
    with f.loop(0, n) as k:
        place, x = f.variable("i64", k), f.load("double", values, k)

        def goes_on(place: Variable = place, x: Value = x) -> Value:
            before = f.load("double", values, f.maximum(place.get() - 1, 0))
            return f.select(place.get() > 0, before < x if descending else before > x, f.value(0, "i1"))
        with f.repeat(goes_on):
            before = place.get() - 1
            f.store(f.load("double", values, before), values, place.get())
            f.store(f.load("i64", order, before), order, place.get())
            place.set(before)
        f.store(x, values, place.get())
        f.store(k, order, place.get())


