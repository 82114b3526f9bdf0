"""QR factorizations, and products with the Q that reflectors tell: geqrf, orgqr and ormqr of LAPACK (Golub and Van Loan, Matrix
Computations, 5.2).

A panel of columns is made triangular reflector by reflector, its block of reflectors applied to the columns behind; Q is the
blocks applied to the identity, the last one first. Stands on householder.py and blocked.py.
"""

from __future__ import annotations

from typing import NamedTuple

from flambeau.codegen.builder import Value, module
from flambeau.codegen.factorization.blocked import (
    behind,
    block_phases,
    extent,
    grain_of,
    is_whole,
    over_matrices,
    over_tiles,
    tiles,
)
from flambeau.codegen.factorization.columns import (
    FIELDS,
    Field,
    call,
    clear_text,
    copy_text,
    floor_to,
    padded,
    places,
    update_text,
)
from flambeau.codegen.factorization.householder import TILE_COLUMNS, block_of, reflector_texts
from flambeau.codegen.jit import compiled_module
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import DIRECT
from flambeau.codegen.plan import Phase

SERIAL_ROWS = 96  # a matrix with fewer reflectors is one unit of work
FEW_REFLECTORS = 16  # up to so many are applied one by one
NONE = -1  # the slot of what is not there

SHAPE = (
    "rows",
    "columns",
    "reflectors",
    "ld",
    "size",
    "source",
    "source_batch",
    "source_row",
    "source_column",
    "factors",
    "factors_batch",
    "r",
    "r_rows",
    "r_raw",
    "tau",
    "q",
    "q_columns",
    "start",
    "start_batch",
    "start_row",
    "start_column",
    "forward",
    "first",
    "count",
)
_behind = behind(SHAPE, "columns")


class Matrices(NamedTuple):
    """A batch of matrices in a buffer: strides in elements."""

    slot: int = NONE
    batch: int = 0
    row: int = 0
    column: int = 0


class Work(NamedTuple):
    """What is asked: the matrix, in which slots its results go, and how Q is applied.

    factors: (slot, batch stride) of the reflectors' factors, if the source already holds reflectors; r: slot of R (rows of it;
    raw keeps the reflectors below the diagonal); q: slot of Q, or of its product with `start`, forward for the adjoint of Q.
    """

    rows: int
    columns: int
    reflectors: int
    source: Matrices
    factors: tuple[int, int] = (NONE, 0)
    r: int = NONE
    r_rows: int = 0
    raw: bool = False
    tau: int = NONE
    q: int = NONE
    q_columns: int = 0
    start: Matrices = Matrices()
    forward: bool = False

    def words(self, ld: int, size: int) -> tuple[int, ...]:
        return (
            self.rows,
            self.columns,
            self.reflectors,
            ld,
            size,
            *self.source,
            *self.factors,
            self.r,
            self.r_rows,
            int(self.raw),
            self.tau,
            self.q,
            self.q_columns,
            *self.start,
            int(self.forward),
        )

    def size(self, field: Field, ld: int) -> int:
        """Elements of scratch memory that a matrix takes: itself, its reflectors, Q, triangles, factors."""
        block = block_of(field)
        panels = -(-self.reflectors // block)
        return ld * (self.columns + self.reflectors + self.q_columns) + 2 * block * block * panels + (panels + 1) * block


class _Matrix:
    """One matrix of a kernel's range and its scratch memory."""

    def __init__(self, f: Kernel, field: Field, batch: Value, place: Value):
        self.f, self.field, self.batch = f, field, batch
        self.c = c = f.constants(SHAPE)
        self.rows = floor_to(f, c["rows"] + (field.lanes - 1), field.lanes)
        self.block = block_of(field)
        self.ld = c["ld"]
        self.matrix = field.at(f, f.pointer(f.parameter(1)), place * c["size"])
        self.vectors = field.at(f, self.matrix, self.ld * c["columns"])
        self.q = field.at(f, self.vectors, self.ld * c["reflectors"])
        self.triangles = field.at(f, self.q, self.ld * c["q_columns"])
        panels = f.ceiling_division(c["reflectors"], self.block)
        self.tau = field.at(f, self.triangles, panels * (2 * self.block * self.block))

    def tensor(self, name: str, elements: Value) -> Value:
        """The matrix in the buffer of slot `name`, whose matrices have so many elements."""
        return self.field.at(self.f, self.f.slot(self.c[name]), self.batch * elements)

    def take(self, first: Value | int, columns: Value) -> None:
        """Copy columns from the source."""
        f, c, field = self.f, self.c, self.field
        source = field.at(f, f.slot(c["source"]), self.batch * c["source_batch"] + f.i64(first) * c["source_column"])
        target = field.at(f, self.matrix, f.i64(first) * self.ld)
        call(f, "copy", source, c["source_row"], c["source_column"], target, 1, self.ld, c["rows"], columns)
        call(f, "clear", target, self.ld, c["rows"], self.rows, columns)

    def triangle(self, first: Value, adjoint: Value) -> Value:
        """-T of the block of reflectors that begins at `first`, or its adjoint."""
        size = self.block * self.block
        f = self.f
        place = first.unsigned_div(f.i64(self.block)) * (2 * size) + f.select(adjoint, size, f.i64(0))
        return self.field.at(f, self.triangles, place)

    def factor(self, first: Value | int, count: Value, end: Value) -> None:
        """The reflectors of a panel, applied up to column `end`, or those the source holds."""
        f, c, field = self.f, self.c, self.field
        with f.branches(c["factors"] < 0) as otherwise:
            call(f, "panel", self.matrix, self.ld, self.vectors, self.tau, self.rows, first, count, end)
            otherwise()
            given = field.at(f, f.slot(c["factors"]), self.batch * c["factors_batch"])
            with f.loop(first, count + first) as k:
                field.move(f, field.at(f, given, k), field.at(f, self.tau, k))
                call(f, "vector", self.matrix, self.ld, self.vectors, self.rows, first, k)

    def block_factor(self, first: Value, count: Value) -> None:
        """The reflectors of a panel and their triangle."""
        f = self.f
        self.factor(first, count, first + count)
        call(f, "triangle", self.triangle(first, f.value(0, "i1")), self.vectors, self.ld, self.tau, self.rows, first, count)

    def reflect(self, matrix: Value, first: Value, count: Value, start: Value, end: Value, adjoint: Value) -> None:
        """A block of reflectors, or its adjoint, applied to columns [start, end) of a matrix."""
        f, field, ld = self.f, self.field, self.ld
        call(
            f,
            "reflect",
            field.at(f, matrix, start * ld + first),
            ld,
            field.at(f, self.vectors, first * ld + first),
            ld,
            self.triangle(first, adjoint),
            self.rows - first,
            count,
            end - start,
        )

    def begin(self, first: Value | int, last: Value) -> None:
        """Columns [first, last) of what Q is applied to."""
        f, c, field = self.f, self.c, self.field
        first = f.i64(first)
        target = field.at(f, self.q, first * self.ld)
        with f.branches(c["start"] < 0) as otherwise:
            call(f, "clear", target, self.ld, 0, self.rows, last - first)
            one = field.number(f, 1)
            with f.loop(first, last) as j:
                field.put(f, one, self.q, j * self.ld + j)
            otherwise()
            source = field.at(f, f.slot(c["start"]), self.batch * c["start_batch"] + first * c["start_column"])
            call(f, "copy", source, c["start_row"], c["start_column"], target, 1, self.ld, c["rows"], last - first)
            call(f, "clear", target, self.ld, c["rows"], self.rows, last - first)

    def accumulate(self, first: Value | int, last: Value) -> None:
        """Apply Q, or its adjoint, to columns [first, last) of what stands in its place."""
        f, c = self.f, self.c
        first = f.i64(first)
        panels = f.ceiling_division(c["reflectors"], self.block)
        forward = c["forward"].differs(0)
        with f.loop(0, panels) as step:
            k = f.select(forward, step, panels - 1 - step) * self.block
            # columns of the identity in front of a block's rows have zeros in those
            start = f.select(c["start"] < 0, f.minimum(f.maximum(first, k), last), first)
            self.reflect(self.q, k, f.minimum(c["reflectors"] - k, self.block), start, last, forward)

    def accumulate_singly(self) -> None:
        """The same for all columns, reflector by reflector."""
        f, c = self.f, self.c
        k, forward = c["reflectors"], c["forward"].differs(0)
        with f.loop(0, k) as step:
            i = f.select(forward, step, k - 1 - step)
            start = f.select(c["start"] < 0, f.minimum(i, c["q_columns"]), f.i64(0))
            call(
                f,
                "one",
                self.q,
                self.ld,
                self.vectors,
                self.tau,
                self.rows,
                i,
                start,
                c["q_columns"],
                f.select(forward, f.i64(-1), f.i64(1)),
            )

    def give(self) -> None:
        """Copy R and the reflectors' factors to the results."""
        f, c, field = self.f, self.c, self.field
        with f.when(c["r"] >= 0):
            with f.when(c["r_raw"].equals(0)), f.loop(0, f.minimum(c["columns"], c["r_rows"])) as j:
                call(f, "clear", field.at(f, self.matrix, j * self.ld), 0, j + 1, c["r_rows"], 1)
            target = self.tensor("r", c["r_rows"] * c["columns"])
            call(f, "copy", self.matrix, 1, self.ld, target, 1, c["r_rows"], c["r_rows"], c["columns"])
        with f.when(c["tau"] >= 0):
            k = c["reflectors"]
            call(f, "copy", self.tau, 1, k, self.tensor("tau", k), 1, k, k, 1)

    def give_q(self, first: Value | int, last: Value) -> None:
        """Copy columns of Q to the result."""
        f, c, field = self.f, self.c, self.field
        first = f.i64(first)
        target = field.at(f, self.tensor("q", c["rows"] * c["q_columns"]), first * c["rows"])
        call(f, "copy", field.at(f, self.q, first * self.ld), 1, self.ld, target, 1, c["rows"], c["rows"], last - first)


# ---------------------------------------------------------------- kernels


def _small(field: Field) -> Kernel:
    """Whole matrices with few reflectors, without blocks: less to compile."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, f["thread"])
        c = x.c
        x.take(0, c["columns"])
        x.factor(0, c["reflectors"], c["columns"])
        x.give()
        with f.when(c["q"] >= 0):
            x.begin(0, c["q_columns"])
            x.accumulate_singly()
            x.give_q(0, c["q_columns"])

    return over_matrices("small", matrix)


def _whole(field: Field) -> Kernel:
    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, f["thread"])
        c = x.c
        x.take(0, c["columns"])
        with f.loop(0, c["reflectors"], x.block) as k:
            count = f.minimum(c["reflectors"] - k, x.block)
            x.block_factor(k, count)
            with f.when(f.select(c["factors"] < 0, k + count < c["columns"], f.value(0, "i1"))):
                x.reflect(x.matrix, k, count, k + count, c["columns"], f.value(1, "i1"))
        x.give()
        with f.when(c["q"] >= 0):
            x.begin(0, c["q_columns"])
            x.accumulate(0, c["q_columns"])
            x.give_q(0, c["q_columns"])

    return over_matrices("whole", matrix)


def _take(field: Field) -> Kernel:
    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        _Matrix(f, field, batch, batch).take(first, last - first)

    return over_tiles("take", TILE_COLUMNS, extent(SHAPE, "columns"), tile)


def _leading(field: Field) -> Kernel:
    """The panel that the constants tell."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.block_factor(x.c["first"], x.c["count"])

    return over_matrices("leading", matrix)


def _following(field: Field) -> Kernel:
    """The columns behind a panel."""

    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        start = x.c["first"] + x.c["count"]
        x.reflect(x.matrix, x.c["first"], x.c["count"], start + first, start + last, f.value(1, "i1"))

    return over_tiles("following", TILE_COLUMNS, _behind, tile)


def _give(field: Field) -> Kernel:
    return over_matrices("give", lambda f, batch: _Matrix(f, field, batch, batch).give())


def _apply(field: Field) -> Kernel:
    """Q, a tile of columns at a time."""

    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.begin(first, last)
        x.accumulate(first, last)
        x.give_q(first, last)

    return over_tiles("apply", TILE_COLUMNS, extent(SHAPE, "q_columns"), tile)


@compiled_module(DIRECT)
def qr_kernels(field: Field, kind: str) -> str:
    """Addresses of the kernels by name; kind: "small", "whole" or "large"."""
    blocks = kind != "small"
    entries = {"small": [_small], "whole": [_whole], "large": [_take, _leading, _following, _give, _apply]}[kind]
    helpers = [copy_text(field), clear_text(field), *reflector_texts(field, blocks), *([update_text(field)] if blocks else [])]
    return module(*helpers, *(entry(field) for entry in entries))


def qr_phases(dtype: str, batch: int, work: Work) -> tuple[list[Phase], int]:
    """Phases that do the work on a batch of matrices, and the scratch bytes they take."""
    field = FIELDS[dtype]
    ld = padded(work.rows, field)
    size = work.size(field, ld)
    words = work.words(ld, size)
    k = work.reflectors
    if is_whole(batch, k, SERIAL_ROWS):
        grain = grain_of(batch, 4 * work.rows * k * max(work.columns, work.q_columns))
        kind = "small" if k <= FEW_REFLECTORS else "whole"
        phase = Phase(qr_kernels(field, kind)[kind], batch, grain, (*words, 0, 0))
        return [phase], size * field.bytes * places(batch, grain)
    kernels = qr_kernels(field, "large")
    behind = work.columns if work.factors[0] == NONE else 0  # given reflectors have been applied to the columns
    phases = [Phase(kernels["take"], batch * tiles(work.columns, TILE_COLUMNS), 1, (*words, 0, 0))]
    phases += block_phases(kernels, words, batch, k, block_of(field), TILE_COLUMNS, lambda after: behind - after)
    if work.r != NONE or work.tau != NONE:
        phases.append(Phase(kernels["give"], batch, 1, (*words, 0, 0)))
    if work.q != NONE:
        phases.append(Phase(kernels["apply"], batch * tiles(work.q_columns, TILE_COLUMNS), 1, (*words, 0, 0)))
    return phases, size * field.bytes * batch
