"""Singular values and vectors: a matrix made bidiagonal, the reflectors of both sides multiplied out, the rotations of the
implicit QR iteration applied to their products (Golub and Van Loan, Matrix Computations, 8.6).

The matrix has at least as many rows as columns; otherwise it is its adjoint that is worked on. It is scaled by a power of two if
its largest element is far from one; singular values of one that holds NaN or infinities are NaN, and NaN is reported. On a large
matrix one thread goes on with the iteration while the others apply the rotations that it logged before. Stands on bidiagonal.py,
bidiagonal_blocks.py, bidiagonal_qr.py, spectrum.py and blocked.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from flambeau.codegen.builder import Value, module
from flambeau.codegen.factorization.bidiagonal import bidiagonal_texts
from flambeau.codegen.factorization.bidiagonal_blocks import bidiagonal_block_texts
from flambeau.codegen.factorization.bidiagonal_qr import chase_text
from flambeau.codegen.factorization.blocked import behind, extent, grain_of, is_whole, over_matrices, over_tiles, tiles
from flambeau.codegen.factorization.columns import (
    FIELDS,
    Field,
    call,
    clear_text,
    copy_text,
    floor_to,
    helper,
    padded,
    places,
    update_text,
)
from flambeau.codegen.factorization.householder import block_of, dots_text, one_text, reflector_text, reflector_texts, vector_text
from flambeau.codegen.factorization.rotations import HEAD, TOGETHER, rotate_text
from flambeau.codegen.factorization.spectrum import WORDS, Spectral, full_sweeps, laid_out, largest_text
from flambeau.codegen.jit import compiled_module
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.plan import Phase
from flambeau.codegen.runtime.threads import planned_threads

FEW = 16  # rows up to which reflectors are multiplied out one by one
SERIAL_COLUMNS = 96  # a matrix with fewer is one unit of work
LEFT = 200  # columns that are left to be made bidiagonal one by one
TILE_COLUMNS = 48
GIVEN = 16  # singular vectors that are given together
PIECE = 16  # columns to a thread's piece of a product
HAS_NAN = -4  # LAPACK's info for it

PARTS = (
    "matrix",
    "v",
    "tau",
    "u",
    "u_tau",
    "q",
    "p",
    "triangles",
    "u_triangles",
    "d",
    "e",
    "order",
    "state",
    "x",
    "y",
    "sums",
    "negative",
    "right",
    "left",
    "heads",
    "log_size",
    "heads_size",
)
SHAPE = (
    "rows",
    "n",
    "ld",
    "u_ld",
    "size",
    "room",
    "source",
    "source_batch",
    "source_row",
    "source_column",
    "turned",
    "q_columns",
    *PARTS,
    "first",
    "count",
    "turn",
)
_columns = extent(SHAPE, "n")
_behind = behind(SHAPE, "n")


class Work(NamedTuple):
    """What is asked of a matrix: at least as many rows as columns, the source's slot and strides (batch, row, column), whether it
    is the adjoint of what is asked for, how many left vectors (none: values only), and whether it is worked on in phases."""

    rows: int
    n: int
    source: tuple[int, int, int, int]
    turned: bool
    q_columns: int
    phases: bool

    def words(self, field: Field) -> tuple[tuple[int, ...], int]:
        """(SHAPE's words but for the last ones, bytes of scratch memory for a matrix)."""
        n, ld, u_ld, size = self.n, padded(self.rows, field), padded(self.n, field), field.bytes
        block = block_of(field)
        threads = planned_threads() if self.phases else 0
        vectors = self.q_columns > 0
        triangles = 2 * block * block * -(-n // block) * size if vectors else 0
        room = full_sweeps(n) * n if vectors else 0
        log, heads, logs = room * 2 * size // field.parts, 8 * HEAD * max(room, 1), 2 if self.phases else 1
        kept = block if self.phases else 1
        sizes = {
            "matrix": ld * n * size,
            "v": ld * n * size,
            "tau": n * size,
            "u": u_ld * n * size,
            "u_tau": n * size,
            "q": ld * self.q_columns * size,
            "p": u_ld * n * size if vectors else 0,
            "triangles": triangles,
            "u_triangles": triangles,
            "d": 8 * (n + 1),
            "e": 8 * (n + 1),
            "order": 8 * max(n, self.q_columns),
            "state": 8 * len(WORDS),
            "x": ld * kept * size,
            "y": u_ld * kept * size,
            "sums": ld * threads * size,
            "negative": u_ld * size,
            "right": logs * log,
            "left": logs * log,
            "heads": logs * heads,
        }
        at, total = laid_out(sizes)
        return (
            self.rows,
            n,
            ld,
            u_ld,
            total,
            room,
            *self.source,
            int(self.turned),
            self.q_columns,
            *at.values(),
            log,
            heads,
        ), total


@cache
def _adjoint_text(field: Field) -> Kernel:
    """void adjoint(from, from_column, order, first, last, to, to_column, rows): the adjoints of some columns as rows [first,
    last)."""
    f = helper("adjoint", ("from", "from_column", "order", "first", "last", "to", "to_column", "rows"), ("from", "order", "to"))
    with f.loop(0, f["rows"]) as i, f.loop(f["first"], f["last"]) as j:
        column = field.at(f, f["from"], f.load("i64", f["order"], j) * f["from_column"])
        field.put(f, field.conjugate(f, field.element(f, column, i)), f["to"], i * f["to_column"] + j)
    return f


class _Matrix(Spectral):
    """One matrix of a kernel's range and the parts of its scratch memory."""

    def __init__(self, f: Kernel, field: Field, batch: Value, place: Value):
        super().__init__(f, field, batch, place, SHAPE, PARTS[:-2])
        self.n, self.ld, self.u_ld = self.c["n"], self.c["ld"], self.c["u_ld"]
        self.rows, self.u_rows = self.whole(self.c["rows"]), self.whole(self.n)

    def take(self, first: Value | int, columns: Value) -> None:
        """Copy columns from the source, conjugated if it is the adjoint that is asked for."""
        f, field = self.f, self.field
        self.copy_in(first, columns, self.c["rows"])
        if field.complex:
            signs = ", ".join(f"{field.real} {'1.0' if i % 2 == 0 else '-1.0'}" for i in range(field.width))
            with f.when(self.c["turned"].differs(0)), f.loop(first, columns + first) as j:
                column = field.at(f, self["matrix"], j * self.ld)
                with f.loop(0, self.rows, field.lanes) as i:
                    field.store(f, field.load(f, column, i) * Value(f, field.vector, f"<{signs}>"), column, i)

    def begin(self) -> None:
        """Scale the matrix if it has to be; NaN is a failure."""
        f = self.f
        most = self.begin_scaled(self.rows, self.n, 0, 2.0**-26 if self.field.real == "float" else 2.0**-53)
        f.store(f.select(most.differs(most), f.i64(HAS_NAN), f.i64(0)), self.word("failed"))

    def reduce(self, first: Value | int) -> None:
        """Make columns and rows from `first` on bidiagonal."""
        call(
            self.f,
            "reduce",
            self["matrix"],
            self.ld,
            self["v"],
            self["tau"],
            self["u"],
            self.u_ld,
            self["u_tau"],
            self["d"],
            self["e"],
            self["x"],
            self["y"],
            self.rows,
            self.u_rows,
            first,
            self.n,
        )

    def chase(self, turn: Value | int) -> Value:
        """Sweeps into the logs: how many."""
        made = self.f.call(
            "i64",
            "chase",
            self["d"],
            self["e"],
            self.n,
            self["state"],
            self.turn("right", turn),
            self.turn("left", turn),
            self.turn("heads", turn),
            self.c["room"],
            declare=False,
        )
        assert made is not None
        return made

    def rotate_rows(self, turn: Value | int, sweeps: Value) -> None:
        """Apply sweeps to all rows of both sides."""
        self.rotate("q", self.ld, "left", turn, sweeps, 0, self.rows * self.field.parts)
        self.rotate("p", self.u_ld, "right", turn, sweeps, 0, self.u_rows * self.field.parts)

    def converge(self) -> None:
        """Sweeps, and their rotations, until all singular values are found."""
        f = self.f
        with f.repeat(lambda: f.load("i64", self.word("first")) < self.n):
            self.rotate_rows(0, self.chase(0))

    def give_values(self, vectors: bool) -> None:
        """Make the values positive, sort and give them."""
        f, field = self.f, self.field
        with f.loop(0, self.n) as k:
            x = f.load("double", self["d"], k)
            with f.when(x < 0):
                f.store(-x, self["d"], k)
                if vectors:
                    column = field.at(f, self["p"], k * self.u_ld)
                    with f.loop(0, self.u_rows, field.lanes) as i:
                        field.store(f, -field.load(f, column, i), column, i)
        if vectors:
            with f.loop(self.n, self.c["q_columns"]) as k:
                f.store(k, self["order"], k)
        self.give_in_order(1 if vectors else 0, self.n, True, f.i64(3 if vectors else 1))

    def give_vectors(self, first: Value | int, last: Value) -> None:
        """Vectors [first, last) of both sides, as far as there are."""
        f, field, c = self.f, self.field, self.c
        turned = c["turned"].differs(0)
        q = [self["q"], self.ld, c["rows"], c["q_columns"]]
        p = [self["p"], self.u_ld, self.n, self.n]
        part, ld, rows, count = (f.select(turned, b, a) for a, b in zip(q, p))
        target = field.at(f, f.buffer(0), self.batch * (rows * count))
        with f.loop(first, f.minimum(last, count)) as j:
            source = field.at(f, part, f.load("i64", self["order"], j) * ld)
            call(f, "copy", source, 1, ld, field.at(f, target, j * rows), 1, rows, rows, 1)
        part, ld, rows, count = (f.select(turned, a, b) for a, b in zip(q, p))
        target = field.at(f, f.buffer(2), self.batch * (rows * count))
        call(f, "adjoint", part, ld, self["order"], first, f.minimum(last, count), target, count, rows)


# ---------------------------------------------------------------- kernels


def _one_unit(field: Field, vectors: bool, blocks: bool) -> Kernel:
    """Whole matrices."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, f["thread"])
        x.take(0, x.n)
        x.begin()
        x.reduce(0)
        if not vectors:
            x.chase(0)
            x.give_values(False)
            return
        columns = x.c["q_columns"]
        x.identity("q", x.ld, x.rows, 0, columns)
        x.identity("p", x.u_ld, x.u_rows, 0, x.n)
        if blocks:
            with f.loop(0, x.n, block_of(field)) as k:
                _triangles_of(x, k)
            x.multiply("q", "triangles", "v", x.ld, x.rows, x.n, 0, columns)
            x.multiply("p", "u_triangles", "u", x.u_ld, x.u_rows, x.n - 1, 0, x.n)
        else:
            x.multiply_singly("q", "v", "tau", x.ld, x.rows, x.n, columns, 0)
            x.multiply_singly("p", "u", "u_tau", x.u_ld, x.u_rows, x.n - 1, x.n, 1)
        x.converge()
        x.give_values(True)
        with f.loop(0, f.maximum(columns, x.n), GIVEN) as first:
            x.give_vectors(first, first + GIVEN)

    return over_matrices("whole", matrix)


def _triangles_of(x: _Matrix, first: Value) -> None:
    x.make_triangle("triangles", "v", "tau", x.ld, x.rows, first, x.n)
    x.make_triangle("u_triangles", "u", "u_tau", x.u_ld, x.u_rows, first, x.n - 1)


def _vectors(f: Kernel) -> Value:
    c = f.constants(SHAPE)
    return f.maximum(c["q_columns"], c["n"])


def _take(field: Field) -> Kernel:
    return over_tiles(
        "take", TILE_COLUMNS, _columns, lambda f, batch, first, last: _Matrix(f, field, batch, batch).take(first, last - first)
    )


def _begin(field: Field) -> Kernel:
    return over_matrices("begin", lambda f, batch: _Matrix(f, field, batch, batch).begin())


def _step(field: Field, name: str) -> Kernel:
    """One thread's part of a step: "column" or "row" number first + count."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        call(
            f,
            name,
            x["matrix"],
            x.ld,
            x["v"],
            x["tau"],
            x["u"],
            x.u_ld,
            x["u_tau"],
            x["d"],
            x["e"],
            x["x"],
            x["y"],
            x["sums"],
            x["negative"],
            f.parameter(3),
            x.rows,
            x.u_rows,
            x.c["first"],
            x.c["count"],
            x.c["turn"],
        )

    return over_matrices(f"{name}_step", matrix)


def _across(field: Field) -> Kernel:
    """The products of a column's reflector with the columns behind first + count."""

    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        start, step = x.c["first"] + x.c["count"], x.c["count"] - 1
        k = start - 1
        call(
            f,
            "products",
            x["matrix"],
            x.ld,
            field.at(f, x["v"], k * x.ld),
            field.at(f, x["y"], step * x.u_ld),
            field.at(f, x["u"], k * x.u_ld),
            k,
            start + first,
            start + last,
            x.rows,
        )

    return over_tiles("across", PIECE, _behind, tile)


def _down(field: Field) -> Kernel:
    """The columns behind first + count times a row's reflector."""

    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        start = x.c["first"] + x.c["count"]
        call(
            f,
            "collected",
            field.at(f, x["sums"], f["thread"] * x.ld),
            field.at(f, x["matrix"], (start + first) * x.ld),
            x.ld,
            field.at(f, x["negative"], start + first),
            floor_to(f, start, field.lanes),
            x.rows,
            last - first,
        )

    return over_tiles("down", PIECE, _behind, tile)


def _following(field: Field) -> Kernel:
    """The columns behind a block."""

    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        c = x.c
        start = c["first"] + c["count"]
        call(
            f,
            "trailing",
            x["matrix"],
            x.ld,
            field.at(f, x["v"], c["first"] * x.ld),
            x["x"],
            x["y"],
            field.at(f, x["u"], c["first"] * x.u_ld),
            x.u_ld,
            floor_to(f, start, field.lanes),
            x.rows,
            c["count"],
            start + first,
            start + last,
        )

    return over_tiles("following", TILE_COLUMNS, _behind, tile)


def _finish(field: Field) -> Kernel:
    """What the blocks leave of the matrix, from column `first` on."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.reduce(x.c["first"])

    return over_matrices("finish", matrix)


def _found(field: Field) -> Kernel:
    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.chase(0)
        x.give_values(False)

    return over_matrices("found", matrix)


def _triangles(field: Field) -> Kernel:
    return over_tiles(
        "triangles",
        block_of(field),
        _columns,
        lambda f, batch, first, last: _triangles_of(_Matrix(f, field, batch, batch), first),
    )


def _multiply(field: Field) -> Kernel:
    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.identity("q", x.ld, x.rows, first, f.minimum(last, x.c["q_columns"]))
        x.multiply("q", "triangles", "v", x.ld, x.rows, x.n, first, f.minimum(last, x.c["q_columns"]))
        with f.when(first < x.n):
            x.identity("p", x.u_ld, x.u_rows, first, f.minimum(last, x.n))
            x.multiply("p", "u_triangles", "u", x.u_ld, x.u_rows, x.n - 1, first, f.minimum(last, x.n))

    return over_tiles("multiply", TILE_COLUMNS, _vectors, tile)


def _round(field: Field) -> Kernel:
    """Matrices x (the iteration into one pair of logs, and tiles of rows of both sides for which the other pair is applied)."""
    f = Kernel("round")
    c = f.constants(SHAPE)
    height = TOGETHER * field.width

    def parts(rows: Value) -> Value:
        return floor_to(f, rows + (field.lanes - 1), field.lanes) * field.parts

    q_parts, p_parts = parts(c["rows"]), parts(c["n"])
    q_tiles = f.ceiling_division(q_parts, height)
    items = q_tiles + f.ceiling_division(p_parts, height) + 1
    with f.loop(f["begin"], f["end"]) as index:
        batch, item = index.unsigned_div(items), index.unsigned_rem(items)
        x = _Matrix(f, field, batch, batch)
        even = (c["turn"] & 1).equals(0)
        made = [x.word(name) for name in ("made", "made_before")]
        with f.branches(item.equals(0)) as otherwise:
            f.store(x.chase(c["turn"]), f.select(even, *made))
            otherwise()
            sweeps = f.load("i64", f.select(even, made[1], made[0]))
            with f.branches(item <= q_tiles) as other:
                first = (item - 1) * height
                x.rotate("q", x.ld, "left", c["turn"] + 1, sweeps, first, f.minimum(first + height, q_parts))
                other()
                first = (item - 1 - q_tiles) * height
                x.rotate("p", x.u_ld, "right", c["turn"] + 1, sweeps, first, f.minimum(first + height, p_parts))
    return f


def _rest(field: Field) -> Kernel:
    """The rotations of the last logs, and what is not converged yet."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.rotate_rows(1, f.load("i64", x.word("made_before")))
        x.converge()
        x.give_values(True)

    return over_matrices("rest", matrix)


def _give(field: Field) -> Kernel:
    return over_tiles(
        "give", GIVEN, _vectors, lambda f, batch, first, last: _Matrix(f, field, batch, batch).give_vectors(first, last)
    )


@compiled_module(LIGHT)
def svd_kernels(field: Field, kind: str) -> str:
    """Addresses of the kernels by name; kind: "few" or "many" rows with vectors as one unit, "values" as one unit, "reduction"
    of a large matrix, and "vectors" or "found" for what follows on it."""
    copies = [copy_text(field), clear_text(field)]
    blocks = [*reflector_texts(field, True), update_text(field)]
    few = kind == "few"
    reduce = [largest_text(field), reflector_text(field), *bidiagonal_texts(field, few)]
    turn = [chase_text(field, True), rotate_text(field, few), _adjoint_text(field)]
    texts = {
        "few": lambda: [*copies, vector_text(field), one_text(field), *reduce, *turn, _one_unit(field, True, False)],
        "many": lambda: [*copies, *blocks, *reduce, *turn, _one_unit(field, True, True)],
        "values": lambda: [*copies, vector_text(field), *reduce, chase_text(field, False), _one_unit(field, False, False)],
        "reduction": lambda: [
            *copies,
            vector_text(field),
            *reduce,
            dots_text(field),
            update_text(field),
            *bidiagonal_block_texts(field),
            _step(field, "column"),
            _step(field, "row"),
            *(entry(field) for entry in (_take, _begin, _across, _down, _following, _finish)),
        ],
        "vectors": lambda: [*copies, *blocks, *turn, *(entry(field) for entry in (_triangles, _multiply, _round, _rest, _give))],
        "found": lambda: [chase_text(field, False), _found(field)],
    }[kind]
    return module(*texts())


def _block_phases(kernels: dict[str, int], words: tuple[int, ...], batch: int, n: int, first: int, block: int) -> Iterator[Phase]:
    """Columns and rows [first, first + block) made bidiagonal."""
    for count in range(block):
        pieces = batch * tiles(n - first - count - 1, PIECE)
        yield Phase(kernels["column_step"], batch, 1, (*words, first, count, 1))
        yield Phase(kernels["across"], pieces, 1, (*words, first, count + 1, 0))
        yield Phase(kernels["row_step"], batch, 1, (*words, first, count, 1))
        yield Phase(kernels["down"], pieces, 1, (*words, first, count + 1, 0))
    yield Phase(kernels["column_step"], batch, 1, (*words, first, block, 0))
    yield Phase(kernels["following"], batch * tiles(n - first - block, TILE_COLUMNS), 1, (*words, first, block, 0))


def svd_phases(
    dtype: str, batch: int, m: int, n: int, source: tuple[int, int, int, int], vectors: str
) -> tuple[list[Phase], int]:
    """Phases that find the singular values of (batch, m, n) matrices, and the scratch bytes they take.

    source: the input's slot and its strides (batch, row, column); vectors: "none", "reduced" or "full". Buffers are U (in
    columns), the values, the adjoint of V (in columns) and the infos, or the values and the infos.
    """
    field = FIELDS[dtype]
    turned = m < n
    if turned:
        m, n, source = n, m, (*source[:2], source[3], source[2])
    whole = is_whole(batch, n, SERIAL_COLUMNS)
    q_columns = {"none": 0, "reduced": n, "full": m}[vectors]
    words, size = Work(m, n, source, turned, q_columns, not whole).words(field)
    plain = (*words, 0, 0, 0)
    if whole:
        grain = grain_of(batch, 100 * n * n + 8 * m * n * n)
        kind = "values" if vectors == "none" else "few" if m <= FEW else "many"
        return [Phase(svd_kernels(field, kind)["whole"], batch, grain, plain)], size * places(batch, grain)
    kernels = svd_kernels(field, "reduction")
    phases = [Phase(kernels["take"], batch * tiles(n, TILE_COLUMNS), 1, plain), Phase(kernels["begin"], batch, 1, plain)]
    first = max(0, n - LEFT) // block_of(field) * block_of(field)
    for start in range(0, first, block_of(field)):
        phases += _block_phases(kernels, words, batch, n, start, block_of(field))
    phases.append(Phase(kernels["finish"], batch, 1, (*words, first, 0, 0)))
    if vectors == "none":
        return [*phases, Phase(svd_kernels(field, "found")["found"], batch, 1, plain)], size * batch
    kernels = svd_kernels(field, "vectors")
    most = max(q_columns, n)
    phases.append(Phase(kernels["triangles"], batch * tiles(n, block_of(field)), 1, plain))
    phases.append(Phase(kernels["multiply"], batch * tiles(most, TILE_COLUMNS), 1, plain))
    height = TOGETHER * field.width
    items = batch * (1 + sum(tiles(-(-rows // field.lanes) * field.width, height) for rows in (m, n)))
    rounds = 2 * tiles(n, full_sweeps(n))  # an even number, for twice the usual number of sweeps
    phases += [Phase(kernels["round"], items, 1, (*words, 0, 0, turn)) for turn in range(rounds)]
    phases.append(Phase(kernels["rest"], batch, 1, plain))
    phases.append(Phase(kernels["give"], batch * tiles(most, GIVEN), 1, plain))
    return phases, size * batch
