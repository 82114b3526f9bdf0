"""Hermitian matrices made tridiagonal by reflectors from both sides (Golub and Van Loan, Matrix Computations, 8.3).

A reflector's update A - v w^H - w v^H of the columns is put off until the next one's product A v passes over them. These are
functions of eigh.py's kernels; they stand on householder.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from flambeau.codegen.builder import Value
from flambeau.codegen.factorization.columns import Field, call, floor_to, helper, total
from flambeau.codegen.factorization.householder import block_of, call_reflector
from flambeau.codegen.factorization.spectrum import as_double
from flambeau.codegen.kernel import Kernel

STRIP = 16  # columns whose mirror images are written together


@cache
def mirror_text(field: Field) -> Kernel:
    """void mirror(matrix, ld, first, n): the upper triangle of columns [first, n) from the lower one."""
    f = helper("mirror", ("matrix", "ld", "first", "n"), ("matrix",))
    with f.loop(f["first"], f["n"], STRIP) as start, f.loop(start + 1, f["n"]) as i:
        target = field.at(f, f["matrix"], i * f["ld"])
        with f.loop(start, f.minimum(start + STRIP, i)) as j:
            field.put(f, field.conjugate(f, field.element(f, f["matrix"], j * f["ld"] + i)), target, j)
    return f


def columns_together(field: Field, few: bool) -> int:
    """Columns that are read and written together."""
    return 1 if few else 2 if field.complex else 4


def by_columns(f: Kernel, together: int, columns: Callable[[Value, int], None]) -> None:
    """columns(j, count) for columns [from, to), several together while they last."""
    if together == 1:
        with f.loop(f["from"], f["to"]) as j:
            columns(j, 1)
        return
    whole = f["from"] + ((f["to"] - f["from"]) & -together)
    with f.loop(f["from"], whole, together) as j:
        columns(j, together)
    with f.loop(whole, f["to"]) as j:
        columns(j, 1)


PASS = ("matrix", "ld", "from", "to", "v", "w", "next", "y", "start", "rows")


@cache
def _pass_text(field: Field, together: int) -> Kernel:
    """void pass(matrix, ld, from, to, v, w, next, y, start, rows): columns [from, to) become A - v w^H - w v^H, and y becomes
    y + A next; rows from `start` on."""
    f = helper("pass", PASS, ("matrix", "v", "w", "next", "y"))

    def columns(j: Value, count: int) -> None:
        starts = [field.at(f, f["matrix"], (j + c) * f["ld"]) for c in range(count)]

        def across(name: str, conjugated: bool) -> list:
            found = [field.element(f, f[name], j + c) for c in range(count)]
            return [field.spread(f, field.conjugate(f, x) if conjugated else x) for x in found]

        vs, ws, nexts = across("v", True), across("w", True), across("next", False)
        with f.loop(f["start"], f["rows"], field.lanes) as i:
            v, w, sum = (field.load(f, f[name], i) for name in ("v", "w", "y"))
            for c, column in enumerate(starts):
                a = field.less(f, field.less(f, field.load(f, column, i), v, ws[c]), w, vs[c])
                field.store(f, a, column, i)
                sum = field.more(f, sum, a, nexts[c])
            field.store(f, sum, f["y"], i)

    by_columns(f, together, columns)
    return f


def half_product(f: Kernel, field: Field, v: Value, y: Value, w: Value, tau: tuple, first: Value, rows: Value) -> None:
    """w = tau y - |tau|^2 / 2 (v^H y) v in rows from `first` on, zeros in front of them, from y = A v."""
    start = floor_to(f, first, field.lanes)
    sum = f.variable(field.vector, 0)
    with f.loop(start, rows, field.lanes) as i:  # v is zero in front; the product is real
        sum.set(f.fma(field.load(f, v, i), field.load(f, y, i), sum.get()))
    size = tau[0] * tau[0] + tau[1] * tau[1] if field.complex else tau[0] * tau[0]
    half = f.splat(size * total(f, sum.get()) * 0.5, field.width)
    scale = field.spread(f, tau)

    def made(i: Value) -> Value:
        return f.fma(-field.load(f, v, i), half, field.times(f, field.load(f, y, i), scale))

    field.store(f, f.select(field.rows(f, "sge", first - start), made(start), 0), w, start)
    with f.loop(start + field.lanes, rows, field.lanes) as i:
        field.store(f, made(i), w, i)


def clear_column(f: Kernel, field: Field, column: Value, start: Value, rows: Value) -> None:
    with f.loop(start, rows, field.lanes) as i:
        field.store(f, f.value(0, field.vector), column, i)


def column_reflector(f: Kernel, field: Field, k: Value, rows: Value) -> tuple:
    """Take column k's diagonal element, make its reflector, and note what it leaves: d, e, tau and the vector. Gives tau."""
    column = field.at(f, f["matrix"], k * f["ld"])
    f.store(as_double(f, field.element(f, column, k)[0]), f["d"], k)
    tau = field.at(f, f["tau"], k)
    f.store(call_reflector(f, field, column, k + 1, rows, tau), f["e"], k)
    ahead = -f["ld"]  # reflector k has its one in row k + 1
    call(
        f,
        "vector",
        field.at(f, f["matrix"], ahead),
        f["ld"],
        field.at(f, f["v"], ahead),
        rows,
        floor_to(f, k, block_of(field)),
        k + 1,
    )
    return field.element(f, tau)


REDUCE = ("matrix", "ld", "v", "tau", "d", "e", "w", "y", "rows", "first", "n")


@cache
def _reduce_text(field: Field) -> Kernel:
    """void reduce(matrix, ld, v, tau, d, e, w, y, rows, first, n): columns [first, n) of a Hermitian matrix, given in full,
    become tridiagonal; reflector k is column k of v, with its one in row k + 1."""
    f = helper("reduce", REDUCE, ("matrix", "v", "tau", "d", "e", "w", "y"))
    rows, ld, last = f["rows"], f["ld"], f["n"] - 1
    clear_column(f, field, f["w"], floor_to(f, f["first"], field.lanes), rows)
    with f.loop(f["first"], last) as k:
        tau = column_reflector(f, field, k, rows)
        start = floor_to(f, k + 1, field.lanes)
        clear_column(f, field, f["y"], start, rows)
        own = field.at(f, f["v"], k * ld)
        before = field.at(f, f["v"], f.maximum(k - 1, f["first"]) * ld)
        call(f, "pass", f["matrix"], ld, k + 1, f["n"], before, f["w"], own, f["y"], start, rows)
        half_product(f, field, own, f["y"], f["w"], tau, k + 1, rows)
        following = field.at(f, f["matrix"], (k + 1) * ld)
        vs, ws = (field.spread(f, field.conjugate(f, field.element(f, x, k + 1))) for x in (own, f["w"]))
        with f.loop(start, rows, field.lanes) as i:
            a = field.less(f, field.load(f, following, i), field.load(f, own, i), ws)
            field.store(f, field.less(f, a, field.load(f, f["w"], i), vs), following, i)
    f.store(as_double(f, field.element(f, f["matrix"], last * ld + last)[0]), f["d"], last)
    f.store(f.value(0, "double"), f["e"], last)
    return f


@cache
def tridiagonal_texts(field: Field, few: bool = False) -> tuple[Kernel, ...]:
    """The functions of this file; they call `vector` and `reflector` of householder.py. few: for few columns, less to compile."""
    return mirror_text(field), _pass_text(field, columns_together(field, few)), _reduce_text(field)
