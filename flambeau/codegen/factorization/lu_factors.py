"""What an LU factorization tells, as matrices: the triangular factors, and the permutation that the row exchanges make.

Stands on columns.py; the factorization is lu.py's.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.factorization.columns import FIELDS, PIVOT_ERROR, Field, places
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.plan import Phase

FACTORS = ("rows", "columns", "slot", "batch", "row", "column")


@compiled(LIGHT)
def factors_kernel(field: Field) -> str:
    """Buffers 0 and 1 are L and U, in rows; its range is batches x rows."""
    f = Kernel()
    c = f.constants(FACTORS)
    m, n = c["rows"], c["columns"]
    k = f.minimum(m, n)
    zero, one = (field.number(f, value) for value in (0, 1))
    with f.loop(f["begin"], f["end"]) as index:
        batch, i = index.unsigned_div(m), index.unsigned_rem(m)
        source = field.at(f, f.slot(c["slot"]), batch * c["batch"] + i * c["row"])
        lower = field.at(f, f.buffer(0), index * k)

        def fill(target: Value, first: Value, last: Value, value: tuple[Value, ...]) -> None:
            with f.loop(first, last) as j:
                field.put(f, value, target, j)

        def take(target: Value, first: Value, last: Value) -> None:
            with f.loop(first, last) as j:
                field.move(f, field.at(f, source, j * c["column"]), field.at(f, target, j))

        take(lower, f.i64(0), f.minimum(i, k))
        with f.when(i < k):
            field.put(f, one, lower, i)
            fill(lower, i + 1, k, zero)
            upper = field.at(f, f.buffer(1), (batch * k + i) * n)
            fill(upper, f.i64(0), i, zero)
            take(upper, i, n)
    return module(f)


def factors_phases(dtype: str, batch: int, m: int, n: int, source: tuple[int, int, int, int]) -> list[Phase]:
    """The phase that writes L and U; source: slot and strides (batch, row, column) of both in one matrix."""
    if not (batch and m and n):
        return []
    return [Phase(factors_kernel(FIELDS[dtype]), batch * m, max(1, 32768 // n), (m, n, *source))]


@compiled(LIGHT)
def permutation_kernel(field: Field) -> str:
    """Buffer 0 is P, 1 the pivots; its range is the batch."""
    f = Kernel()
    m, k = f.constants(("rows", "pivots")).values()
    order = f.at("i64", f.pointer(f.parameter(1)), f["thread"] * m)
    zero, one = (field.number(f, value) for value in (0, 1))
    with f.loop(f["begin"], f["end"]) as batch:
        pivots = f.at("i32", f.buffer(1), batch * k)
        target = field.at(f, f.buffer(0), batch * (m * m))
        with f.loop(0, m) as i:
            f.store(i, order, i)
        with f.loop(0, k) as i:
            other = f.convert(f.load("i32", pivots, i), "i64", "sext") - 1
            inside = other.unsigned_below(m)
            with f.when(inside.equals(0)):
                f.store(f.i64(PIVOT_ERROR), f["p"], 2)
            other = f.select(inside, other, i)
            a, b = f.load("i64", order, i), f.load("i64", order, other)
            f.store(b, order, i)
            f.store(a, order, other)
        with f.loop(0, m * m) as i:
            field.put(f, zero, target, i)
        with f.loop(0, m) as j:
            field.put(f, one, target, f.load("i64", order, j) * m + j)
    return module(f)


def permutation_phases(dtype: str, batch: int, m: int, k: int) -> tuple[list[Phase], int]:
    """The phase that writes permutation matrices of order m from k row exchanges, and the scratch bytes it takes."""
    if not (batch and m):
        return [], 0
    grain = max(1, 32768 // (m * m))
    return [Phase(permutation_kernel(FIELDS[dtype]), batch, grain, (m, k))], 8 * m * places(batch, grain)
