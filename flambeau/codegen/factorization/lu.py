"""LU factorization with row exchanges: blocked and right-looking (Golub and Van Loan, Matrix Computations, 3.2 and 3.4).

Columns are factorized `depth` at a time, those a vector's lanes at a time; then the rows' exchanges, the triangular system with
the unit lower factor and the update C -= L U reach the other columns. Pivots and info are LAPACK's (getrf), which scales by the
pivot's reciprocal. Stands on columns.py and blocked.py.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.factorization.blocked import block_phases, extent, grain_of, is_whole, over_matrices, over_tiles, tiles
from flambeau.codegen.factorization.columns import (
    FIELDS,
    Field,
    call,
    call_update,
    clear_text,
    copy_text,
    depth_of,
    divide,
    floor_to,
    helper,
    padded,
    places,
    update_text,
)
from flambeau.codegen.jit import compiled_module
from flambeau.codegen.kernel import Kernel, suffix
from flambeau.codegen.llvm import DIRECT
from flambeau.codegen.plan import Phase

TOGETHER = 4  # columns whose triangular systems are solved together
FEW_COLUMNS = 16  # up to so many are factorized without blocks
TILE_COLUMNS = 48  # columns to a piece of work on a large matrix
SERIAL_ROWS = 128  # a matrix with fewer rows or columns is one unit of work

SHAPE = ("rows", "columns", "ld", "pivot", "source", "offset", "source_batch", "source_row", "source_column", "first", "count")
_columns = extent(SHAPE, "columns")


def _swap_text(field: Field) -> Kernel:
    """void swap(matrix, ld, pivots, first, last, from, to): exchanges of rows [first, last) in columns [from, to)."""
    f = helper("swap", ("matrix", "ld", "pivots", "first", "last", "from", "to"), ("matrix", "pivots"))
    with f.loop(f["from"], f["to"]) as j:
        column = field.at(f, f["matrix"], j * f["ld"])
        with f.loop(f["first"], f["last"]) as k:
            other = f.convert(f.load("i32", f["pivots"], k), "i64", "sext") - 1
            one, two = field.at(f, column, k), field.at(f, column, other)
            a, b = (f.load(field.whole, x, align=4) for x in (one, two))
            f.store(b, one, align=4)
            f.store(a, two, align=4)
    return f


def _largest(f: Kernel, field: Field, column: Value, first: Value, rows: Value) -> Value:
    """The row from `first` on of the largest element, as LAPACK measures it; the padding, zero or NaN, never is."""
    best = f.variable(field.vector, 0)
    start = floor_to(f, first, field.lanes)

    def sizes(i: Value) -> Value:
        return field.sizes(f, field.load(f, column, i))

    head = f.select(field.rows(f, "sge", first - start), sizes(start), -1)
    best.set(f.select(head > 0, head, 0))
    with f.loop(start + field.lanes, rows, field.lanes) as i:
        x = sizes(i)
        best.set(f.select(x > best.get(), x, best.get()))
    most = f.call(field.real, f"llvm.vector.reduce.fmax.{suffix(field.vector)}", best.get(), fast="nnan")
    chosen, place, bits = f.variable("i64", first), f.variable("i64", start), f.variable("i64", 0)
    wanted = f.splat(most, field.width)

    def found(x: Value) -> Value:
        return f.convert(f.convert(x.equals(wanted), f"i{field.width}", "bitcast"), "i64", "zext")

    own = field.element(f, column, first)
    number = own[0].equals(own[0]) & own[-1].equals(own[-1])
    with f.when((most > 0) & number):
        bits.set(found(head))
        with f.repeat(lambda: bits.get().equals(0)):
            place.add(field.lanes)
            bits.set(found(sizes(place.get())))
        at = f.call("i64", "llvm.cttz.i64", bits.get(), f.value(0, "i1"))
        chosen.set(place.get() + at.unsigned_div(f.i64(field.parts)))
    return chosen.get()


def _panel_text(field: Field) -> Kernel:
    """void panel(matrix, ld, rows, first, count, end, pivots, info, pivot): columns [first, first + count), a column at a time,
    and what they mean for those up to `end`."""
    names = ("matrix", "ld", "rows", "first", "count", "end", "pivots", "info", "pivot")
    f = helper("panel", names, ("matrix", "pivots", "info"))
    last = f["end"]
    with f.loop(f["first"], f["first"] + f["count"]) as k:
        column = field.at(f, f["matrix"], k * f["ld"])
        chosen = f.variable("i64", k)
        with f.when(f["pivot"].differs(0)):
            chosen.set(_largest(f, field, column, k, f["rows"]))
        f.store(f.convert(chosen.get() + 1, "i32", "trunc"), f["pivots"], k)
        with f.when(chosen.get().differs(k)):
            call(f, "swap", f["matrix"], f["ld"], f["pivots"], k, k + 1, f["first"], last)
        regular = field.nonzero(f, field.element(f, column, k))
        with f.when(regular | f["pivot"].equals(0)):
            divide(f, field, column, k + 1, f["rows"], field.element(f, column, k))
        with f.when(f.select(regular, f.value(0, "i1"), f.load("i32", f["info"]).equals(0))):
            f.store(f.convert(k + 1, "i32", "trunc"), f["info"])
        start = floor_to(f, k + 1, field.lanes)
        with f.when(start < f["rows"]):
            below, head = field.rows(f, "sge", k + 1 - start), field.load(f, column, start)
            with f.loop(k + 1, last) as j:
                other = field.at(f, f["matrix"], j * f["ld"])
                factor = field.spread(f, field.element(f, other, k))
                y = field.load(f, other, start)
                field.store(f, f.select(below, field.less(f, y, head, factor), y), other, start)
                with f.loop(start + field.lanes, f["rows"], field.lanes) as i:
                    field.store(f, field.less(f, field.load(f, other, i), field.load(f, column, i), factor), other, i)
    return f


def _block_text(field: Field) -> Kernel:
    """void block(matrix, ld, first, count, from, to): L X = C with the unit lower triangle of at most a vector's lanes at
    (first, first), for columns [from, to), a few of them at a time, which lie on the stack meanwhile."""
    f = helper("block", ("matrix", "ld", "first", "count", "from", "to"), ("matrix",))
    lower = field.at(f, f["matrix"], f["first"] * f["ld"] + f["first"])
    held = f.stack(field.real, TOGETHER * field.width, align=64)
    places = [field.at(f, held, c * field.lanes) for c in range(TOGETHER)]
    # columns past the edge repeat the last one
    with f.loop(f["from"], f["to"], TOGETHER) as j:
        columns = [field.at(f, f["matrix"], f.minimum(j + c, f["to"] - 1) * f["ld"] + f["first"]) for c in range(TOGETHER)]
        for column, place in zip(columns, places):
            field.store(f, field.load(f, column), place)
        with f.loop(0, f["count"] - 1) as k:
            below = field.rows(f, "sgt", k)
            x = f.select(below, field.load(f, lower, k * f["ld"]), 0)
            for place in places:
                y = field.load(f, place)
                field.store(f, f.select(below, field.less(f, y, x, field.spread(f, field.element(f, place, k))), y), place)
        for column, place in zip(columns, places):
            field.store(f, field.load(f, place), column)
    return f


def _advance_text(field: Field) -> Kernel:
    """void advance(matrix, ld, rows, first, count, from, to, pivots): what factorizing columns [first, first + count) means for
    columns [from, to), which lie behind them."""
    f = helper("advance", ("matrix", "ld", "rows", "first", "count", "from", "to", "pivots"), ("matrix", "pivots"))
    lanes, ld = field.lanes, f["ld"]
    last, columns = f["first"] + f["count"], f["to"] - f["from"]
    call(f, "swap", f["matrix"], ld, f["pivots"], f["first"], last, f["from"], f["to"])

    def update(first: Value, depth: Value, start: Value, end: Value) -> None:
        """Take L[start:end, first:first + depth] times the rows found so far off rows [start, end)."""
        place = f["from"] * ld
        call_update(
            f,
            field.at(f, f["matrix"], place + start),
            ld,
            field.at(f, f["matrix"], first * ld + start),
            ld,
            field.at(f, f["matrix"], place + first),
            1,
            ld,
            end - start,
            columns,
            depth,
        )

    with f.loop(f["first"], last, lanes) as k:
        count = f.minimum(last - k, lanes)
        call(f, "block", f["matrix"], ld, k, count, f["from"], f["to"])
        update(k, count, f.minimum(k + lanes, f["rows"]), f.minimum(floor_to(f, last + (lanes - 1), lanes), f["rows"]))
    end = f.minimum(floor_to(f, last + (lanes - 1), lanes), f["rows"])
    update(f["first"], f["count"], end, f["rows"])
    return f


def _columns_text(field: Field) -> Kernel:
    """void factor(matrix, ld, rows, first, count, pivots, info, pivot): columns [first, first + count), at most `depth` of them,
    lanes at a time."""
    f = helper("factor", ("matrix", "ld", "rows", "first", "count", "pivots", "info", "pivot"), ("matrix", "pivots", "info"))
    last = f["first"] + f["count"]
    with f.loop(f["first"], last, field.lanes) as k:
        count = f.minimum(last - k, field.lanes)
        call(f, "panel", f["matrix"], f["ld"], f["rows"], k, count, k + count, f["pivots"], f["info"], f["pivot"])
        call(f, "swap", f["matrix"], f["ld"], f["pivots"], k, k + count, f["first"], k)
        call(f, "advance", f["matrix"], f["ld"], f["rows"], k, count, k + count, last, f["pivots"])
    return f


# ---------------------------------------------------------------- kernels: buffers 0 to 2 are LU, pivots, info


class _Matrix:
    """One matrix of a kernel's range: where its copy lies, its pivots and its info."""

    def __init__(self, f: Kernel, field: Field, batch: Value, place: Value):
        self.f, self.field = f, field
        self.c = c = f.constants(SHAPE)
        self.rows = floor_to(f, c["rows"] + (field.lanes - 1), field.lanes)
        self.least = f.minimum(c["rows"], c["columns"])
        self.matrix = field.at(f, f.pointer(f.parameter(1)), place * (c["ld"] * c["columns"]))
        self.pivots = f.at("i32", f.buffer(1), batch * self.least)
        self.info = f.at("i32", f.buffer(2), batch)
        self.result = field.at(f, f.buffer(0), batch * (c["rows"] * c["columns"]))
        self.source = field.at(f, f.slot(c["source"]), c["offset"] + batch * c["source_batch"])

    def take(self, first: Value | int, columns: Value) -> None:
        """Copy columns from the source."""
        f, c = self.f, self.c
        target = self.field.at(f, self.matrix, f.i64(first) * c["ld"])
        call(
            f,
            "copy",
            self.field.at(f, self.source, f.i64(first) * c["source_column"]),
            c["source_row"],
            c["source_column"],
            target,
            1,
            c["ld"],
            c["rows"],
            columns,
        )
        call(f, "clear", target, c["ld"], c["rows"], self.rows, columns)

    def give(self, first: Value | int, columns: Value) -> None:
        """Copy columns to the result."""
        f, c = self.f, self.c
        call(
            f,
            "copy",
            self.field.at(f, self.matrix, f.i64(first) * c["ld"]),
            1,
            c["ld"],
            self.field.at(f, self.result, f.i64(first) * c["rows"]),
            1,
            c["rows"],
            c["rows"],
            columns,
        )

    def factor(self, first: Value, count: Value) -> None:
        call(self.f, "factor", self.matrix, self.c["ld"], self.rows, first, count, self.pivots, self.info, self.c["pivot"])

    def swap(self, first: Value, count: Value, start: Value | int, end: Value) -> None:
        call(self.f, "swap", self.matrix, self.c["ld"], self.pivots, first, first + count, start, end)

    def advance(self, first: Value, count: Value, start: Value, end: Value) -> None:
        call(self.f, "advance", self.matrix, self.c["ld"], self.rows, first, count, start, end, self.pivots)


def _small(field: Field) -> Kernel:
    """Whole matrices of few columns, without blocks: less to compile."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, f["thread"])
        f.store(f.value(0, "i32"), x.info)
        x.take(0, x.c["columns"])
        call(f, "panel", x.matrix, x.c["ld"], x.rows, 0, x.least, x.c["columns"], x.pivots, x.info, x.c["pivot"])
        x.give(0, x.c["columns"])

    return over_matrices("small", matrix)


def _whole(field: Field) -> Kernel:
    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, f["thread"])
        f.store(f.value(0, "i32"), x.info)
        x.take(0, x.c["columns"])
        with f.loop(0, x.least, depth_of(field)) as k:
            count = f.minimum(x.least - k, depth_of(field))
            x.factor(k, count)
            x.swap(k, count, 0, k)
            x.advance(k, count, k + count, x.c["columns"])
        x.give(0, x.c["columns"])

    return over_matrices("whole", matrix)


def _take(field: Field) -> Kernel:
    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        with f.when(first.equals(0)):
            f.store(f.value(0, "i32"), x.info)
        x.take(first, last - first)

    return over_tiles("take", TILE_COLUMNS, _columns, tile)


def _give(field: Field) -> Kernel:
    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        _Matrix(f, field, batch, batch).give(first, last - first)

    return over_tiles("give", TILE_COLUMNS, _columns, tile)


def _leading(field: Field) -> Kernel:
    """The block of columns that the constants tell."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.factor(x.c["first"], x.c["count"])

    return over_matrices("leading", matrix)


def _following(field: Field) -> Kernel:
    """The other columns after a block: those in front of it only exchange rows."""

    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        start, count = x.c["first"], x.c["count"]
        x.swap(start, count, f.minimum(first, start), f.minimum(last, start))
        x.advance(start, count, f.maximum(first, start + count), f.maximum(last, start + count))

    return over_tiles("following", TILE_COLUMNS, _columns, tile)


@compiled_module(DIRECT)
def lu_kernels(field: Field, kind: str) -> str:
    """Addresses of the kernels by name; kind: "small", "whole" or "large"."""
    helpers = [copy_text, clear_text, _swap_text, _panel_text]
    if kind != "small":
        helpers += [update_text, _block_text, _advance_text, _columns_text]
    entries = {"small": [_small], "whole": [_whole], "large": [_take, _leading, _following, _give]}[kind]
    return module(*(text(field) for text in (*helpers, *entries)))


def lu_phases(
    dtype: str, batch: int, m: int, n: int, source: tuple[int, int, int, int], pivot: bool = True, offset: int = 0
) -> tuple[list[Phase], int]:
    """Phases that factorize (batch, m, n) matrices, and the scratch bytes they take.

    source: the input's slot and its strides (batch, row, column). Buffer 0 is LU (in columns), 1 the pivots, 2 the info.
    """
    field = FIELDS[dtype]
    k = min(m, n)
    slot, *strides = source
    ld = padded(m, field)
    shape = (m, n, ld, int(pivot), slot, offset, *strides)
    size = ld * n * field.bytes
    if is_whole(batch, k, SERIAL_ROWS):
        grain = grain_of(batch, 4 * k * k * max(m, n))
        kind = "small" if n <= FEW_COLUMNS else "whole"
        return [Phase(lu_kernels(field, kind)[kind], batch, grain, (*shape, 0, 0))], size * places(batch, grain)
    kernels = lu_kernels(field, "large")
    pieces = batch * tiles(n, TILE_COLUMNS)
    blocks = block_phases(kernels, shape, batch, k, depth_of(field), TILE_COLUMNS, lambda after: n)
    return [
        Phase(kernels["take"], pieces, 1, (*shape, 0, 0)),
        *blocks,
        Phase(kernels["give"], pieces, 1, (*shape, 0, 0)),
    ], size * batch
