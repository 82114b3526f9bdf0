"""Short rows side by side: as many transforms at once as a vector has numbers, each number of a row in a lane of its own.

Rows are transposed in registers on the way in and out, so that every pass fills its vectors whatever the length. Stands on
program; used by rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.codegen.fourier import steps, tables
from flambeau.codegen.fourier.program import Axis, Program, Source, Start, Work
from flambeau.codegen.fourier.radix import NARROW, complex_lanes
from flambeau.codegen.fourier.steps import INPUT, OUTPUT, Place
from flambeau.codegen.kernel import BYTES

SHORT = 32  # vectors' points up to which it pays
COMPLEX, REAL, HERMITIAN = "complex", "real", "hermitian"
_RESULT = Place(OUTPUT)


def short_rows(
    work: Work, kind: str, axes: Sequence[Axis], x: Start, y: Start, source: Source, n: int, direction: int, scale: float
) -> bool:
    """Do the rows, a vector's at a time, if that is the way for them; returns whether it is."""
    lanes, size = complex_lanes(work.item), work.size
    item = size // 2 if source.real else size
    if not axes or axes[-1][0] < lanes or axes[-1][1] % item:
        return False
    _, x_row, y_row = axes[-1]
    apart = x_row == item and source.step != item
    if not _possible(kind, source, n, lanes) or not (apart or (source.step == item and _pays(kind, n, lanes))):
        return False
    p = work.program()
    half = kind != COMPLEX and n % 2 == 0
    terms, step = n // 2 + 1 if kind == HERMITIAN else n, lanes
    if source.real and apart:
        numbers, half = p.step(steps.widened_rows, Place(INPUT), p.room(n * lanes), lanes, n, source.step // item, lanes), False
    elif source.real and half and x_row % size == 0:
        numbers = _columns(p, Place(INPUT), x_row // size, n // 2)
    elif source.real:
        rows = p.step(steps.widened_rows, Place(INPUT), p.room(n * lanes), n, lanes, x_row // item, n)
        numbers, half = _columns(p, rows, n, n), False
    elif apart:
        numbers, step = Place(INPUT), source.step // size
    else:
        numbers = _columns(p, Place(INPUT), x_row // size, terms)
    if kind == HERMITIAN:
        _hermitian(p, numbers, step, n, direction, scale, y_row)
    elif half:
        _real(p, numbers, n, direction, scale, y_row)
    else:
        _rows(p, _transformed(p, numbers, n, direction, scale, step), y_row, n // 2 + 1 if kind == REAL else n)
    work.in_blocks(p, axes, x, y, lanes)
    return True


def _possible(kind: str, source: Source, n: int, lanes: int) -> bool:
    """Whether rows are short, complete, and of small radices."""
    complete = source.count >= (n // 2 + 1 if kind == HERMITIAN else n) and not source.window
    return complete and n <= SHORT * lanes and tables.radices(n) is not None


def _pays(kind: str, n: int, lanes: int) -> bool:
    """Whether a row alone would not fill vectors."""
    points = n if kind == COMPLEX or n % 2 else n // 2
    return any(form == NARROW for _, _, _, form in tables.forms(points, 1, lanes))


def _columns(p: Program, x: Place, x_row: int, count: int) -> Place:
    """`count` numbers of a vector's rows, x_row numbers apart, as columns."""
    lanes = complex_lanes(p.item)
    return p.step(steps.transposed, x, p.room(count * lanes), count, x_row, lanes, 1, lanes)


def _rows(p: Program, columns: Place, y_row: int, count: int, y: Place = _RESULT) -> None:
    """Columns of `count` numbers as rows, y_row bytes apart."""
    lanes = complex_lanes(p.item)
    p.step(steps.transposed, columns, y, count, lanes, y_row // p.size, lanes, 1)


def _transformed(p: Program, x: Place, n: int, direction: int, scale: float, step: int) -> Place:
    """Transforms of columns whose numbers are `step` apart."""
    lanes = complex_lanes(p.item)
    y, spare = p.room(n * lanes), p.room(n * lanes)
    p.passes(n, direction, scale, x, y, (spare, y), lanes, step, lanes)
    return y


def _real(p: Program, x: Place, n: int, direction: int, scale: float, y_row: int) -> None:
    """The transform of n real numbers, which lie as n / 2 complex ones."""
    half, lanes = n // 2, complex_lanes(p.item)
    made, terms = _transformed(p, x, half, direction, scale / 2, lanes), p.room((half + 1) * lanes)
    table = p.table(tables.folding_table(n, p.item, direction, back=False))
    p.step(steps.folded_columns, made, terms, half + 1, half, 1, 0, lanes, table=table)
    _rows(p, terms, y_row, half + 1)


def _hermitian(p: Program, x: Place, step: int, n: int, direction: int, scale: float, y_row: int) -> None:
    """n real numbers from the first n // 2 + 1 of their transform, `step` apart."""
    lanes, half = complex_lanes(p.item), n // 2
    if n % 2 == 0:
        table = p.table(tables.folding_table(n, p.item, direction, back=True))
        folded = p.step(steps.folded_columns, x, p.room(half * lanes), half, half, 0, 1, step, table=table)
        _rows(p, _transformed(p, folded, half, direction, scale, lanes), y_row, half)
        return
    whole = p.step(steps.mirrored_columns, x, p.room(n * lanes), n, step)
    rows = p.room(n * lanes)
    _rows(p, _transformed(p, whole, n, direction, scale, lanes), n * p.size, n, rows)
    p.step(steps.real_rows, rows, Place(OUTPUT), n, lanes, n, y_row // BYTES[p.item])
