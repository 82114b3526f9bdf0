"""Triangular systems with many right-hand sides: substitution on tiles of them (Golub and Van Loan, Matrix Computations, 3.1).

A tile, two vectors of right-hand sides wide, lies in scratch memory row by row; a few rows are solved for at a time, from the
products of the rows before with elements of the matrix. These are read one by one, so the matrix may lie in any way: transposed
by its strides, upper by negative ones. A plan passes over a tile once or twice (L and U of a factorization) and exchanges its
rows before or behind. Stands on columns.py.
"""

from __future__ import annotations

from typing import NamedTuple

from flambeau.codegen.builder import Value, module
from flambeau.codegen.cpu import vector_bytes
from flambeau.codegen.factorization.columns import FIELDS, PIVOT_ERROR, Field, Scalar, call, clear_text, copy_text, helper, places
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import DIRECT
from flambeau.codegen.plan import Phase
from flambeau.codegen.runtime.threads import planned_threads

VECTORS = 2  # of a tile's rows
FEW_ROWS = 16  # up to so many are solved for from row to row
IDENTITY = -1  # the slot of right-hand sides that are the identity
KEEP, BEFORE, BEHIND = 0, 1, 2  # when rows are exchanged

HEAD = (
    "n",
    "columns",
    "tiles",
    "b_slot",
    "b_offset",
    "b_batch",
    "b_row",
    "b_column",
    "x_slot",
    "x_batch",
    "x_row",
    "x_column",
    "exchange",
    "pivots_slot",
    "pivots_batch",
    "passes",
)
PASS = ("slot", "batch", "first", "row", "column", "unit", "sign", "backward")


class Triangle(NamedTuple):
    """A triangular matrix of order n in a buffer: strides in elements; conjugated if so said."""

    slot: int
    batch: int
    row: int
    column: int
    upper: bool
    unit: bool = False
    conjugated: bool = False

    def words(self, n: int) -> tuple[int, ...]:
        """PASS's words: an upper triangle is a lower one read from its last element."""
        turn = -1 if self.upper else 1
        first = (n - 1) * (self.row + self.column) if self.upper else 0
        return (
            self.slot,
            self.batch,
            first,
            turn * self.row,
            turn * self.column,
            int(self.unit),
            -1 if self.conjugated else 1,
            int(self.upper),
        )

    def adjoint(self, conjugated: bool) -> Triangle:
        return self._replace(row=self.column, column=self.row, upper=not self.upper, conjugated=self.conjugated != conjugated)


class Block(NamedTuple):
    """A batch of matrices in a buffer: strides in elements."""

    slot: int
    batch: int
    row: int
    column: int


def _rows(field: Field) -> int:
    """Rows that are solved for together: as many as registers hold the sums of."""
    return 8 if vector_bytes() == 64 and not field.complex else 4


def _substitute_text(field: Field) -> Kernel:
    """void substitute(tile, step, a, row, column, n, unit, sign): a tile of right-hand sides, `step` elements from row to row.

    A few rows at a time: first what the rows in front contribute, in registers, then among themselves (`finish`).
    """
    f = helper("substitute", ("tile", "step", "a", "row", "column", "n", "unit", "sign"), ("tile", "a"))
    sign = f.splat(f.convert(f["sign"], field.real, "sitofp"), field.width) if field.complex else None

    def solve(i: Value, count: int) -> None:
        """Rows i to i + count."""
        sums = [[[f.variable(field.vector, 0) for _ in range(field.parts)] for _ in range(VECTORS)] for _ in range(count)]
        lines = [field.at(f, f["a"], (i + r) * f["row"]) for r in range(count)]
        with f.loop(0, i) as k:
            line, across = field.at(f, f["tile"], k * f["step"]), k * f["column"]
            known = [field.load(f, line, v * field.lanes) for v in range(VECTORS)]
            for start, cells in zip(lines, sums):
                factor = field.spread(f, field.element(f, start, across))
                for x, cell in zip(known, cells):
                    for part, sum in zip(factor, cell):
                        sum.set(f.fma(x, part, sum.get()))
        for r, cells in enumerate(sums):
            line = field.at(f, f["tile"], (i + r) * f["step"])
            for v, cell in enumerate(cells):
                y = field.load(f, line, v * field.lanes) - cell[0].get()
                if sign is not None:
                    y = f.fma(-field.turned(f, cell[1].get()), sign, y)
                field.store(f, y, line, v * field.lanes)
        corner = field.at(f, f["a"], i * f["row"] + i * f["column"])
        call(
            f,
            "finish",
            field.at(f, f["tile"], i * f["step"]),
            f["step"],
            corner,
            f["row"],
            f["column"],
            count,
            f["unit"],
            f["sign"],
        )

    together = _rows(field)
    whole = f["n"] & -together
    with f.loop(0, whole, together) as i:
        solve(i, together)
    with f.loop(whole, f["n"]) as i:
        solve(i, 1)
    return f


def _finish_text(field: Field) -> Kernel:
    """void finish(tile, step, a, row, column, n, unit, sign): the same for a few rows, from row to row."""
    f = helper("finish", ("tile", "step", "a", "row", "column", "n", "unit", "sign"), ("tile", "a"))
    sign = f.convert(f["sign"], field.real, "sitofp")
    unit = f["unit"].differs(0)

    def element(i: Value, k: Value) -> Scalar:
        x = field.element(f, f["a"], i * f["row"] + k * f["column"])
        return (x[0], x[1] * sign) if field.complex else x

    with f.loop(0, f["n"]) as i:
        line = field.at(f, f["tile"], i * f["step"])
        found = [field.load(f, line, v * field.lanes) for v in range(VECTORS)]
        pivot = tuple(f.select(unit, one, x) for x, one in zip(element(i, i), field.number(f, 1)))
        if field.complex:
            inverse = field.spread(f, field.inverse(f, pivot))
            found = [field.times(f, x, inverse) for x in found]
        else:
            found = [x / f.splat(pivot[0], field.width) for x in found]
        for v, x in enumerate(found):
            field.store(f, x, line, v * field.lanes)
        with f.loop(i + 1, f["n"]) as j:
            other = field.at(f, f["tile"], j * f["step"])
            factor = field.spread(f, element(j, i))
            for v, x in enumerate(found):
                field.store(f, field.less(f, field.load(f, other, v * field.lanes), x, factor), other, v * field.lanes)
    return f


def _exchange_text(field: Field) -> Kernel:
    """void exchange(tile, pivots, n, backward, p): exchanges of a tile's rows, the last one first if `backward`. A pivot that is
    no row leaves PIVOT_ERROR in the kernel's frame p.
    """
    f = helper("exchange", ("tile", "pivots", "n", "backward", "p"), ("tile", "pivots", "p"))
    with f.loop(0, f["n"]) as step:
        k = f.select(f["backward"].differs(0), f["n"] - 1 - step, step)
        other = f.convert(f.load("i32", f["pivots"], k), "i64", "sext") - 1
        inside = other.unsigned_below(f["n"])
        with f.when(inside.equals(0)):
            f.store(f.i64(PIVOT_ERROR), f["p"], 2)
        other = f.select(inside, other, k)
        for v in range(VECTORS):
            one, two = (field.at(f, f["tile"], (row * VECTORS + v) * field.lanes) for row in (k, other))
            a, b = field.load(f, one), field.load(f, two)
            field.store(f, b, one)
            field.store(f, a, two)
    return f


@compiled(DIRECT)
def solve_kernel(field: Field, small: bool) -> str:
    """Its range is batches x tiles of right-hand sides; small: of at most FEW_ROWS rows, which takes less to compile."""
    f = Kernel()
    c = f.constants(HEAD)
    wide = VECTORS * field.lanes
    n = c["n"]
    tile = field.at(f, f.pointer(f.parameter(1)), f["thread"] * (n * wide))
    with f.loop(f["begin"], f["end"]) as index:
        batch, first = index.unsigned_div(c["tiles"]), index.unsigned_rem(c["tiles"]) * wide
        count = f.minimum(c["columns"] - first, wide)
        with f.branches(c["b_slot"] < 0) as otherwise:
            call(f, "clear", tile, wide, 0, wide, n)
            one = field.number(f, 1)
            with f.loop(0, count) as j:
                field.put(f, one, tile, (first + j) * wide + j)
            otherwise()
            source = field.at(f, f.slot(c["b_slot"]), c["b_offset"] + batch * c["b_batch"] + first * c["b_column"])
            call(f, "copy", source, c["b_column"], c["b_row"], tile, 1, wide, count, n)
            call(f, "clear", tile, wide, count, wide, n)
        with f.when(c["exchange"].equals(BEFORE)):
            call(f, "exchange", tile, f.at("i32", f.slot(c["pivots_slot"]), batch * c["pivots_batch"]), n, 0, f["p"])
        with f.loop(0, c["passes"]) as turn:
            block = f.at("i64", f.load("ptr", f["p"]), turn * len(PASS) + len(HEAD))
            p = {name: f.load("i64", block, i) for i, name in enumerate(PASS)}
            a = field.at(f, f.slot(p["slot"]), p["first"] + batch * p["batch"])
            backward = p["backward"].differs(0)
            start = field.at(f, tile, f.select(backward, n - 1, f.i64(0)) * wide)
            step = f.select(backward, f.i64(-wide), f.i64(wide))
            call(f, "finish" if small else "substitute", start, step, a, p["row"], p["column"], n, p["unit"], p["sign"])
        with f.when(c["exchange"].equals(BEHIND)):
            call(f, "exchange", tile, f.at("i32", f.slot(c["pivots_slot"]), batch * c["pivots_batch"]), n, 1, f["p"])
        target = field.at(f, f.slot(c["x_slot"]), batch * c["x_batch"] + first * c["x_column"])
        call(f, "copy", tile, 1, wide, target, c["x_column"], c["x_row"], count, n)
    helpers = [copy_text, clear_text, _exchange_text, _finish_text, *([] if small else [_substitute_text])]
    return module(*(text(field) for text in helpers), f)


def solve_phase(
    dtype: str,
    batch: int,
    n: int,
    columns: int,
    b: Block | None,
    x: Block,
    passes: list[Triangle],
    exchange: int = KEEP,
    pivots: tuple[int, int] = (0, 0),
) -> tuple[list[Phase], int]:
    """The phase that solves triangular systems one after the other, and the scratch bytes it takes.

    b: the right-hand sides, None for the identity; x: where the solutions go; pivots: slot and batch stride of row exchanges
    as LAPACK's, BEFORE (as they are told) or BEHIND (undone).
    """
    field, threads = FIELDS[dtype], planned_threads()
    if not (batch and n and columns):
        return [], 0
    wide = VECTORS * field.lanes
    tiles = -(-columns // wide)
    given = Block(IDENTITY, 0, 0, 0) if b is None else b
    constants = [n, columns, tiles, given.slot, 0, *given[1:], *x, exchange, *pivots, len(passes)]
    for triangle in passes:
        constants += triangle.words(n)
    total, work = batch * tiles, n * (n + 16) * len(passes)
    serial = total * work <= 40000
    grain = total if serial else max(1, min(-(-40000 // work), -(-total // (2 * threads))))
    return [Phase(solve_kernel(field, n <= FEW_ROWS), total, grain, constants)], n * wide * field.bytes * places(total, grain)
