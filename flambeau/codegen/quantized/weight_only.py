"""Products of few rows of floats with quantized weights, which are read once and turned into numbers in registers.

A weight's row lies in memory along k: int8, or two integers of 4 bits in a byte. A task is some of the weight's rows. It first
puts the floats where the register tiles want them; a tile is the dot products of up to 3 rows of floats and 4 rows of weights.

Eight integers of 4 bits are a word, and the words are the lanes of a vector: the j-th of each is left where it is, q * 16^j, and
multiplied by a float that has been divided by 16^j, which is exact. Lanes are 8 columns, so a group, of 32 columns or more, is
whole lanes. With w = (q - 8) * scale + zero, sum(x w) is scale * sum(x q) + (zero - 8 scale) * sum(x), and both sums are lane by
lane. Where that isn't finite (a float may be infinite) the sum is made once more, weight by weight.

Stands on builder, kernel and element_type; ops.linalg.weight_only plans with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.llvm import LIGHT

#: m x k floats, n rows of weights, elements of x and bytes of weights from row to row, floats of a prepared row, columns of
#: a group (2 to the power of this), and bytes of scratch memory for each thread.
CONSTANTS = ("m", "k", "n", "x_row", "w_row", "prepared", "group_shift", "thread_bytes")
MOST_ROWS = 3  # of floats in a tile
LINE = 64  # bytes that are fetched at once
NIBBLES = 8  # integers of 4 bits in a word
OUT, X, WEIGHT, SCALES = range(4)  # buffers


class Form(NamedTuple):
    """Kind of the floats, of the scales; bits of the weights; rows of floats to a tile; columns of a group, if it is narrower
    than a vector of words, else 0.
    """

    kind: Kind
    scales: Kind
    bits: int
    rows: int
    narrow_group: int = 0

    @property
    def columns(self) -> int:
        """Rows of weights to a tile: sums for all of them stay in registers."""
        return 4 if self.bits == 8 or self.rows == 1 else 2

    @property
    def lanes(self) -> int:
        return self.kind.lanes

    @property
    def step(self) -> int:
        """Columns that a turn of the loop takes."""
        return self.lanes * (2 if self.bits == 8 else NIBBLES)


def prepared_floats(form: Form, k: int) -> int:
    """Floats of a row as tiles read it: whole steps, and for each lane of words the sum of its columns."""
    steps = -(-k // form.step)
    return steps * (form.step if form.bits == 8 else form.step + form.lanes)


def _scalar(f: Kernel, kind: Kind, place: Value, at: Value | int) -> Value:
    return widen(f, kind, f.load(kind.storage, place, at))


def _prepare(f: Kernel, form: Form, c: Constants, mine: Value) -> None:
    """Floats of all rows to the thread's memory, and zeros behind them."""
    with f.loop(0, c["m"]) as i:
        source = f.at(form.kind.storage, f.buffer(X), i * c["x_row"])
        goal = f.at("float", mine, i * c["prepared"])
        with f.loop(0, c["prepared"], form.lanes) as at:
            f.store(f.value(0, vector("float", form.lanes)), goal, at, align=4)
        if form.bits == 8:
            with f.loop(0, c["k"]) as at:
                f.store(_scalar(f, form.kind, source, at), goal, at)
        else:
            with f.loop(0, c["k"], NIBBLES) as first:
                _prepare_word(f, form, source, goal, first)


def _prepare_word(f: Kernel, form: Form, source: Value, goal: Value, first: Value) -> None:
    """The floats that the integers of a word are multiplied by, and their sum."""
    word, lanes = first.unsigned_div(f.i64(NIBBLES)), form.lanes
    step, lane = word.unsigned_div(f.i64(lanes)), word.unsigned_rem(f.i64(lanes))
    place = f.at("float", goal, step * (form.step + lanes) + lane)
    total = f.value(0.0, "float")
    for j in range(NIBBLES):
        value = _scalar(f, form.kind, source, first + j)
        total = total + value
        f.store(value.exact_mul(_factor(j)), place, j * lanes)
    f.store(total, place, NIBBLES * lanes)


def _factor(nibble: int) -> float:
    return 1.0 if nibble == NIBBLES - 1 else 16.0**-nibble


def _sum(f: Kernel, value: Value, lanes: int) -> Value:
    while lanes > 1:
        lanes //= 2
        low, high = (f.shuffle(value, value, range(first, first + lanes)) for first in (0, lanes))
        value = low + high
    return f.emit("float", f"extractelement {value.type} {value.name}, i32 0")


class _Tile:
    """Emits a tile: rows from `i`, weights from `j`."""

    def __init__(self, f: Kernel, form: Form, c: Constants, mine: Value, i: Value, j: Value) -> None:
        self.f, self.form, self.c = f, form, c
        self.i = [f.minimum(i + r, c["m"] - 1) for r in range(form.rows)]
        self.j = [f.minimum(j + q, c["n"] - 1) for q in range(form.columns)]
        self.x = [f.at("float", mine, row * c["prepared"]) for row in self.i]
        self.w = [f.at("i8", f.buffer(WEIGHT), row * c["w_row"]) for row in self.j]
        self.sums = [[f.variable(vector("float", form.lanes)) for _ in self.j] for _ in self.i]
        for row in self.sums:
            for cell in row:
                cell.set(0)

    def each(self) -> list[tuple[int, int]]:
        return [(r, q) for r in range(self.form.rows) for q in range(self.form.columns)]

    def fetch_next(self, row: Value, at: Value) -> None:
        """Ask for what the next tile reads: the processor asks for short rows too late by itself."""
        self.f.fetch(self.f.at("i8", row, self.c["w_row"] * self.form.columns + at))

    def bytes(self) -> None:
        """Sums of int8 weights."""
        f, form, lanes = self.f, self.form, self.form.lanes
        step, few, wide = form.step, vector("i8", lanes), vector("float", lanes)
        whole = self.c["k"] - self.c["k"].unsigned_rem(f.i64(step))
        with f.loop(0, whole, step) as at:
            for q, w in enumerate(self.w):
                self.fetch_next(w, at)
                for part in range(0, step, lanes):
                    weights = f.convert(f.load(few, w, at + part, align=1), vector("i32", lanes), "sext")
                    numbers = f.convert(weights, wide, "sitofp")
                    for r, x in enumerate(self.x):
                        self.sums[r][q].set(f.fma(numbers, f.load(wide, x, at + part, align=4), self.sums[r][q].get()))
        rest = [[f.variable("float", 0.0) for _ in self.j] for _ in self.i]
        with f.loop(whole, self.c["k"]) as at:
            for r, q in self.each():
                number = f.convert(f.load("i8", self.w[q], at), "float", "sitofp")
                rest[r][q].set(f.fma(number, f.load("float", self.x[r], at), rest[r][q].get()))
        for r, q in self.each():
            total = _sum(f, self.sums[r][q].get(), lanes) + rest[r][q].get()
            self.store(r, q, total * _scalar(f, form.scales, f.buffer(SCALES), self.j[q]))

    def nibbles(self) -> None:
        """Sums of weights of 4 bits."""
        f, form, lanes, c = self.f, self.form, self.form.lanes, self.c
        words, wide = vector("i32", lanes), vector("float", lanes)
        width = form.step + lanes

        def step(at: Value, load: Callable[[Value], Value]) -> None:
            pairs = self.scales_and_zeros(at * form.step)
            for q, w in enumerate(self.w):
                taken = load(f.at("i8", w, at * (form.step // 2)))
                self.fetch_next(w, at * (form.step // 2))
                scale, zero = (self.by_lanes([f.shuffle(p, p, [2 * q + i] * lanes) for p in pairs]) for i in (0, 1))
                parts: list[list[Value]] = [[] for _ in self.x]
                for j in range(NIBBLES):
                    last = j == NIBBLES - 1
                    number = f.convert(taken >> (4 * j) if last else taken & (15 << (4 * j)), wide, "sitofp")
                    for r, x in enumerate(self.x):
                        floats = f.load(wide, x, at * width + j * lanes, align=4)
                        if j < 2:
                            parts[r].append(number * floats)
                        else:
                            parts[r][j % 2] = f.fma(number, floats, parts[r][j % 2])
                for r, x in enumerate(self.x):
                    cell, part = self.sums[r][q], parts[r][0] + parts[r][1]
                    totals = f.load(wide, x, at * width + NIBBLES * lanes, align=4)
                    cell.set(f.fma(zero, totals, f.fma(scale, part, cell.get())))

        whole = c["k"].unsigned_div(f.i64(form.step))
        with f.loop(0, whole) as at:
            step(at, lambda place: f.load(words, place, align=1))
        with f.loop(whole, f.ceiling_division(c["k"], form.step)) as at:
            mask = f.mask((c["k"] - at * form.step).unsigned_div(f.i64(NIBBLES)), lanes)
            step(at, lambda place: f.masked_load(words, place, mask))
        for r, q in self.each():
            total = f.variable("float", _sum(f, self.sums[r][q].get(), lanes))
            odd = f.emit("i1", f"fcmp uno float {(total.get() - total.get()).name}, 0.0")
            with f.when(odd):
                arguments = (f["p"], self.i[r], self.j[q])
                total.set(f.call("float", "one_by_one", *arguments, declare=False))
            self.store(r, q, total.get())

    def scales_and_zeros(self, column: Value) -> list[Value]:
        """Of each group of a step the scale and what 0 stands for of each row of weights, in turn: rows, which are whole tiles,
        lie side by side.
        """
        f, form, c = self.f, self.form, self.c
        count, pairs = 2 * form.columns, []
        per = form.narrow_group or form.step
        for first in range(0, form.step, per):
            group = f.minimum(column + first, c["k"] - 1) >> c["group_shift"]
            place = f.at(form.scales.storage, f.buffer(SCALES), (group * c["n"] + self.j[0]) * 2)
            f.fetch(f.at("i8", place, LINE))  # groups are far from each other
            given = widen(f, form.scales, f.load(vector(form.scales.storage, count), place, align=BYTES[form.scales.storage]))
            scales = f.shuffle(given, given, [i & -2 for i in range(count)])
            factors = Value(f, given.type, "<" + ", ".join(["float 0.0, float -8.0"] * form.columns) + ">")
            pairs.append(f.fma(scales, factors, given))
        return pairs

    def by_lanes(self, values: list[Value]) -> Value:
        """The first lanes of the first, the following of the second, ..."""
        lanes, each = self.form.lanes, self.form.lanes // len(values)
        whole = values[0]
        for number, value in enumerate(values[1:], 1):
            order = [at + lanes if at // each == number else at for at in range(lanes)]
            whole = self.f.shuffle(whole, value, order)
        return whole

    def store(self, r: int, q: int, total: Value) -> None:
        f, kind = self.f, self.form.kind
        f.store(narrow(f, kind, total), f.at(kind.storage, f.buffer(OUT), self.i[r] * self.c["n"] + self.j[q]))


def scale_and_zero(f: Kernel, form: Form, c: Constants, scales: Value, group: Value, row: Value) -> tuple[Value, Value]:
    """The scale of a group of a weight's row, and what its integer 0 stands for."""
    pair = (group * c["n"] + row) * 2
    scale, zero = (_scalar(f, form.scales, scales, pair + i) for i in (0, 1))
    return scale, f.fma(scale, f.value(-8.0, "float"), zero)


def _one_by_one(form: Form) -> Kernel:
    """float one_by_one(p, i, j): the product of row i and the weights of 4 bits of row j, one after the other."""
    f = Kernel("one_by_one", [("p", "ptr"), ("i", "i64"), ("j", "i64")], internal=True)
    f.result = "float"
    c = f.constants(CONSTANTS)
    x, w = f.at(form.kind.storage, f.buffer(X), f["i"] * c["x_row"]), f.at("i8", f.buffer(WEIGHT), f["j"] * c["w_row"])
    total = f.variable("float", 0.0)
    with f.loop(0, c["k"]) as at:
        scale, zero = scale_and_zero(f, form, c, f.buffer(SCALES), at >> c["group_shift"], f["j"])
        byte = f.convert(f.load("i8", w, at.unsigned_div(f.i64(2))), "i64", "zext")
        code = f.convert((byte >> (at.unsigned_rem(f.i64(2)) * 4)) & 15, "float", "uitofp")
        total.set(f.fma(f.fma(code, scale, zero), _scalar(f, form.kind, x, at), total.get()))
    f.ret(total.get())
    return f


@compiled(LIGHT)
def weight_only_kernel(form: Form) -> str:
    """The range is tiles of the weight's rows. Buffers: result (m, n), floats, weights, scales (and zeros)."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    mine = f.at("i8", f.load("ptr", f["p"], 1), f["thread"] * c["thread_bytes"])
    _prepare(f, form, c, mine)
    with f.loop(f["begin"], f["end"]) as tile, f.loop(0, c["m"], form.rows) as i:
        made = _Tile(f, form, c, mine, i, tile * form.columns)
        made.bytes() if form.bits == 8 else made.nibbles()
    return module(f) if form.bits == 8 else module(_one_by_one(form), f)


@compiled(LIGHT)
def widened_kernel(form: Form) -> str:
    """Rows of weights as rows of float32 (n, k); the range is rows. Buffers: result, weights, scales (and zeros); CONSTANTS."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, weights, half = f.buffer(0), f.buffer(1), form.lanes // 2

    with f.loop(f["begin"], f["end"]) as j:
        w, goal = f.at("i8", weights, j * c["w_row"]), f.at("float", out, j * c["k"])
        columns = f.emit("i64", f"shl i64 1, {c['group_shift'].name}")
        with f.loop(0, c["k"], columns) as first:
            numbers = scale_and_zero(f, form, c, f.buffer(2), first >> c["group_shift"], j)
            scale, zero = (f.splat(number, form.lanes) for number in numbers)
            with f.loop(first, first + columns, form.lanes) as at:
                taken = f.load(vector("i8", half), w, at.unsigned_div(f.i64(2)), align=1)
                both = f.shuffle(taken & 15, taken >> 4, [h * half + i for i in range(half) for h in (0, 1)])
                number = f.convert(f.convert(both, vector("i32", form.lanes), "zext"), vector("float", form.lanes), "sitofp")
                f.store(f.fma(number, scale, zero), goal, at, align=4)
    return module(f)
