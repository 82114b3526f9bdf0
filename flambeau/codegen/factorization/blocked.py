"""The shape of a blocked factorization: kernels over whole matrices or over tiles of their columns, and the order of its phases.

A small matrix, or one of many, is one unit of work. A large one is taken to scratch memory, factorized a block of columns at a
time (`leading`) with a phase on all threads for the columns that this reaches (`following`), and given back. What lu.py,
cholesky.py and qr.py share; stands on kernel.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from flambeau.codegen.builder import Value
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.plan import Phase
from flambeau.codegen.runtime.threads import planned_threads

PIECE = 60000  # multiplications worth another thread's while


def over_matrices(name: str, body: Callable[[Kernel, Value], None]) -> Kernel:
    """A kernel whose range is matrices: body(f, matrix)."""
    f = Kernel(name)
    with f.loop(f["begin"], f["end"]) as batch:
        body(f, batch)
    return f


def over_tiles(
    name: str, width: int, columns: Callable[[Kernel], Value], body: Callable[[Kernel, Value, Value, Value], None]
) -> Kernel:
    """A kernel whose range is matrices x tiles of `width` of their columns: body(f, matrix, first column, behind the last)."""
    f = Kernel(name)
    total = columns(f)
    tiles = f.ceiling_division(total, width)
    with f.loop(f["begin"], f["end"]) as index:
        first = index.unsigned_rem(tiles) * width
        body(f, index.unsigned_div(tiles), first, f.minimum(first + width, total))
    return f


def extent(shape: Sequence[str], name: str) -> Callable[[Kernel], Value]:
    """The columns that a kernel's constants, called as in `shape`, tell by that name."""
    return lambda f: f.constants(shape)[name]


def behind(shape: Sequence[str], name: str) -> Callable[[Kernel], Value]:
    """Those of them behind the block, which the constants first and count tell."""

    def columns(f: Kernel) -> Value:
        c = f.constants(shape)
        return c[name] - c["first"] - c["count"]

    return columns


def tiles(columns: int, width: int) -> int:
    """Tiles of that width."""
    return -(-columns // width)


def is_whole(batch: int, rows: int, least: int) -> bool:
    """Whether each matrix is one unit of work: it has fewer than `least` rows, or there are enough for all threads."""
    return rows < least or batch >= 4 * planned_threads()


def grain_of(batch: int, work: int) -> int:
    """Matrices to a piece, where each takes `work` multiplications."""
    work = max(1, work)
    if batch * work <= PIECE:
        return max(1, batch)
    return max(1, min(tiles(PIECE, work), tiles(batch, planned_threads())))


def block_phases(
    kernels: dict[str, int], words: tuple[int, ...], batch: int, steps: int, block: int, width: int, reached: Callable[[int], int]
) -> Iterator[Phase]:
    """For every block of `steps`: its phase, and that of the columns which it reaches, `reached(the next step)` of them."""
    for first in range(0, steps, block):
        count = min(block, steps - first)
        yield Phase(kernels["leading"], batch, 1, (*words, first, count))
        columns = reached(first + count)
        if columns > 0:
            yield Phase(kernels["following"], batch * tiles(columns, width), 1, (*words, first, count))
