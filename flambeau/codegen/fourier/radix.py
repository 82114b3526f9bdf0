"""One pass of a Fourier transform by a radix, for vectors of complex numbers as they lie in memory (real, imaginary, ...).

A transform of n = r1 r2 ... rk points is k passes, each of which does all the transforms of r points at a distance (J. W. Cooley
and J. W. Tukey, "An algorithm for the machine calculation of complex Fourier series", Math. Comp. 19, 1965) and leaves its
results where the next one finds them in order, so that no bits are ever reversed (the autosort of T. G. Stockham; P. N.
Swarztrauber, "FFT algorithms for vector computers", Parallel Computing 1, 1984). With s the product of the radices before this
one, r this one, m of those after:

    y[p r + j][t][q] = w^(p j) sum over k of x[p + m k][t][q] exp(-2 pi i j k / r),      w = exp(-2 pi i / (r m))

for p < m and positions (t, q), s times the number of transforms that are done side by side. Vectors are along q, or along p
where s is 1. The sign of i is a number at run time. Stands on builder and kernel; used by rows and steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from flambeau.codegen.builder import Value, module
from flambeau.codegen.cpu import vector_bytes
from flambeau.codegen.fourier.roots import roots
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import DIRECT

#: Parameters of every step of a transform: where it reads, where it writes, its table, its numbers, which part of the work it is.
STEP = (("x", "ptr"), ("y", "ptr"), ("table", "ptr"), ("numbers", "ptr"), ("part", "i64"))
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)  # of the radices
MOST_ALONG = 13  # the largest radix for vectors along p
FIRST, WIDE, NARROW = "first", "wide", "narrow"  # vectors along p; along q, at least as many as a vector's; fewer


def complex_lanes(item: str) -> int:
    """Complex numbers in a vector of float or double."""
    return vector_bytes() // (2 * BYTES[item])


class Step(Kernel):
    """A function with the parameters of a step, and arithmetic on vectors of complex numbers of `item`s."""

    def __init__(self, name: str, item: str, lanes: int = 0):
        super().__init__(name, list(STEP))
        self.item, self.lanes = item, lanes or complex_lanes(item)

    @property
    def vector(self) -> str:
        return vector(self.item, 2 * self.lanes)

    def narrowed(self, lanes: int) -> Step:
        """This function, while `lanes` complex numbers are worked on at once."""
        self.lanes = lanes
        return self

    def number(self, index: int) -> Value:
        """A whole number of the step."""
        return self.load("i64", self["numbers"], index)

    def factor(self, index: int) -> Value:
        """A real number of the step (in a double's bits)."""
        wide = self.load("double", self["numbers"], index)
        return wide if self.item == "double" else self.convert(wide, "float", "fptrunc")

    def place(self, pointer: Value, index: Value | int) -> Value:
        """Address of a complex number."""
        return self.at(f"[2 x {self.item}]", pointer, index)

    def read(self, pointer: Value, index: Value | int = 0) -> Value:
        """A vector of the complex numbers from `index` on."""
        return self.load(self.vector, self.place(pointer, index), align=BYTES[self.item])

    def write(self, value: Value, pointer: Value, index: Value | int = 0) -> None:
        self.store(value, self.place(pointer, index), align=BYTES[self.item])

    def swapped(self, a: Value) -> Value:
        """i conj(a): imaginary and real parts exchanged."""
        return self.shuffle(a, a, [i ^ 1 for i in range(2 * self.lanes)])

    def signs(self, real: Value | float, imaginary: Value | float) -> Value:
        """The vector (real, imaginary, real, ...)."""
        pair = self.value(0, vector(self.item, 2))
        for at, x in enumerate((real, imaginary)):
            x = self.value(x, self.item)
            pair = self.emit(pair.type, f"insertelement {pair.type} {pair.name}, {x.type} {x.name}, i32 {at}")
        return self.shuffle(pair, pair, [0, 1] * self.lanes)

    def times(self, a: Value, real: Value, imaginary: Value) -> Value:
        """a (real + i imaginary), whose parts are given twice each."""
        direct, crossed = a * real, self.swapped(a) * imaginary
        order = [i + (i & 1) * 2 * self.lanes for i in range(2 * self.lanes)]
        return self.shuffle(direct - crossed, direct + crossed, order)  # one instruction

    def times_vector(self, a: Value, b: Value) -> Value:
        """a b, number by number."""
        count = range(2 * self.lanes)
        return self.times(a, self.shuffle(b, b, [i & -2 for i in count]), self.shuffle(b, b, [i | 1 for i in count]))

    def overlapping(self, count: Value, write: Callable[[Value], None]) -> None:
        """write(i) for vectors of numbers that together are the first `count`, at least one vector; some are written twice."""
        last = count - self.lanes
        with self.loop(0, count, self.lanes) as i:
            write(self.minimum(i, last))

    def over(self, count: Value, write: Callable[[Value], None]) -> None:
        """write(i) for vectors of numbers, and single ones at the end, that together are the first `count`, each once."""
        lanes = self.lanes
        whole = count & -lanes
        with self.loop(0, whole, lanes) as i:
            write(i)
        self.lanes = 1
        with self.loop(whole, count) as i:
            write(i)
        self.lanes = lanes


def _root(j: int, n: int) -> complex:
    """exp(-2 pi i j / n)."""
    return complex(roots(np.array(j), n))


class Butterfly:
    """Transforms of as many points as there are values, number by number of vectors."""

    def __init__(self, f: Step, direction: Value):
        self.f = f
        self.turn = f.signs(direction, -direction)  # times i conj(a) is -i a, or i a backward
        self.turn_back = f.signs(-direction, direction)

    def add_turned(self, a: Value, b: Value, back: bool = False) -> Value:
        """a - i b; a + i b if `back` (the other way round backward)."""
        return self.f.fma(self.f.swapped(b), self.turn_back if back else self.turn, a)

    def rotated(self, a: Value, j: int, n: int) -> Value:
        """a exp(-2 pi i j / n)."""
        if (8 * j) % n == 0:
            return self._eighth(a, 8 * j // n % 8)
        root = _root(j, n)
        return self.f.fma(self.f.swapped(a) * self.turn, -root.imag, a * root.real)

    def _eighth(self, a: Value, j: int) -> Value:
        if j >= 4:
            a, j = -a, j - 4
        if j == 0:
            return a
        if j == 2:
            return self.f.swapped(a) * self.turn
        return (self.add_turned(a, a) if j == 1 else self.add_turned(-a, a)) * math.sqrt(0.5)

    def transform(self, a: Sequence[Value]) -> list[Value]:
        """The values' transform, in order."""
        n = len(a)
        if n == 1:
            return list(a)
        if n == 2:
            return [a[0] + a[1], a[0] - a[1]]
        if n == 4:
            sums, differences = [a[0] + a[2], a[1] + a[3]], [a[0] - a[2], a[1] - a[3]]
            return [sums[0] + sums[1], self.add_turned(*differences), sums[0] - sums[1], self.add_turned(*differences, back=True)]
        first = next((p for p in (4, *PRIMES) if n % p == 0 and n > p), n)
        return self._odd(a) if first == n else self._composite(a, first, n // first)

    def _composite(self, a: Sequence[Value], outer: int, inner: int) -> list[Value]:
        """outer x inner points: transforms along the columns of a matrix, a factor for each element, and along its rows."""
        n = outer * inner
        columns = [self.transform(a[c::inner]) for c in range(inner)]
        made: list[Any] = [None] * n
        for row in range(outer):
            values = [self.rotated(column[row], c * row, n) for c, column in enumerate(columns)]
            made[row::outer] = self.transform(values)
        return made

    def _odd(self, a: Sequence[Value]) -> list[Value]:
        """A prime number of points: cosines of sums and sines of differences of opposite values."""
        f, n, half = self.f, len(a), len(a) // 2
        sums = [a[k] + a[n - k] for k in range(1, half + 1)]
        differences = [a[k] - a[n - k] for k in range(1, half + 1)]
        made: list[Any] = [None] * n
        made[0] = a[0]
        for s in sums:
            made[0] = made[0] + s
        for j in range(1, half + 1):
            factors = [_root(j * k, n) for k in range(1, half + 1)]
            even, odd = a[0], differences[0] * -factors[0].imag
            for k, factor in enumerate(factors):
                even = f.fma(sums[k], factor.real, even)
                if k:
                    odd = f.fma(differences[k], -factor.imag, odd)
            made[j], made[n - j] = self.add_turned(even, odd), self.add_turned(even, odd, back=True)
        return made


def _interleaved(f: Step, values: Sequence[Value]) -> list[Value]:
    """Vectors of numbers one from each value, then the next from each, and so on: a transposition."""
    count, lanes = len(values), f.lanes
    if count == 1:
        return list(values)
    if count % 2 == 0:
        # neighbours of the two halves' results, which are in order of number and then of value
        even, odd = _interleaved(f, values[::2]), _interleaved(f, values[1::2])
        made = []
        for a, b in zip(even, odd):
            order = [e for i in range(lanes) for e in (2 * i, 2 * i + 1, 2 * (i + lanes), 2 * (i + lanes) + 1)]
            made += [f.shuffle(a, b, order[: 2 * lanes]), f.shuffle(a, b, order[2 * lanes :])]
        return made
    made = []
    for vector_number in range(count):
        places = [divmod(vector_number * lanes + i, count) for i in range(lanes)]
        taken = values[0]
        order = [2 * lane + e if j == 0 else 0 for lane, j in places for e in (0, 1)]
        for source in range(1, count):
            mine = [2 * (lane + lanes) + e for lane, j in places for e in (0, 1)]
            kept = order if source == 1 else list(range(2 * lanes))
            merged = [m if places[i // 2][1] == source else o for i, (m, o) in enumerate(zip(mine, kept))]
            taken = f.shuffle(taken, values[source], merged)
        made.append(taken)
    return made


def _first_pass(f: Step, radix: int, last: bool) -> None:
    """Vectors along p: the numbers of neighbouring p are written r apart, so they are transposed in registers."""
    m, butterfly = f.number(0), Butterfly(f, f.factor(5))

    def write(p: Value) -> None:
        values = butterfly.transform([f.read(f["x"], p + m * k) for k in range(radix)])
        for j in range(1, radix):
            values[j] = f.times_vector(values[j], f.read(f["table"], p + m * (j - 1)))
        for i, value in enumerate(_interleaved(f, values)):
            f.write(value, f["y"], p * radix + i * f.lanes)

    f.overlapping(m, write)


def _later_pass(f: Step, radix: int, last: bool, narrow: bool) -> None:
    """Vectors along q; the factors of a p are the same for all of them. The last pass has no factors but the transform's own."""
    m, repeats, width, x_step, y_step = (f.number(i) for i in range(5))
    butterfly = Butterfly(f, f.factor(5))
    scale = f.splat(f.factor(6), 2 * f.lanes)
    mask = f.mask(width * 2, 2 * f.lanes) if narrow else None

    def put(value: Value, pointer: Value) -> None:
        if mask is None:
            f.write(value, pointer)
        else:
            f.masked_store(value, pointer, mask, BYTES[f.item])

    def get(pointer: Value) -> Value:
        return f.read(pointer) if mask is None else f.masked_load(f.vector, pointer, mask, BYTES[f.item])

    x_apart, y_apart = m * repeats * x_step, repeats * y_step

    def write(x: Value, y: Value, factors: Value, q: Value | int) -> None:
        values = butterfly.transform([get(f.place(x, x_apart * k + q)) for k in range(radix)])
        for j in range(radix):
            if last:
                values[j] = values[j] * scale
            elif j:
                real, imaginary = (f.splat(f.load(f.item, factors, 2 * (j - 1) + i), 2 * f.lanes) for i in (0, 1))
                values[j] = f.times(values[j], real, imaginary)
            put(values[j], f.place(y, y_apart * j + q))

    with f.loop(0, m) as p:
        factors = f.place(f["table"], p * (radix - 1))
        with f.loop(0, repeats) as t:
            x, y = f.place(f["x"], (p * repeats + t) * x_step), f.place(f["y"], (p * repeats * radix + t) * y_step)
            if narrow:
                write(x, y, factors, 0)
            else:
                f.overlapping(width, partial(write, x, y, factors))


@compiled(DIRECT, "step")
def radix_pass(item: str, radix: int, form: str, last: bool) -> str:
    """Address of a step: a pass by `radix` over numbers of two `item`s. Numbers: m, positions t and q, steps from one t to the
    next in x and y, 1.0 forward or -1.0, the factor of the results (for the last pass)."""
    f = Step("step", item)
    if form == FIRST:
        _first_pass(f, radix, last)
    else:
        _later_pass(f, radix, last, form == NARROW)
    return module(f)
