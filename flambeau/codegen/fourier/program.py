"""What a plan of Fourier transforms is made of: programs, which are lists of steps for a row, and the rows they are run for.

Stands on radix, steps, tables and launch; used by rows.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from flambeau.base.layout import Layout
from flambeau.codegen.fourier import steps, tables
from flambeau.codegen.fourier.radix import NARROW, WIDE, complex_lanes, radix_pass
from flambeau.codegen.fourier.steps import ABSOLUTE, OWN, SHARED, Call, Place, Rows
from flambeau.codegen.jit import Address
from flambeau.codegen.kernel import BYTES
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.codegen.targets import lowered

NOWHERE = Place(ABSOLUTE)
GRAIN = 1 << 16  # points times binary logarithms of lengths that are worth another thread
_FIRST_OUT = 4  # slot of the output; the input's and the window's are next
Axis = tuple[int, int, int]  # size, bytes between neighbours in the input, in the output
Start = tuple[int, int]  # slot of an operand, bytes to its first row


def _bits(x: float) -> int:
    return struct.unpack("q", struct.pack("d", x))[0]


class Source(NamedTuple):
    """A row as it is read: bytes between neighbours, how many there are, whether they are real, whether a window is on them."""

    step: int
    count: int
    real: bool
    window: bool = False


class Program:
    """The steps for one row, and the thread's memory they need. item: float or double."""

    def __init__(self, item: str, tables: list[np.ndarray]):
        self.item, self.tables = item, tables
        self.size = 2 * BYTES[item]
        self.calls: list[Call] = []
        self.own = 0
        self.weight = 0.0

    def room(self, count: int) -> Place:
        """The thread's own memory for `count` complex numbers."""
        place = Place(OWN, self.own)
        self.own += (count * self.size + 127) // 64 * 64
        return place

    def table(self, array: np.ndarray) -> Place:
        self.tables.append(array)
        return Place(ABSOLUTE, array.ctypes.data)

    def step(self, function: Callable[[str], Address], x: Place, y: Place, *numbers: int, table: Place = NOWHERE) -> Place:
        """Add a step; returns y."""
        self.calls.append(Call(function(self.item), x, y, table, numbers))
        return y

    def transform(self, n: int, direction: int, scale: float, x: Place, y: Place, spare: Place | None = None) -> None:
        """`scale` times the transform of n neighbouring numbers; spare: memory for as many, none of x and y. y may not be x."""
        spare = spare or self.room(n)
        if tables.radices(n) is not None:
            self.passes(n, direction, scale, x, y, (spare, y))
            return
        size = tables.chirp_length(n)
        one, other, third = (self.room(size) for _ in range(3))
        chirp = self.table(tables.chirp_table(n, self.item, direction))
        spectrum = self.table(tables.chirp_spectrum(n, size, self.item, direction))
        self.step(steps.multiplied, x, one, n, size, table=chirp)
        self.passes(size, 1, 1.0, one, other, (third, other))
        self.step(steps.multiplied, other, other, size, size, table=spectrum)
        self.passes(size, -1, scale / size, other, one, (third, one))
        self.step(steps.multiplied, one, y, n, n, table=chirp)

    def passes(
        self,
        n: int,
        direction: int,
        scale: float,
        x: Place,
        y: Place,
        between: tuple[Place, Place],
        width: int = 1,
        x_step: int = 1,
        y_step: int = 1,
    ) -> None:
        """Transforms of n points, `width` side by side, which lie x_step (y_step) numbers apart. between: where results lie
        in between, the first's before the last pass; the second is not x."""
        forms = tables.forms(n, width, complex_lanes(self.item))
        self.weight += n * width * max(1.0, math.log2(n))
        for number, (radix, m, before, form) in enumerate(forms):
            left = len(forms) - 1 - number
            target = between[(left - 1) % 2] if left else y
            geometry = m, 1, before * width, before * width, before * width
            if (number == 0 and x_step != width) or (not left and y_step != width):
                geometry = m, before, width, x_step if number == 0 else width, width if left else y_step
                form = WIDE if width >= complex_lanes(self.item) else NARROW
            table = self.table(tables.pass_table(radix, m, form, self.item, direction)) if left else NOWHERE
            numbers = (*geometry, _bits(direction), _bits(scale))
            self.calls.append(Call(radix_pass(self.item, radix, form, not left), x, target, table, numbers))
            x = target


class Work:
    """The phases of a plan."""

    def __init__(self, item: str) -> None:
        self.item, self.size = item, 2 * BYTES[item]
        self.shared = 0
        self.tables: list[np.ndarray] = []
        self.pending: list[tuple] = []

    def share(self, count: int) -> int:
        """Memory of all threads for `count` complex numbers: bytes from the start of the working memory."""
        offset = self.shared
        self.shared += (count * self.size + 127) // 64 * 64
        return offset

    def program(self) -> Program:
        return Program(self.item, self.tables)

    def phase(
        self,
        p: Program,
        axes: Sequence[Axis],
        x: tuple[int, int],
        y: tuple[int, int],
        inner: Axis | None = None,
        table_step: int = 0,
    ) -> None:
        """Run a program for every row of the axes (and along `inner`, whose number is the steps' part). x, y: slot and offset."""
        kept = 3 if inner is None else 2
        further, near = axes[: max(0, len(axes) - kept)], [*axes[max(0, len(axes) - kept) :], *([] if inner is None else [inner])]
        near = [(1, 0, 0)] * (3 - len(near)) + near
        sizes, x_strides, y_strides = zip(*near)
        for index in itertools.product(*(range(axis[0]) for axis in further)):
            x_offset = x[1] + sum(i * axis[1] for i, axis in zip(index, further))
            y_offset = y[1] + sum(i * axis[2] for i, axis in zip(index, further))
            self.pending.append((p, sizes, Rows(x[0], x_offset, x_strides), Rows(y[0], y_offset, y_strides), table_step))

    def in_blocks(self, p: Program, axes: Sequence[Axis], x: Start, y: Start, rows: int) -> None:
        """Run a program that does `rows` rows of the last axis at once. The last ones may be done twice, so y must not be x."""
        *outer, (count, x_step, y_step) = axes
        blocks = count // rows
        self.phase(p, [*outer, (blocks, rows * x_step, rows * y_step)], x, y)
        if count % rows:
            first = count - rows
            self.phase(p, outer, (x[0], x[1] + first * x_step), (y[0], y[1] + first * y_step))

    def plan(self, output: Layout, inputs: Sequence[Layout]) -> tuple[Callable, int]:
        """(the launcher, bytes of its tables)"""
        phases, scratch, threads, weight = [], self.shared, planned_threads(), 0.0
        for p, sizes, x, y, table_step in self.pending:
            total = math.prod(sizes)
            words = steps.phase_words(
                p.calls, sizes, x, y, self.shared, p.own, _FIRST_OUT + 2 if len(inputs) > 1 else SHARED, table_step
            )
            grain = max(1, math.ceil(GRAIN / max(p.weight, 1)), -(-total // (16 * threads)))
            phases.append(Phase(steps.steps_kernel(), total, grain, words))
            scratch = max(scratch, self.shared + p.own * min(threads, total))
            weight += p.weight * total
        launch = lowered(Plan(phases, [output], inputs, scratch=scratch, release=weight > 8 * GRAIN, keep=self.tables))
        return launch, tables.nbytes(self.tables)
