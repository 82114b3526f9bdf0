"""Large matrices made bidiagonal a block of columns and rows at a time (Dongarra, Sorensen and Hammarling 1989, "Block reduction
of matrices to condensed forms").

Behind the block the matrix is A - V Y^H - X U^H with A as the block's beginning left it. A step's two products with A are phases
on all threads; what they lack is taken off by one. These are functions of svd.py's kernels; they stand on bidiagonal.py.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.builder import Value
from flambeau.codegen.factorization.bidiagonal import column_step, row_step
from flambeau.codegen.factorization.columns import MOST_DEPTH, Field, call, call_update, floor_to, helper
from flambeau.codegen.factorization.householder import block_of
from flambeau.codegen.factorization.tridiagonal import clear_column
from flambeau.codegen.factorization.tridiagonal_blocks import collected_text
from flambeau.codegen.kernel import Kernel

STATE = (
    "matrix",
    "ld",
    "v",
    "tau",
    "u",
    "u_ld",
    "u_tau",
    "d",
    "e",
    "x",
    "y",
    "sums",
    "negative",
    "threads",
    "rows",
    "u_rows",
    "first",
    "count",
    "more",
)
POINTERS = ("matrix", "v", "tau", "u", "u_tau", "d", "e", "x", "y", "sums", "negative")


class _Block:
    """Where a block's columns of V, X, Y and U are, and what takes products of them off a column."""

    def __init__(self, f: Kernel, field: Field):
        self.f, self.field = f, field
        self.v = field.at(f, f["v"], f["first"] * f["ld"])
        self.u = field.at(f, f["u"], f["first"] * f["u_ld"])
        self.factors = f.stack(field.real, 2 * MOST_DEPTH * field.parts, align=64)

    def dots(self, left: Value, column: Value, ld: Value, start: Value, rows: Value, count: Value) -> None:
        """The factors: products of `count` columns with one, rows from `start` on."""
        f, field = self.f, self.field
        call(
            f,
            "dots",
            self.factors,
            block_of(field),
            field.at(f, left, start),
            ld,
            field.at(f, column, start),
            ld,
            rows - start,
            count,
            1,
        )

    def row(self, left: Value, ld: Value, k: Value, count: Value) -> None:
        """The factors: row k, conjugated."""
        f, field = self.f, self.field
        with f.loop(0, count) as j:
            field.put(f, field.conjugate(f, field.element(f, left, j * ld + k)), self.factors, j)

    def take_off(self, column: Value, left: Value, ld: Value, start: Value, rows: Value, count: Value) -> None:
        call(self.f, "collected", column, left, ld, self.factors, start, rows, count)


def _scale(f: Kernel, field: Field, column: Value, factor: tuple, start: Value, rows: Value) -> None:
    wide = field.spread(f, factor)
    with f.loop(start, rows, field.lanes) as i:
        field.store(f, field.times(f, field.load(f, column, i), wide), column, i)


@cache
def _column_text(field: Field) -> Kernel:
    """void column(STATE): finish column `count` - 1 of X from the threads' sums; if there is `more`, make the reflector of column
    first + count."""
    f = helper("column", STATE, POINTERS)
    b = _Block(f, field)
    ld, u_ld, rows, count = f["ld"], f["u_ld"], f["rows"], f["count"]
    k = f["first"] + count
    start, across = floor_to(f, k, field.lanes), floor_to(f, k, field.lanes)
    with f.when(count > 0):
        before = count - 1
        own, x = field.at(f, b.u, before * u_ld), field.at(f, f["x"], before * ld)
        clear_column(f, field, x, start, rows)
        with f.loop(0, f["threads"]) as t:
            sums = field.at(f, f["sums"], t * ld)
            with f.loop(start, rows, field.lanes) as i:
                field.store(f, field.load(f, x, i) + field.load(f, sums, i), x, i)
        b.dots(f["y"], own, u_ld, across, f["u_rows"], count)
        b.take_off(x, b.v, ld, start, rows, count)
        b.dots(b.u, own, u_ld, across, f["u_rows"], before)
        b.take_off(x, f["x"], ld, start, rows, before)
        _scale(f, field, x, field.element(f, f["u_tau"], k - 1), start, rows)
    with f.when(f["more"].differs(0)):
        column = field.at(f, f["matrix"], k * ld)
        for factors, left in ((f["y"], b.v), (b.u, f["x"])):
            b.row(factors, u_ld, k, count)
            b.take_off(column, left, ld, start, rows, count)
        column_step(f, field, k)
        for name, base in (("y", f["y"]), ("u", b.u)):
            clear_column(f, field, field.at(f, base, count * u_ld), f.i64(0) if name == "y" else across, f["u_rows"])
    return f


@cache
def _row_text(field: Field) -> Kernel:
    """void row(STATE): finish column `count` of Y from the products with the matrix, and make the reflector of row first +
    count."""
    f = helper("row", STATE, POINTERS)
    b = _Block(f, field)
    ld, u_ld, rows, u_rows, count = f["ld"], f["u_ld"], f["rows"], f["u_rows"], f["count"]
    k = f["first"] + count
    start, across = floor_to(f, k, field.lanes), floor_to(f, k + 1, field.lanes)
    own, y, row = field.at(f, b.v, count * ld), field.at(f, f["y"], count * u_ld), field.at(f, b.u, count * u_ld)
    for left, right in ((b.v, f["y"]), (f["x"], b.u)):
        b.dots(left, own, ld, start, rows, count)
        b.take_off(y, right, u_ld, across, u_rows, count)
    _scale(f, field, y, field.element(f, f["tau"], k), across, u_rows)
    for left, right, columns in ((b.v, f["y"], count + 1), (f["x"], b.u, count)):
        b.row(left, ld, k, columns)
        b.take_off(row, right, u_ld, across, u_rows, columns)
    row_step(f, field, k)
    with f.loop(across, u_rows, field.lanes) as i:
        field.store(f, -field.load(f, row, i), f["negative"], i)
    with f.loop(0, f["threads"]) as t:
        clear_column(f, field, field.at(f, f["sums"], t * ld), across, rows)
    return f


@cache
def _products_text(field: Field) -> Kernel:
    """void products(matrix, ld, v, y, row, k, from, to, rows): y = A^H v in columns [from, to), and the conjugate of row k."""
    f = helper("products", ("matrix", "ld", "v", "y", "row", "k", "from", "to", "rows"), ("matrix", "v", "y", "row"))
    first, ld = f["from"], f["ld"]
    start = floor_to(f, f["k"], field.lanes)
    call(
        f,
        "dots",
        field.at(f, f["y"], first),
        0,
        field.at(f, f["matrix"], first * ld + start),
        ld,
        field.at(f, f["v"], start),
        ld,
        f["rows"] - start,
        f["to"] - first,
        1,
    )
    with f.loop(first, f["to"]) as j:
        field.put(f, field.conjugate(f, field.element(f, f["matrix"], j * ld + f["k"])), f["row"], j)
    return f


@cache
def _trailing_text(field: Field) -> Kernel:
    """void trailing(matrix, ld, v, x, y, u, u_ld, start, rows, count, from, to): columns [from, to) become A - V Y^H - X U^H."""
    f = helper(
        "trailing",
        ("matrix", "ld", "v", "x", "y", "u", "u_ld", "start", "rows", "count", "from", "to"),
        ("matrix", "v", "x", "y", "u"),
    )
    ld, first = f["ld"], f["from"]
    for left, right in (("v", "y"), ("x", "u")):
        call_update(
            f,
            field.at(f, f["matrix"], first * ld + f["start"]),
            ld,
            field.at(f, f[left], f["start"]),
            ld,
            field.at(f, f[right], first),
            f["u_ld"],
            1,
            f["rows"] - f["start"],
            f["to"] - first,
            f["count"],
            -1,
        )
    return f


@cache
def bidiagonal_block_texts(field: Field) -> tuple[Kernel, ...]:
    """The functions of this file; they call `vector` and `dots` of householder.py and `update` of columns.py."""
    return collected_text(field), _column_text(field), _row_text(field), _products_text(field), _trailing_text(field)
