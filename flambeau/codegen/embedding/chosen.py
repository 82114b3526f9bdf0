"""The kernel of products of chosen rows: out[e] = <a[i[e]], b[j[e]]>, the elements of a @ b.T at some places only.

Positions are checked before anything is read through them; a wrong one leaves INDEX_ERROR. Terms are added up in vectors, of
which four are under way at once. Stands on builder and kernel; used by ops.sparse.rows.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.simd import total_of

INDEX_ERROR = 1
CONSTANTS = ("depth", "row", "other", "rows", "others")  # row and other: steps from one row of a matrix to the next
VECTORS = 4  # sums under way at once


@compiled()
def chosen_kernel(kind: Kind, index: str) -> str:
    """The range is places. Slots: out, a, b, rows of a, rows of b; the positions are of the integer type `index`."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, a, b, rows, others = (f.buffer(i) for i in range(5))
    lanes, size = kind.lanes, BYTES[kind.storage]
    stored = vector(kind.storage, lanes)
    sums = [f.variable(kind.accumulator) for _ in range(VECTORS)]
    error = f.variable("i64", 0)

    def position(array: Value, at: Value) -> Value:
        value = f.load(index, array, at)
        return value if index == "i64" else f.convert(value, "i64", "sext")

    def loaded(row: Value, x: Value, mask: Value | None) -> Value:
        place = f.at(kind.storage, row, x)
        return widen(f, kind, f.load(stored, place, align=size) if mask is None else f.masked_load(stored, place, mask, size))

    with f.loop(f["begin"], f["end"]) as at:
        i, j = position(rows, at), position(others, at)
        fits = f.emit("i1", f"and i1 {i.unsigned_below(c['rows']).name}, {j.unsigned_below(c['others']).name}")
        with f.branches(fits) as otherwise:
            mine, theirs = f.at(kind.storage, a, i * c["row"]), f.at(kind.storage, b, j * c["other"])
            for total in sums:
                total.set(0)
            whole = c["depth"] - c["depth"].unsigned_rem(VECTORS * lanes)
            with f.loop(0, whole, VECTORS * lanes) as x:
                for v, total in enumerate(sums):
                    total.set(f.fma(loaded(mine, x + v * lanes, None), loaded(theirs, x + v * lanes, None), total.get()))
            with f.loop(whole, c["depth"], lanes) as x:
                mask = f.mask(c["depth"] - x, lanes)
                sums[0].set(f.fma(loaded(mine, x, mask), loaded(theirs, x, mask), sums[0].get()))
            first, second, third, fourth = (total.get() for total in sums)
            total = total_of(f, (first + second) + (third + fourth))
            f.store(narrow(f, kind, total), out, at)
            otherwise()
            error.set(INDEX_ERROR)
    with f.when(error.get().differs(0)):
        f.store(error.get(), f["p"], 2)
    return module(f)
