"""Fourier transforms of rows, and of columns in place: what is done in which order, as phases of a plan.

- A row of n = r1 r2 ... rk points, small primes, is k passes (radix) in the caches of one thread.
- Other lengths are a convolution with a chirp, by transforms of a larger length (L. I. Bluestein, "A linear filtering approach
  to the computation of discrete Fourier transform", IEEE Trans. Audio Electroacoustics 18, 1970).
- A long row is a matrix whose columns are transformed, multiplied by roots of unity, and transformed along its rows, by all
  threads (the four steps of D. H. Bailey, "FFTs in external or hierarchical memory", J. Supercomputing 4, 1990).
- An even number of real points are half as many complex ones, folded afterwards.
- Short rows (short), and columns in blocks, are worked on side by side.

Stands on program; used by rows and plans.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from flambeau.codegen.fourier import steps, tables
from flambeau.codegen.fourier.program import Axis, Program, Source, Start, Work
from flambeau.codegen.fourier.radix import complex_lanes
from flambeau.codegen.fourier.short import COMPLEX, HERMITIAN, REAL, short_rows
from flambeau.codegen.fourier.steps import INPUT, MOVING, OUTPUT, SHARED, WINDOW, Place
from flambeau.codegen.jit import Address
from flambeau.codegen.kernel import BYTES

LONG = 1 << 15  # points from which a row is worked on by all threads
COLUMNS = 256  # bytes of a row of a block of columns
BLOCK = 8 << 20  # bytes of the largest block of columns
CHUNK = 1 << 13  # numbers of a part of a long row
FEW = 8  # long rows that are worked on one after the other by all threads, where each needs its own phases


def _complex_row(p: Program, source: Source, x: Place, n: int) -> Place:
    """Where the n numbers of a row lie side by side: where they are, or in memory of the thread."""
    step, count = source.step, min(source.count, n)
    if source.real:
        if source.window:
            x, step = p.step(steps.windowed, x, p.room(count), count, step // BYTES[p.item], table=Place(WINDOW)), BYTES[p.item]
        return p.step(steps.widened, x, p.room(n), count, n, step // BYTES[p.item])
    if count == n and (step == p.size or n == 1):
        return x
    return p.step(steps.gathered, x, p.room(n), count, n, step // p.size, 1)


def _real_row(p: Program, source: Source, x: Place, n: int) -> Place:
    """The same for a row that stays real."""
    item, count = BYTES[p.item], min(source.count, n)
    if source.window:
        return p.step(steps.windowed, x, p.room(count), count, source.step // item, table=Place(WINDOW))
    if count == n and source.step == item:
        return x
    return p.step(steps.gathered_real, x, p.room(n // 2 + 1), count, n, source.step // item)


def complex_rows(
    work: Work, axes: Sequence[Axis], x: Start, y: Start, source: Source, n: int, direction: int, scale: float
) -> None:
    """`scale` times the transform of n points of every row of x, to neighbouring numbers of y."""
    lanes, size = complex_lanes(work.item), work.size
    smooth = tables.radices(n) is not None
    if n >= LONG and (smooth or math.prod(axis[0] for axis in axes) <= FEW):
        _long(work, axes, x, y, source, n, direction, scale)
        return
    if short_rows(work, COMPLEX, axes, x, y, source, n, direction, scale):
        return
    apart = not source.real and source.count >= n and source.step != size
    if apart and axes and axes[-1][1] == size and axes[-1][0] >= lanes:
        p, (_, _, y_row) = work.program(), axes[-1]
        rows, pitch = _transposed(p, n, source.step // size)
        spare = p.room(n)
        for c in range(lanes):
            p.transform(n, direction, scale, rows.moved(c * pitch), Place(OUTPUT, c * y_row), spare)
        work.in_blocks(p, axes, x, y, lanes)
        return
    p = work.program()
    p.transform(n, direction, scale, _complex_row(p, source, Place(INPUT), n), Place(OUTPUT))
    work.phase(p, axes, x, y)


def _transposed(p: Program, n: int, step: int) -> tuple[Place, int]:
    """A vector's neighbouring columns of n numbers, `step` apart, as rows in memory of the thread: where, bytes between them."""
    pitch = n + complex_lanes(p.item)
    rows = p.room(pitch * complex_lanes(p.item))
    p.step(steps.transposed, Place(INPUT), rows, n, step, pitch, step, 1)
    return rows, pitch * p.size


def columns(work: Work, axes: Sequence[Axis], y: Start, n: int, count: int, direction: int, scale: float = 1.0) -> None:
    """Transform, in place, each of the `count` columns of matrices of n rows."""
    axes = [(rows, step, step) for rows, _, step in axes]
    size = work.size
    lanes = complex_lanes(work.item)
    wide = max(lanes, COLUMNS // size)
    here, done = Place(OUTPUT), 0
    if tables.radices(n) is None or n * wide * size > BLOCK:
        p = work.program()
        one, other = p.room(n), p.room(n)
        p.step(steps.gathered, here, one, n, n, count, 1)
        p.transform(n, direction, scale, one, other)
        p.step(steps.gathered, other, here, n, n, 1, count)
        work.phase(p, axes, y, y, (count, size, size))
        return
    for width in (wide, lanes, count % lanes):  # of whole vectors: a single pass in place must not do a number twice
        blocks = (count - done) // width if width else 0
        if blocks:
            p = work.program()
            p.passes(n, direction, scale, here, here, (p.room(n * width), p.room(n * width)), width, count, count)
            start = y[0], y[1] + done * size
            work.phase(p, axes, start, start, (blocks, width * size, width * size))
            done += blocks * width


# ---------------------------------------------------------------- long rows


def _contiguous(work: Work, axes: Sequence[Axis], x: Start, read: Callable[[Program], Place], n: int) -> tuple[Start, list[Axis]]:
    """Rows that `read` makes n neighbouring complex numbers of, in shared memory: where, and the axes from there to y."""
    p = work.program()
    p.step(steps.gathered, read(p), Place(OUTPUT), n, n, 1, 1)
    step, strides = n * work.size, []
    for count, _, _ in reversed(axes):
        strides.insert(0, step)
        step *= count
    start = SHARED, work.share(step // work.size)
    work.phase(p, [(a[0], a[1], s) for a, s in zip(axes, strides)], x, start)
    return start, [(a[0], s, a[2]) for a, s in zip(axes, strides)]


def _whole(work: Work, step: Callable[[str], Address], x: Start, y: Start, total: int, table: np.ndarray, *numbers: int) -> None:
    """A step with a table on a long row, in parts."""
    p = work.program()
    p.step(step, Place(INPUT), Place(OUTPUT), *numbers, table=p.table(table))
    p.weight = 16 * CHUNK
    work.phase(p, [], x, y, (-(-total // CHUNK), 0, 0))


def _rows(axes: Sequence[Axis], x: Start, y: Start) -> list[tuple[Start, Start]]:
    """Where each of some rows begins."""
    made = []
    for index in itertools.product(*(range(axis[0]) for axis in axes)):
        made.append(
            (
                (x[0], x[1] + sum(i * axis[1] for i, axis in zip(index, axes))),
                (y[0], y[1] + sum(i * axis[2] for i, axis in zip(index, axes))),
            )
        )
    return made


def _long(work: Work, axes: Sequence[Axis], x: Start, y: Start, source: Source, n: int, direction: int, scale: float) -> None:
    """complex_rows by all threads."""
    if source.real or source.count < n or source.step != work.size:
        x, axes = _contiguous(work, axes, x, lambda p: _complex_row(p, source, Place(INPUT), n), n)
    if tables.radices(n) is not None:
        _four_steps(work, axes, x, y, n, direction, scale)
        return
    size = tables.chirp_length(n)
    chirp = tables.chirp_table(n, work.item, direction)
    spectrum = tables.chirp_spectrum(n, size, work.item, direction)
    one, other = (SHARED, work.share(size)), (SHARED, work.share(size))
    for row, target in _rows(axes, x, y):
        _whole(work, steps.multiplied, row, one, size, chirp, n, size, CHUNK)
        _four_steps(work, [], one, other, size, 1, 1.0)
        _whole(work, steps.multiplied, other, other, size, spectrum, size, size, CHUNK)
        _four_steps(work, [], other, one, size, -1, scale / size)
        _whole(work, steps.multiplied, one, target, n, chirp, n, n, CHUNK)


def _four_steps(work: Work, axes: Sequence[Axis], x: Start, y: Start, n: int, direction: int, scale: float) -> None:
    """Rows as matrices of n1 rows and n2 columns: the columns become rows of y, transformed and multiplied by roots of unity; the
    columns of those are then transformed in place.
    """
    n1, n2 = tables.split(n)
    lanes, size = complex_lanes(work.item), work.size
    table = tables.crossing_table(n2, n1, work.item, direction)

    def phase(count: int, blocks: int, done: int) -> None:
        p = work.program()
        if count > 1:
            rows, pitch = _transposed(p, n1, n2)
        else:
            rows, pitch = p.step(steps.gathered, Place(INPUT), p.room(n1), n1, n1, n2, 1), 0
        spare, factors = p.room(n1), p.table(table).moved(done * table.strides[0])
        for c in range(count):
            target = Place(OUTPUT, c * n1 * size)
            p.transform(n1, direction, scale, rows.moved(c * pitch), target, spare)
            p.step(steps.crossed, target, target, n1, table=Place(MOVING, factors.moved(c * table.strides[0]).offset))
        inner = blocks, count * size, count * n1 * size
        start = y[0], y[1] + done * n1 * size
        work.phase(p, axes, (x[0], x[1] + done * size), start, inner, count * table.strides[0])

    blocks = n2 // lanes
    phase(lanes, blocks, 0)
    if n2 % lanes:
        phase(1, n2 % lanes, blocks * lanes)
    columns(work, axes, y, n2, n1, direction)


# ---------------------------------------------------------------- real rows


def real_rows(work: Work, axes: Sequence[Axis], x: Start, y: Start, source: Source, n: int, direction: int, scale: float) -> None:
    """The first n // 2 + 1 numbers of `scale` times the transform of n real points of every row of x."""
    if short_rows(work, REAL, axes, x, y, source, n, direction, scale):
        return
    half, p = n // 2, work.program()
    if n % 2:
        made = p.room(n)
        p.transform(n, direction, scale, _complex_row(p, source, Place(INPUT), n), made)
        p.step(steps.gathered, made, Place(OUTPUT), half + 1, half + 1, 1, 1)
        work.phase(p, axes, x, y)
        return
    table = tables.folding_table(n, work.item, direction, back=False)
    if half >= LONG and math.prod(axis[0] for axis in axes) <= FEW:
        if source.window or source.count < n or source.step != BYTES[work.item]:
            x, axes = _contiguous(work, axes, x, lambda p: _real_row(p, source, Place(INPUT), n), half)
        between = SHARED, work.share(half + 1)
        for row, target in _rows(axes, x, y):
            _long(work, [], row, between, Source(work.size, half, False), half, direction, scale / 2)
            _whole(work, steps.folded, between, target, half + 1, table, half + 1, half, 1, CHUNK, 0)
        return
    row, made = _real_row(p, source, Place(INPUT), n), p.room(half + 1)
    p.transform(half, direction, scale / 2, row, made, Place(OUTPUT))
    p.step(steps.folded, made, Place(OUTPUT), half + 1, half, 1, 0, 0, table=p.table(table))
    work.phase(p, axes, x, y)


def hermitian_rows(
    work: Work, axes: Sequence[Axis], x: Start, y: Start, source: Source, n: int, direction: int, scale: float
) -> None:
    """n real numbers for every row of x: `scale` times the transform of n numbers of which the first n // 2 + 1 are given."""
    if short_rows(work, HERMITIAN, axes, x, y, source, n, direction, scale):
        return
    half, p = n // 2, work.program()
    if n % 2:
        row, whole, made = _complex_row(p, source, Place(INPUT), half + 1), p.room(n), p.room(n)
        p.step(steps.mirrored, row, whole, n)
        p.transform(n, direction, scale, whole, made)
        p.step(steps.real_parts, made, Place(OUTPUT), n)
        work.phase(p, axes, x, y)
        return
    table = tables.folding_table(n, work.item, direction, back=True)
    if half >= LONG and math.prod(axis[0] for axis in axes) <= FEW:
        if source.count < half + 1 or source.step != work.size:
            x, axes = _contiguous(work, axes, x, lambda p: _complex_row(p, source, Place(INPUT), half + 1), half + 1)
        between = SHARED, work.share(half)
        for row, target in _rows(axes, x, y):
            _whole(work, steps.folded, row, between, half, table, half, half, 0, CHUNK, 1)
            _long(work, [], between, target, Source(work.size, half, False), half, direction, scale)
        return
    row, made = _complex_row(p, source, Place(INPUT), half + 1), p.room(half)
    p.step(steps.folded, row, made, half, half, 0, 0, 1, table=p.table(table))
    p.transform(half, direction, scale, made, Place(OUTPUT))
    work.phase(p, axes, x, y)
