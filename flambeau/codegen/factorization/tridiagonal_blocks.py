"""Large Hermitian matrices made tridiagonal a block of columns at a time (Dongarra, Sorensen and Hammarling 1989, "Block
reduction of matrices to condensed forms").

A column's reflector needs the product of the matrix with its vector, on all threads, from the lower triangle as the block's
beginning left it, less what the block's reflectors before it have changed; then all of them are taken off the matrix at once.
These are functions of eigh.py's kernels; they stand on tridiagonal.py.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.builder import Value
from flambeau.codegen.factorization.columns import MOST_DEPTH, Field, call, call_update, floor_to, helper
from flambeau.codegen.factorization.householder import block_of, collect, crossed, summed, sums_of
from flambeau.codegen.factorization.tridiagonal import clear_column, column_reflector, half_product
from flambeau.codegen.kernel import Kernel

LEFT = 256  # columns that are left to be made tridiagonal one by one
TOGETHER = 4  # columns whose products are found together
TILE_COLUMNS = 48  # columns that a block is taken off together
PIECE = 16  # columns to a thread's piece of a product


@cache
def collected_text(field: Field) -> Kernel:
    """void collected(y, x, x_column, factors, start, rows, count): y -= X f, rows from `start` on."""
    f = helper("collected", ("y", "x", "x_column", "factors", "start", "rows", "count"), ("y", "x", "factors"))

    def columns(j: Value, count: int) -> None:
        starts = [field.at(f, f["x"], (j + c) * f["x_column"]) for c in range(count)]
        factors = [field.spread(f, field.element(f, f["factors"], j + c)) for c in range(count)]
        with f.loop(f["start"], f["rows"], field.lanes) as i:
            y = field.load(f, f["y"], i)
            for x, factor in zip(starts, factors):
                y = field.less(f, y, field.load(f, x, i), factor)
            field.store(f, y, f["y"], i)

    whole = f["count"] & -TOGETHER
    with f.loop(0, whole, TOGETHER) as j:
        columns(j, TOGETHER)
    with f.loop(whole, f["count"]) as j:
        columns(j, 1)
    return f


LEAD = ("matrix", "ld", "v", "tau", "d", "e", "w", "y", "threads", "rows", "first", "count", "more")


@cache
def _lead_text(field: Field) -> Kernel:
    """void lead(matrix, ld, v, tau, d, e, w, y, threads, rows, first, count, more): finish column `count` - 1 of w from the
    products that the threads have found; if there is `more`, make the reflector of column first + count."""
    f = helper("lead", LEAD, ("matrix", "v", "tau", "d", "e", "w", "y"))
    ld, rows, first, count = f["ld"], f["rows"], f["first"], f["count"]
    factors = f.stack(field.real, 2 * MOST_DEPTH * field.parts, align=64)
    k = first + count
    block = field.at(f, f["v"], first * ld)
    with f.when(count > 0):
        before, start = count - 1, floor_to(f, k, field.lanes)
        own, w = field.at(f, block, before * ld), field.at(f, f["w"], before * ld)
        with f.loop(1, f["threads"]) as t:
            other = field.at(f, f["y"], t * ld)
            with f.loop(start, rows, field.lanes) as i:
                field.store(f, field.load(f, f["y"], i) + field.load(f, other, i), f["y"], i)
        for left, right in ((f["w"], block), (block, f["w"])):
            call(
                f,
                "dots",
                factors,
                block_of(field),
                field.at(f, left, start),
                ld,
                field.at(f, own, start),
                ld,
                rows - start,
                before,
                1,
            )
            call(f, "collected", f["y"], right, ld, factors, start, rows, before)
        half_product(f, field, own, f["y"], w, field.element(f, f["tau"], k - 1), k, rows)
    with f.when(f["more"].differs(0)):
        start = floor_to(f, k, field.lanes)
        column = field.at(f, f["matrix"], k * ld)
        for left, right in ((f["w"], block), (block, f["w"])):
            with f.loop(0, count) as j:
                field.put(f, field.conjugate(f, field.element(f, left, j * ld + k)), factors, j)
            call(f, "collected", column, right, ld, factors, start, rows, count)
        column_reflector(f, field, k, rows)
        with f.loop(0, f["threads"]) as t:
            clear_column(f, field, field.at(f, f["y"], t * ld), start, rows)
    return f


@cache
def _product_text(field: Field) -> Kernel:
    """void product(matrix, ld, v, y, rows, from, to): y += A v for what of A is in the lower triangle's columns [from, to), and
    in their mirror image."""
    f = helper("product", ("matrix", "ld", "v", "y", "rows", "from", "to"), ("matrix", "v", "y"))
    lanes = field.lanes

    def columns(j: Value, count: int) -> None:
        starts = [field.at(f, f["matrix"], (j + c) * f["ld"]) for c in range(count)]
        factors = [field.spread(f, field.element(f, f["v"], j + c)) for c in range(count)]
        dots = [sums_of(f, field) for _ in range(count)]

        def row(i: Value, edge: bool) -> None:
            v, y = field.load(f, f["v"], i), field.load(f, f["y"], i)
            turned = crossed(f, field, v)
            for c, column in enumerate(starts):
                a = below = field.load(f, column, i)
                if edge:
                    a = f.select(field.rows(f, "sge", j + c - i), a, 0)
                    below = f.select(field.rows(f, "sgt", j + c - i), a, 0)
                y = field.more(f, y, a, factors[c])
                collect(f, field, dots[c], below, v, turned)
            field.store(f, y, f["y"], i)

        inside = f.minimum(floor_to(f, j + (count - 1), lanes) + lanes, f["rows"])
        with f.loop(floor_to(f, j, lanes), inside, lanes) as i:
            row(i, True)
        with f.loop(inside, f["rows"], lanes) as i:
            row(i, False)
        for c, dot in enumerate(dots):
            own = field.element(f, f["y"], j + c)
            field.put(f, tuple(x + y for x, y in zip(own, summed(f, field, dot))), f["y"], j + c)

    whole = f["from"] + ((f["to"] - f["from"]) & -TOGETHER)
    with f.loop(f["from"], whole, TOGETHER) as j:
        columns(j, TOGETHER)
    with f.loop(whole, f["to"]) as j:
        columns(j, 1)
    return f


@cache
def _trailing_text(field: Field) -> Kernel:
    """void trailing(matrix, ld, v, w, rows, count, from, to): take V W^H + W V^H, of `count` columns, off the lower triangle's
    columns [from, to)."""
    f = helper("trailing", ("matrix", "ld", "v", "w", "rows", "count", "from", "to"), ("matrix", "v", "w"))
    j, ld = f["from"], f["ld"]
    start = floor_to(f, j, field.lanes)
    for left, right in (("v", "w"), ("w", "v")):
        call_update(
            f,
            field.at(f, f["matrix"], j * ld + start),
            ld,
            field.at(f, f[left], start),
            ld,
            field.at(f, f[right], j),
            ld,
            1,
            f["rows"] - start,
            f["to"] - j,
            f["count"],
            -1,
        )
    return f


@cache
def block_texts(field: Field) -> tuple[Kernel, ...]:
    """The functions of this file; they call `vector` and `dots` of householder.py and `update` of columns.py."""
    return collected_text(field), _lead_text(field), _product_text(field), _trailing_text(field)
