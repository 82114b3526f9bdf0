"""Cholesky factorization of Hermitian matrices: blocked and right-looking (Golub and Van Loan, Matrix Computations, 4.2).

Columns are factorized `depth` at a time, those a vector's lanes at a time, and taken off the lower triangle behind them, which is
all that is read. An upper factor is the transposed one of the transposed matrix. Info is LAPACK's (potrf): the order of the first
leading minor that is not positive-definite. Stands on columns.py and blocked.py.
"""

from __future__ import annotations

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
    call_update,
    clear_text,
    copy_text,
    depth_of,
    floor_to,
    helper,
    padded,
    places,
    root,
    update_text,
)
from flambeau.codegen.jit import compiled_module
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import DIRECT
from flambeau.codegen.plan import Phase

TILE_COLUMNS = 24  # columns that are updated together, from the row of the first one on
SERIAL_ROWS = 160  # a matrix with fewer rows is one unit of work

SHAPE = ("n", "ld", "source", "source_batch", "source_row", "source_column", "result_row", "result_column", "first", "count")
_columns = extent(SHAPE, "n")
_behind = behind(SHAPE, "n")


def _panel_text(field: Field) -> Kernel:
    """void panel(matrix, ld, rows, first, count, info): columns [first, first + count), a column at a time; it stops where a
    pivot is not positive."""
    f = helper("panel", ("matrix", "ld", "rows", "first", "count", "info"), ("matrix", "info"))
    last = f["first"] + f["count"]
    with f.loop(f["first"], last) as k:
        column = field.at(f, f["matrix"], k * f["ld"])
        pivot = field.element(f, column, k)[0]
        with f.when(f.emit("i1", f"fcmp ule {pivot.type} {pivot.name}, {f.value(0, pivot.type).name}")):
            f.store(f.convert(k + 1, "i32", "trunc"), f["info"])
            f.ret()
        size = root(f, pivot)
        factor = f.splat(f.value(1, field.real) / size, field.width)
        with f.loop(floor_to(f, k, field.lanes), f["rows"], field.lanes) as i:
            field.store(f, field.load(f, column, i) * factor, column, i)
        field.put(f, (size, *field.number(f, 0)[1:]), column, k)
        with f.loop(k + 1, last) as j:
            other = field.at(f, f["matrix"], j * f["ld"])
            across = field.spread(f, field.conjugate(f, field.element(f, column, j)))
            with f.loop(floor_to(f, j, field.lanes), f["rows"], field.lanes) as i:
                field.store(f, field.less(f, field.load(f, other, i), field.load(f, column, i), across), other, i)
    return f


def _advance_text(field: Field) -> Kernel:
    """void advance(matrix, ld, rows, first, count, from, to): take columns [first, first + count) off columns [from, to)."""
    f = helper("advance", ("matrix", "ld", "rows", "first", "count", "from", "to"), ("matrix",))
    ld = f["ld"]
    with f.loop(f["from"], f["to"], TILE_COLUMNS) as j:
        start = floor_to(f, j, field.lanes)
        known = f["first"] * ld
        call_update(
            f,
            field.at(f, f["matrix"], j * ld + start),
            ld,
            field.at(f, f["matrix"], known + start),
            ld,
            field.at(f, f["matrix"], known + j),
            ld,
            1,
            f["rows"] - start,
            f.minimum(f["to"] - j, TILE_COLUMNS),
            f["count"],
            -1,
        )
    return f


def _columns_text(field: Field) -> Kernel:
    """void factor(matrix, ld, rows, first, count, info): columns [first, first + count), at most `depth`, lanes at a time."""
    f = helper("factor", ("matrix", "ld", "rows", "first", "count", "info"), ("matrix", "info"))
    last = f["first"] + f["count"]
    with f.loop(f["first"], last, field.lanes) as k:
        count = f.minimum(last - k, field.lanes)
        call(f, "panel", f["matrix"], f["ld"], f["rows"], k, count, f["info"])
        with f.when(f.load("i32", f["info"]).differs(0)):
            f.ret()
        call(f, "advance", f["matrix"], f["ld"], f["rows"], k, count, k + count, last)
    return f


class _Matrix:
    """One matrix of a kernel's range: where its copy lies and its info. Buffers 0 and 1 are the results and the infos."""

    def __init__(self, f: Kernel, field: Field, batch: Value, place: Value):
        self.f, self.field = f, field
        self.c = c = f.constants(SHAPE)
        self.rows = floor_to(f, c["n"] + (field.lanes - 1), field.lanes)
        self.matrix = field.at(f, f.pointer(f.parameter(1)), place * (c["ld"] * c["n"]))
        self.info = f.at("i32", f.buffer(1), batch)
        self.result = field.at(f, f.buffer(0), batch * (c["n"] * c["n"]))
        self.source = field.at(f, f.slot(c["source"]), batch * c["source_batch"])

    @property
    def sound(self) -> Value:
        """Whether no pivot has failed."""
        return self.f.load("i32", self.info).equals(0)

    def take(self, first: Value | int, last: Value) -> None:
        """Copy the lower triangle's columns from the source."""
        f, c, field = self.f, self.c, self.field
        with f.loop(first, last, TILE_COLUMNS) as j:
            start, columns = floor_to(f, j, field.lanes), f.minimum(last - j, TILE_COLUMNS)
            target = field.at(f, self.matrix, j * c["ld"])
            source = field.at(f, self.source, j * c["source_column"] + start * c["source_row"])
            call(
                f,
                "copy",
                source,
                c["source_row"],
                c["source_column"],
                field.at(f, target, start),
                1,
                c["ld"],
                c["n"] - start,
                columns,
            )
            call(f, "clear", target, c["ld"], c["n"], self.rows, columns)

    def give(self, first: Value | int, last: Value) -> None:
        """Copy columns to the result, with zeros above the diagonal."""
        f, c, field = self.f, self.c, self.field
        with f.loop(first, last) as j:
            column = field.at(f, self.matrix, j * c["ld"])
            start = floor_to(f, j, field.lanes)
            with f.loop(0, start, field.lanes) as i:
                field.store(f, f.value(0, field.vector), column, i)
            call(f, "clear", column, 0, start, j, 1)
        first = f.i64(first)
        target = field.at(f, self.result, first * c["result_column"])
        source = field.at(f, self.matrix, first * c["ld"])
        call(f, "copy", source, 1, c["ld"], target, c["result_row"], c["result_column"], c["n"], last - first)

    def factor(self, first: Value, count: Value) -> None:
        call(self.f, "factor", self.matrix, self.c["ld"], self.rows, first, count, self.info)

    def advance(self, first: Value, count: Value, start: Value, end: Value) -> None:
        call(self.f, "advance", self.matrix, self.c["ld"], self.rows, first, count, start, end)


def _whole(field: Field) -> Kernel:
    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, f["thread"])
        n = x.c["n"]
        f.store(f.value(0, "i32"), x.info)
        x.take(0, n)
        with f.loop(0, n, depth_of(field)) as k:
            with f.when(x.sound):
                count = f.minimum(n - k, depth_of(field))
                x.factor(k, count)
                with f.when(x.sound):
                    x.advance(k, count, k + count, n)
        x.give(0, n)

    return over_matrices("whole", matrix)


def _take(field: Field) -> Kernel:
    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        with f.when(first.equals(0)):
            f.store(f.value(0, "i32"), x.info)
        x.take(first, last)

    return over_tiles("take", TILE_COLUMNS, _columns, tile)


def _give(field: Field) -> Kernel:
    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        _Matrix(f, field, batch, batch).give(first, last)

    return over_tiles("give", TILE_COLUMNS, _columns, tile)


def _leading(field: Field) -> Kernel:
    """The block of columns that the constants tell."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        with f.when(x.sound):
            x.factor(x.c["first"], x.c["count"])

    return over_matrices("leading", matrix)


def _following(field: Field) -> Kernel:
    """The columns behind a block."""

    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        start = x.c["first"] + x.c["count"]
        with f.when(x.sound):
            x.advance(x.c["first"], x.c["count"], start + first, start + last)

    return over_tiles("following", TILE_COLUMNS, _behind, tile)


@compiled_module(DIRECT)
def cholesky_kernels(field: Field, large: bool) -> str:
    """Addresses of the kernels by name."""
    entries = [_take, _leading, _following, _give] if large else [_whole]
    helpers = (update_text, copy_text, clear_text, _panel_text, _advance_text, _columns_text)
    return module(*(text(field) for text in (*helpers, *entries)))


def cholesky_phases(dtype: str, batch: int, n: int, source: tuple[int, int, int, int], upper: bool) -> tuple[list[Phase], int]:
    """Phases that factorize (batch, n, n) matrices, and the scratch bytes they take.

    source: the input's slot and its strides (batch, row, column). Buffers 0 and 1 are the factors (in columns) and the infos.
    """
    field = FIELDS[dtype]
    slot, stride, row, column = source
    ld = padded(n, field)
    shape = (n, ld, slot, stride, *((column, row, n, 1) if upper else (row, column, 1, n)))
    size = ld * n * field.bytes
    if is_whole(batch, n, SERIAL_ROWS):
        grain = grain_of(batch, 2 * n**3)
        return [Phase(cholesky_kernels(field, False)["whole"], batch, grain, (*shape, 0, 0))], size * places(batch, grain)
    kernels = cholesky_kernels(field, True)
    pieces = batch * tiles(n, TILE_COLUMNS)
    blocks = block_phases(kernels, shape, batch, n, depth_of(field), TILE_COLUMNS, lambda after: n - after)
    return [
        Phase(kernels["take"], pieces, 1, (*shape, 0, 0)),
        *blocks,
        Phase(kernels["give"], pieces, 1, (*shape, 0, 0)),
    ], size * batch
