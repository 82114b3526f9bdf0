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
from flambeau.codegen.kernel import BYTES, Kernel

HEAD = 4  # words that tell of a sweep: its first column, its step, its rotations, where they are in the log
TOGETHER = 4  # vectors of rows that are rotated together
TINY = 1e-250  # sums of squares from which roots are taken as they are
LIFT = 2.0**500

ROTATE = ("z", "ld", "from", "to", "log", "heads", "sweeps")


@cache
def rotate_text(field: Field, few: bool = False) -> Kernel:
    """void rotate(z, ld, from, to, log, heads, sweeps): sweeps of a log applied to rows [from, to) of a matrix, all counted in
    real parts; from, to: multiples of a vector. few: for few rows, less to compile."""
    f = helper("rotate", ROTATE, ("z", "log", "heads"))
    width = field.width
    if few:
        with f.loop(f["from"], f["to"], width) as i:
            _tile(f, field, i, 1)
        return f
    whole = f["from"] + (f["to"] - f["from"]).unsigned_div(f.i64(TOGETHER * width)) * (TOGETHER * width)
    with f.loop(f["from"], whole, TOGETHER * width) as i:
        _paired_tile(f, field, i)
    with f.loop(whole, f["to"], width) as i:
        _tile(f, field, i, 1)
    return f


class _Sweep:
    """A sweep of the log, applied to `vectors` vectors of rows from row i on, which hold the column that it has come to."""

    def __init__(self, f: Kernel, field: Field, k: Value, i: Value, vectors: int):
        self.f, self.field = f, field
        self.start, self.step, self.count, self.offset = (f.load("i64", f["heads"], k * HEAD + word) for word in range(HEAD))
        self.stride = self.step * f["ld"]
        self.first = self.start * f["ld"] + i
        self.carried = [f.variable(field.vector) for _ in range(vectors)]

    def place(self, t: Value | int, v: int) -> Value:
        """Where vector v is of the column that rotation t begins with."""
        f = self.f
        return f.at(self.field.real, f["z"], self.first + f.i64(t) * self.stride + v * self.field.width)

    def load(self, t: Value | int, v: int) -> Value:
        return self.f.load(self.field.vector, self.place(t, v), align=BYTES[self.field.real])

    def store(self, value: Value, t: Value | int, v: int) -> None:
        self.f.store(value, self.place(t, v), align=BYTES[self.field.real])

    def begin(self, values: list[Value] | None = None) -> None:
        for v, x in enumerate(self.carried):
            x.set(self.load(0, v) if values is None else values[v])

    def rotate(self, t: Value | int, following: list[Value] | None = None) -> list[Value]:
        """Rotation t: carry the following column's part on, and give this one's."""
        f, field = self.f, self.field
        pair = f.at(field.real, f["log"], (self.offset + t) * 2)
        c, s = (f.splat(f.load(field.real, pair, part), field.width) for part in range(2))
        made = []
        for v, x in enumerate(self.carried):
            y, held = self.load(f.i64(t) + 1, v) if following is None else following[v], x.get()
            made.append(f.fma(s, y, c * held))
            x.set(f.fma(c, y, -(s * held)))
        return made

    def put(self, values: list[Value], t: Value | int) -> None:
        for v, x in enumerate(values):
            self.store(x, t, v)

    def go_on(self, first: Value | int) -> None:
        """Rotations from `first` on, and the end."""
        with self.f.loop(first, self.count) as t:
            self.put(self.rotate(t), t)
        self.put(self.held(), self.count)

    def held(self) -> list[Value]:
        return [x.get() for x in self.carried]


def _tile(f: Kernel, field: Field, i: Value, vectors: int) -> None:
    """All sweeps, one after another."""
    with f.loop(0, f["sweeps"]) as k:
        sweep = _Sweep(f, field, k, i, vectors)
        sweep.begin()
        sweep.go_on(0)


def _paired_tile(f: Kernel, field: Field, i: Value) -> None:
    """All sweeps, two at a time where the second begins where the first does and is not longer: it follows a column behind, so
    that the columns are read and written once for both."""
    k = f.variable("i64", 0)
    with f.repeat(lambda: k.get() < f["sweeps"]):
        one = _Sweep(f, field, k.get(), i, TOGETHER)
        two = _Sweep(f, field, f.minimum(k.get() + 1, f["sweeps"] - 1), i, TOGETHER)
        fits = (k.get() + 1 < f["sweeps"]) & one.start.equals(two.start) & one.step.equals(two.step)
        one.begin()
        with f.branches(fits & (two.count <= one.count)) as otherwise:
            two.begin(one.rotate(0))
            together = f.minimum(two.count, one.count - 1)
            with f.loop(1, together + 1) as t:
                two.put(two.rotate(t - 1, one.rotate(t)), t - 1)
            with f.branches(two.count < one.count) as same:
                two.put(two.held(), two.count)
                one.go_on(together + 1)
                same()
                two.put(two.rotate(together, one.held()), together)
                two.put(two.held(), two.count)
            k.add(2)
            otherwise()
            one.go_on(0)
            k.add(1)


def log_rotation(f: Kernel, field: Field, log: Value, index: Value, c: Value, s: Value) -> None:
    """Write one rotation, given in double precision."""
    pair = f.at(field.real, log, index * 2)
    for part, x in enumerate((c, s)):
        f.store(x if field.real == "double" else f.convert(x, "float", "fptrunc"), pair, part)


def log_head(f: Kernel, heads: Value, sweep: Value, start: Value, step: Value, count: Value, offset: Value) -> None:
    for word, x in enumerate((start, step, count, offset)):
        f.store(x, heads, sweep * HEAD + word)


class Rotation:
    """The plane rotation that takes (g, h) to (r, 0): c, s and r are variables, in double precision. It is found sooner
    where the last of its digits don't matter, for a field of single precision."""

    def __init__(self, f: Kernel, field: Field):
        self.f, self.exact = f, field.real == "double"
        self.c, self.s, self.r = (f.variable("double") for _ in range(3))

    def find(self, g: Value, h: Value) -> None:
        f = self.f
        square = f.fma(g, g, h * h)
        size = root(f, square)
        self.r.set(size)
        if self.exact:
            self.c.set(g / size)
            self.s.set(h / size)
        else:  # sqrt(x) / x, of which root and quotient are found at the same time, is 1 / sqrt(x)
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
