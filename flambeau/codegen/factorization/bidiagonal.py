"""Matrices made upper bidiagonal by reflectors from both sides in turn (Golub and Van Loan, Matrix Computations, 5.4.8).

Each column's reflector takes the matrix to A - v g, with g = conj(tau) v^H A, each row's to A - x u^H, with x = tau A u. Both
updates are put off until the next products pass over the columns, which are read and written twice for each column. These are
functions of svd.py's kernels; they stand on householder.py.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.builder import Value
from flambeau.codegen.factorization.columns import Field, Scalar, call, floor_to, helper
from flambeau.codegen.factorization.householder import block_of, call_reflector, collect, crossed, summed, sums_of
from flambeau.codegen.factorization.tridiagonal import by_columns, clear_column, columns_together
from flambeau.codegen.kernel import Kernel

LEFT = ("matrix", "ld", "from", "to", "v", "tau", "x", "before", "g", "row", "k", "rows")


@cache
def _left_text(field: Field, together: int) -> Kernel:
    """void left(matrix, ld, from, to, v, tau, x, before, g, row, k, rows): columns [from, to) become A - x before^H; g is found
    from them, and the conjugate of what A - v g has in row k."""
    f = helper("left", LEFT, ("matrix", "v", "tau", "x", "before", "g", "row"))
    start = floor_to(f, f["k"], field.lanes)
    tau = field.conjugate(f, field.element(f, f["tau"]))

    def columns(j: Value, count: int) -> None:
        starts = [field.at(f, f["matrix"], (j + c) * f["ld"]) for c in range(count)]
        across = [field.spread(f, field.conjugate(f, field.element(f, f["before"], j + c))) for c in range(count)]
        sums = [sums_of(f, field) for _ in range(count)]
        with f.loop(start, f["rows"], field.lanes) as i:
            v, x = field.load(f, f["v"], i), field.load(f, f["x"], i)
            for column, factor, sum in zip(starts, across, sums):
                a = field.less(f, field.load(f, column, i), x, factor)
                field.store(f, a, column, i)
                collect(f, field, sum, v, a, crossed(f, field, a))
        for c, sum in enumerate(sums):
            g = field.product(f, tau, summed(f, field, sum))
            field.put(f, g, f["g"], j + c)
            own = field.element(f, starts[c], f["k"])
            field.put(f, field.conjugate(f, tuple(a - b for a, b in zip(own, g))), f["row"], j + c)

    by_columns(f, together, columns)
    return f


RIGHT = ("matrix", "ld", "from", "to", "v", "g", "u", "x", "start", "rows")


@cache
def _right_text(field: Field, together: int) -> Kernel:
    """void right(matrix, ld, from, to, v, g, u, x, start, rows): columns [from, to) become A - v g, and x becomes x + A u."""
    f = helper("right", RIGHT, ("matrix", "v", "g", "u", "x"))

    def columns(j: Value, count: int) -> None:
        starts = [field.at(f, f["matrix"], (j + c) * f["ld"]) for c in range(count)]
        gs, us = ([field.spread(f, field.element(f, f[name], j + c)) for c in range(count)] for name in ("g", "u"))
        with f.loop(f["start"], f["rows"], field.lanes) as i:
            v, x = field.load(f, f["v"], i), field.load(f, f["x"], i)
            for c, column in enumerate(starts):
                a = field.less(f, field.load(f, column, i), v, gs[c])
                field.store(f, a, column, i)
                x = field.more(f, x, a, us[c])
            field.store(f, x, f["x"], i)

    by_columns(f, together, columns)
    return f


def column_step(f: Kernel, field: Field, k: Value) -> None:
    """Column k's reflector, from row k on: d, tau and the vector."""
    f.store(call_reflector(f, field, field.at(f, f["matrix"], k * f["ld"]), k, f["rows"], field.at(f, f["tau"], k)), f["d"], k)
    call(f, "vector", f["matrix"], f["ld"], f["v"], f["rows"], floor_to(f, k, block_of(field)), k)


def row_step(f: Kernel, field: Field, k: Value) -> Scalar:
    """Row k's reflector, from column k + 1 on, of what is column k of u, where its vector goes: e and tau, which it gives."""
    tau = field.at(f, f["u_tau"], k)
    f.store(call_reflector(f, field, field.at(f, f["u"], k * f["u_ld"]), k + 1, f["u_rows"], tau), f["e"], k)
    shifted = field.at(f, f["u"], -f["u_ld"])  # row k's reflector has its one in row k + 1 of u
    call(f, "vector", shifted, f["u_ld"], shifted, f["u_rows"], floor_to(f, k, block_of(field)), k + 1)
    return field.element(f, tau)


REDUCE = ("matrix", "ld", "v", "tau", "u", "u_ld", "u_tau", "d", "e", "x", "g", "rows", "u_rows", "first", "n")


@cache
def _reduce_text(field: Field) -> Kernel:
    """void reduce(matrix, ld, v, tau, u, u_ld, u_tau, d, e, x, g, rows, u_rows, first, n): columns and rows [first, n) become
    bidiagonal; column k of v is the reflector of column k, column k of u that of row k."""
    f = helper("reduce", REDUCE, ("matrix", "v", "tau", "u", "u_tau", "d", "e", "x", "g"))
    ld, rows, n, first = f["ld"], f["rows"], f["n"], f["first"]
    clear_column(f, field, f["x"], floor_to(f, first, field.lanes), rows)
    with f.loop(first, n) as k:
        column_step(f, field, k)
        f.store(f.value(0, "double"), f["e"], k)
        with f.when(k + 1 < n):
            own, row = field.at(f, f["v"], k * ld), field.at(f, f["u"], k * f["u_ld"])
            clear_column(f, field, row, floor_to(f, k, field.lanes), f["u_rows"])
            before = field.at(f, f["u"], f.maximum(k - 1, first) * f["u_ld"])
            call(f, "left", f["matrix"], ld, k + 1, n, own, field.at(f, f["tau"], k), f["x"], before, f["g"], row, k, rows)
            scale = field.spread(f, row_step(f, field, k))
            start = floor_to(f, k + 1, field.lanes)
            clear_column(f, field, f["x"], start, rows)
            call(f, "right", f["matrix"], ld, k + 1, n, own, f["g"], row, f["x"], start, rows)
            following = field.at(f, f["matrix"], (k + 1) * ld)
            with f.loop(start, rows, field.lanes) as i:
                x = field.times(f, field.load(f, f["x"], i), scale)
                field.store(f, x, f["x"], i)
                field.store(f, field.load(f, following, i) - x, following, i)
    return f


@cache
def bidiagonal_texts(field: Field, few: bool = False) -> tuple[Kernel, ...]:
    """The functions of this file; they call `vector` and `reflector` of householder.py. few: for few columns, less to compile."""
    together = columns_together(field, few)
    return _left_text(field, together), _right_text(field, together), _reduce_text(field)
