"""Products of few elements over many steps along k: slices of the steps are multiplied side by side, then added up.

A dot product of millions is one element of C, which the other forms give to one thread. Stands on epilogue.py and matrix.py;
gemm.py plans the slices' products.
"""

from __future__ import annotations

from typing import NamedTuple

from flambeau.codegen.builder import module
from flambeau.codegen.cpu import register_rows
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.epilogue import Epilogue, epilogue
from flambeau.codegen.products.matrix import OPERANDS, SCRATCH, Matrix, Product, base_address, finish_tile

ENOUGH_TILES = 8  # register tiles of C from which its tiles alone keep the threads busy
LONG = 16  # steps to a row or column from which each tile's operands would be read again and again
SLICE_WORK, MOST_SLICES = 16384, 64  # multiply-adds of a slice, at least; slices, at most
SLICE_STEPS = (512, 1024)  # of a slice: fewer where there would be less than four slices

CONSTANTS = ("m", "n", "slices", "place", *OPERANDS)
_COMPUTED = {"float": "float32", "double": "float64"}


class Sliced(NamedTuple):
    """Products of slices of the steps, whose results lie one after the other in the scratch memory, and what adds them up."""

    products: list[Product]
    sum: Phase
    scratch: int


@compiled(BRIEF)
def sum_kernel(kind: Kind, out: Kind, finish: Epilogue) -> str:
    """The range is rows of C."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    tile = f.stack(kind.compute, kind.lanes, align=64)
    partial = f.scratch(c["place"])
    target, addend = (base_address(f, c, letter, out.storage, f.i64(0), f.i64(0)) for letter in "cd")
    with f.loop(f["begin"], f["end"]) as i, f.loop(0, c["n"], kind.lanes) as j:
        columns = f.minimum(c["n"] - j, kind.lanes)
        mask = f.mask(columns, kind.lanes)
        total = f.variable(kind.accumulator, 0)
        with f.loop(0, c["slices"]) as slice:
            part = f.at(kind.compute, partial, (slice * c["m"] + i) * c["n"] + j)
            total.set(total.get() + f.masked_load(kind.accumulator, part, mask))
        f.store(total.get(), tile)
        goal = f.at(out.storage, target, i * c["c_row"] + j * c["c_column"])
        d = f.at(out.storage, addend, i * c["d_row"] + j * c["d_column"])
        finish_tile(f, c, tile, f.i64(1), columns, goal, d)
    return module(epilogue(kind, out, finish, kind.lanes), f)


def sliced(p: Product) -> Sliced | None:
    """The product in slices along k; None where that isn't quicker. The slices don't depend on the number of threads."""
    tiles = -(-p.m // register_rows()) * -(-p.n // (2 * p.kind.lanes))
    long = p.k >= LONG * max(p.m, p.n)
    if p.batches > 1 or (tiles >= ENOUGH_TILES and not long) or p.kind.compute not in _COMPUTED:
        return None
    least, most = SLICE_STEPS
    steps = max(least, min(most, p.k // 256 * 64), SLICE_WORK // (p.m * p.n), -(-p.k // MOST_SLICES))
    steps = -(-steps // 64) * 64
    count, rest = divmod(p.k, steps)
    if count < 4:
        return None
    size = p.m * p.n
    slices = count + (rest > 0)
    scratch = p.reserved + (slices * size * BYTES[p.kind.compute] + 127) // 64 * 64
    whole = p._replace(
        result=kind_of(_COMPUTED[p.kind.compute]),
        k=steps,
        batch=(count, 1),
        addend=None,
        alpha=1,
        activation=None,
        apply=None,
        a=_by_slices(p.a, p.a.strides[3] * steps),
        b=_by_slices(p.b, p.b.strides[2] * steps),
        c=Matrix(SCRATCH, (size, 0, p.n, 1), p.reserved // BYTES[p.kind.compute]),
        reserved=scratch,
    )
    products = [whole]
    if rest:
        products.append(
            whole._replace(
                k=rest, batch=(1, 1), a=p.a.moved(3, count * steps), b=p.b.moved(2, count * steps), c=whole.c.moved(0, count)
            )
        )
    constants = (p.m, p.n, slices, p.reserved, *p.operands())
    grain = p.m if size * slices < 1 << 14 else max(1, p.m // 16)
    return Sliced(products, Phase(sum_kernel(p.kind, p.result, p.finish), p.m, grain, constants), scratch)


def _by_slices(matrix: Matrix, stride: int) -> Matrix:
    return matrix._replace(strides=(stride, 0, *matrix.strides[2:]))
