"""The steps of a Fourier transform besides its passes, and the kernel that runs a list of steps for every row of a batch.

A step is a function (x, y, table, numbers, part). A phase is a list of them: the kernel finds where the row lies that is its
turn (by three axes), and calls one after the other. So all transforms, of any length, are lists; what is compiled is small.
Stands on radix; used by rows and program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from flambeau.codegen.builder import KERNEL_PARAMETERS, Odometer, Value, module
from flambeau.codegen.fourier.radix import Step, _interleaved
from flambeau.codegen.jit import Address, compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import DIRECT

#: What an operand's place is counted from: this row of the input, this row of the output, the thread's memory, address 0, the
#: window, and 0 moved on by the phase's `table_step` for each part.
INPUT, OUTPUT, OWN, ABSOLUTE, WINDOW, MOVING = range(6)
SHARED = 1  # the slot of the plan's working memory; operands' are 4 ...
MOST_NUMBERS = 7
FINE = 64  # numbers of a row of factors that have one coarse factor
_STEP_WORDS = 7 + MOST_NUMBERS
_HEAD = (
    "steps",
    "shared",
    "own",
    "middle",
    "inner",
    "x_slot",
    "x_offset",
    "x0",
    "x1",
    "x2",
    "y_slot",
    "y_offset",
    "y0",
    "y1",
    "y2",
    "window_slot",
    "table_step",
)


class Place(NamedTuple):
    """Where a step finds or leaves numbers: bytes from a base."""

    base: int
    offset: int = 0

    def moved(self, nbytes: int) -> Place:
        return Place(self.base, self.offset + nbytes)


class Call(NamedTuple):
    """A step of a phase."""

    function: Address
    x: Place
    y: Place
    table: Place = Place(ABSOLUTE)
    numbers: Sequence[int] = ()

    @property
    def words(self) -> tuple[Address, ...]:
        return (self.function, *self.x, *self.y, *self.table, *self.numbers, *[0] * (MOST_NUMBERS - len(self.numbers)))


class Rows(NamedTuple):
    """Where the rows of an operand lie: its slot, bytes to the first, bytes from one to the next along each of three axes."""

    slot: int
    offset: int = 0
    strides: tuple[int, int, int] = (0, 0, 0)

    @property
    def words(self) -> tuple[int, ...]:
        return (self.slot, self.offset, *self.strides)


def phase_words(
    calls: Sequence[Call], sizes: tuple[int, int, int], x: Rows, y: Rows, shared: int, own: int, window_slot: int, table_step: int
) -> list[Address]:
    """The constants of a phase; shared, own: bytes of working memory of all threads, of each."""
    head = (len(calls), shared, own, *sizes[1:], *x.words, *y.words, window_slot, table_step)
    return [*head, *(word for call in calls for word in call.words)]


@compiled(DIRECT)
def steps_kernel() -> str:
    """The kernel of every phase: rows begin ... end, the list of steps for each."""
    f = Kernel("kernel", KERNEL_PARAMETERS)
    c = f.constants(_HEAD)
    bases = f.stack("i64", 6)
    own = f.load("i64", f["p"], SHARED) + c["shared"] + f["thread"] * c["own"]
    for at, value in ((OWN, own), (ABSOLUTE, f.i64(0)), (WINDOW, f.load("i64", f["p"], c["window_slot"]))):
        f.store(value, bases, at)
    starts = {axis: f.load("i64", f["p"], c[axis + "_slot"]) + c[axis + "_offset"] for axis in "xy"}
    list_start = f.at("i64", f.load("ptr", f["p"]), len(_HEAD))
    odometer = Odometer(f, (c["middle"], c["middle"], c["inner"]), f["begin"])
    with f.loop(f["begin"], f["end"]):
        row = odometer.read()
        for at, axis in ((INPUT, "x"), (OUTPUT, "y")):
            place = starts[axis]
            for i, coordinate in enumerate(row):
                place = place + coordinate * c[f"{axis}{i}"]
            f.store(place, bases, at)
        f.store(row[2] * c["table_step"], bases, MOVING)
        with f.loop(0, c["steps"]) as i:
            words = f.at("i64", list_start, i * _STEP_WORDS)
            places = [
                f.pointer(f.load("i64", bases, f.load("i64", words, at)) + f.load("i64", words, at + 1)) for at in (1, 3, 5)
            ]
            f.call_pointer("void", f.load("ptr", words), *places, f.at("i64", words, 7), row[2])
        odometer.advance()
    return module(f)


@compiled(DIRECT, "step")
def _address(write: Callable[[Step], None], item: str) -> str:
    f = Step("step", item)
    write(f)
    return module(f)


def _step(write: Callable[[Step], None]) -> Callable[[str], Address]:
    """A step for numbers of `item`s (float or double), compiled when it is first asked for."""
    return partial(_address, write)


def _clear(f: Step, type: str, first: Value, end: Value) -> None:
    with f.loop(first, end) as i:
        f.store(f.value(0, type), f["y"], i, align=BYTES[f.item])


def _part(f: Step, total: Value, chunk: Value) -> tuple[Value, Value]:
    """(the first number of this part of the work, how many there are)"""
    first = f["part"] * chunk
    return first, f.select(chunk.equals(0), total, f.minimum(total - first, chunk))


@_step
def multiplied(f: Step) -> None:
    """y = x table, of `count` numbers, then zeros up to `total`; of these the ones from part * `chunk` on, at most that many, if
    it is not 0. Numbers: count, total, chunk."""
    count, total, chunk = (f.number(i) for i in range(3))
    first, end = _part(f, total, chunk)
    x, y, table = (f.place(f[name], first) for name in ("x", "y", "table"))
    valid = f.maximum(f.minimum(count - first, end), 0)
    f.over(valid, lambda i: f.write(f.times_vector(f.read(x, i), f.read(table, i)), y, i))
    with f.loop(valid, end) as i:
        f.store(f.value(0, vector(f.item, 2)), f.place(y, i), align=BYTES[f.item])


@_step
def gathered(f: Step) -> None:
    """y = `count` complex numbers, then zeros up to `total`. Numbers: count, total, steps from one to the next in x, y."""
    count, total, x_step, y_step = (f.number(i) for i in range(4))
    f.lanes = 1
    with f.loop(0, count) as i:
        f.write(f.read(f["x"], i * x_step), f["y"], i * y_step)
    with f.loop(count, total) as i:
        f.write(f.value(0, f.vector), f["y"], i * y_step)


@_step
def gathered_real(f: Step) -> None:
    """y = real numbers `step` apart, `count` of them, then zeros up to `total`. Numbers: count, total, step."""
    count, total, step = (f.number(i) for i in range(3))
    with f.loop(0, count) as i:
        f.store(f.load(f.item, f["x"], i * step), f["y"], i)
    _clear(f, f.item, count, total)


@_step
def widened(f: Step) -> None:
    """y = real numbers `step` apart as complex ones, `count` of them, then zeros up to `total`. Numbers: count, total, step."""
    count, total, step = (f.number(i) for i in range(3))
    f.lanes = 1
    zero = f.value(0, f.vector)

    def put(x: Value, i: Value) -> None:
        f.write(x, f["y"], i)

    with f.loop(0, count) as i:
        one = f.load(f.item, f["x"], i * step)
        put(f.emit(zero.type, f"insertelement {zero.type} zeroinitializer, {one.type} {one.name}, i32 0"), i)
    with f.loop(count, total) as i:
        put(zero, i)


@_step
def windowed(f: Step) -> None:
    """y = x table, of `count` real numbers. Numbers: count, steps from one to the next in x."""
    count, step = f.number(0), f.number(1)
    lanes = 2 * f.lanes

    def write(i: Value, type: str) -> None:
        a = f.load(type, f["x"], i * step, align=BYTES[f.item])
        b = f.load(type, f["table"], i, align=BYTES[f.item])
        f.store(a * b, f["y"], i, align=BYTES[f.item])

    whole = f.select(step.equals(1), count & -lanes, f.i64(0))
    with f.loop(0, whole, lanes) as i:
        write(i, vector(f.item, lanes))
    with f.loop(whole, count) as i:
        write(i, f.item)


@_step
def transposed(f: Step) -> None:
    """Complex numbers: y[c][i] = x[i][c] or y[i][c] = x[c][i], for a vector's c and `count` i. Numbers: count, steps from one row
    to the next in x and y, steps from one i to the next in x and y (of which one is 1)."""
    count, x_step, y_step, x_near, y_near = (f.number(i) for i in range(5))

    def write(i: Value) -> None:
        rows = [f.read(f["x"], i * x_near + x_step * k) for k in range(f.lanes)]
        for c, value in enumerate(_interleaved(f, rows)):
            f.write(value, f["y"], i * y_near + y_step * c)

    lanes = f.lanes
    with f.branches(count >= lanes) as otherwise:
        f.overlapping(count, write)
        otherwise()
        x_row, y_row = (f.select(near.equals(1), step, f.i64(1)) for near, step in ((x_near, x_step), (y_near, y_step)))
        f.lanes = 1
        with f.loop(0, count) as i:
            with f.loop(0, lanes) as c:
                f.write(f.read(f["x"], i * x_near + c * x_row), f["y"], i * y_near + c * y_row)


@_step
def crossed(f: Step) -> None:
    """y = y w[i], of `count` numbers, where w[i] is the product of numbers i % FINE and FINE + i // FINE of the table. Numbers:
    count."""
    count, y, table = f.number(0), f["y"], f["table"]
    with f.loop(0, f.ceiling_division(count, FINE)) as block:
        coarse = f.place(table, block + FINE)
        first = f.place(y, block * FINE)

        def write(i: Value, coarse: Value = coarse, first: Value = first) -> None:
            real, imaginary = (f.splat(f.load(f.item, coarse, e), 2 * f.lanes) for e in (0, 1))
            factor = f.times(f.read(table, i), real, imaginary)
            f.write(f.times_vector(f.read(first, i), factor), first, i)

        f.over(f.minimum(count - block * FINE, FINE), write)


@_step
def folded(f: Step) -> None:
    """y[k] = x[k] + conj x[h - k] + table[k] (x[k] - conj x[h - k]) for k < `count`: a transform of real numbers from the complex
    one of half their number, with their even ones as real parts and their odd ones as imaginary parts, or back.

    Numbers: count, h, whether x[h] is to be set to x[0], chunk (as of `multiplied`), whether the imaginary parts of x[0] and x[h]
    count as 0. Source: W. H. Press et al., Numerical Recipes (2007), 12.3.2.
    """
    count, h, wraps, chunk, real_ends = (f.number(i) for i in range(5))
    first, end = _part(f, count, chunk)
    x, y, table = f["x"], f.place(f["y"], first), f.place(f["table"], first)
    lanes = f.lanes
    with f.when(wraps.differs(0)):
        f.write(f.narrowed(1).read(x), x, h)
        f.lanes = lanes

    def write(i: Value) -> None:
        direct, opposite = f.read(x, first + i), f.read(x, h - first - i - (f.lanes - 1))
        order = [2 * (f.lanes - 1 - i) + e for i in range(f.lanes) for e in (0, 1)]
        mirrored = f.shuffle(opposite, opposite, order) * f.signs(1.0, -1.0)
        f.write((direct + mirrored) + f.times_vector(direct - mirrored, f.read(table, i)), y, i)

    f.over(end, write)
    with f.when(real_ends.differs(0) & first.equals(0)):
        a, b = f.load(f.item, x), f.load(f.item, f.place(x, h))
        f.store(a + b, y, 0)
        f.store(a - b, y, 1)


@_step
def mirrored(f: Step) -> None:
    """y = all `n` numbers of a transform of real numbers (n odd) from the first n // 2 + 1. Numbers: n."""
    n = f.number(0)
    f.lanes = 1
    conjugate = f.signs(1.0, -1.0)
    f.write(f.read(f["x"]) * f.signs(1.0, 0.0), f["y"])
    with f.loop(1, (n >> 1) + 1) as k:
        value = f.read(f["x"], k)
        f.write(value, f["y"], k)
        f.write(value * conjugate, f["y"], n - k)


@_step
def real_parts(f: Step) -> None:
    """y = the real parts of `count` numbers. Numbers: count."""
    with f.loop(0, f.number(0)) as i:
        f.store(f.load(f.item, f.place(f["x"], i)), f["y"], i)


# ---------------------------------------------------------------- several rows at once


@_step
def widened_rows(f: Step) -> None:
    """y = real numbers as complex ones, `count` of each row. Numbers: count, rows, numbers between rows in x, in y."""
    count, rows, x_row, y_row = (f.number(i) for i in range(4))
    with f.loop(0, rows) as row:
        x, y = f.at(f.item, f["x"], row * x_row), f.place(f["y"], row * y_row)

        def write(i: Value, x: Value = x, y: Value = y) -> None:
            a = f.load(vector(f.item, f.lanes), x, i, align=BYTES[f.item])
            f.write(f.shuffle(a, f.value(0, a.type), [e * f.lanes + k for k in range(f.lanes) for e in (0, 1)]), y, i)

        f.over(count, write)


@_step
def real_rows(f: Step) -> None:
    """y = the real parts of `count` numbers of each row. Numbers: count, rows, numbers between rows in x, in y."""
    count, rows, x_row, y_row = (f.number(i) for i in range(4))
    with f.loop(0, rows) as row:
        x, y = f.place(f["x"], row * x_row), f.at(f.item, f["y"], row * y_row)

        def write(i: Value, x: Value = x, y: Value = y) -> None:
            a = f.read(x, i)
            f.store(f.shuffle(a, a, [2 * k for k in range(f.lanes)]), y, i, align=BYTES[f.item])

        f.over(count, write)


@_step
def folded_columns(f: Step) -> None:
    """`folded` for columns of a vector's rows. Numbers: count, h, whether x[h] is x[0], whether the imaginary parts of x[0] and
    x[h] count as 0, numbers from one k to the next in x."""
    count, h, wraps, real_ends, step = (f.number(i) for i in range(5))
    conjugate, lanes = f.signs(1.0, -1.0), f.lanes
    with f.loop(0, count) as k:
        other = f.select(wraps.differs(0) & k.equals(0), f.i64(0), h - k)
        mine = f.select(wraps.differs(0) & k.equals(h), f.i64(0), k)
        kept = f.signs(1.0, f.select(real_ends.differs(0) & k.equals(0), f.value(0, f.item), f.value(1, f.item)))
        direct, mirrored = f.read(f["x"], mine * step) * kept, f.read(f["x"], other * step) * kept * conjugate
        real, imaginary = (f.splat(f.load(f.item, f.place(f["table"], k), e), 2 * lanes) for e in (0, 1))
        f.write((direct + mirrored) + f.times(direct - mirrored, real, imaginary), f["y"], k * lanes)


@_step
def mirrored_columns(f: Step) -> None:
    """`mirrored` for columns of a vector's rows. Numbers: n, numbers from one to the next in x."""
    n, step, conjugate, lanes = f.number(0), f.number(1), f.signs(1.0, -1.0), f.lanes
    f.write(f.read(f["x"]) * f.signs(1.0, 0.0), f["y"])
    with f.loop(1, (n >> 1) + 1) as k:
        value = f.read(f["x"], k * step)
        f.write(value, f["y"], k * lanes)
        f.write(value * conjugate, f["y"], (n - k) * lanes)
