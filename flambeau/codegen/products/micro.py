"""Register tiles: the inner loops of matrix products, as LLVM IR.

A register tile is `rows` x `vectors` accumulators; for each step along k it loads the vectors of B and broadcasts one
element of A per row, several steps to a turn of the loop. Stands on kernel.py and element_type.py; gemm.py, convolutions
and attention put loops around it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from operator import index
from typing import NamedTuple

from flambeau.codegen.builder import Value, module
from flambeau.codegen.cpu import register_rows, registers, vector_bytes
from flambeau.codegen.element_type import Kind, widen
from flambeau.codegen.jit import Address, compiled, kernel_of_text
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import DIRECT

MOST_ROWS = 14  # of any register tile
EDGE = 10  # columns are multiplied in vain if they are less than one in so many
SHORT_TURN, LONG_TURN = 2, 4  # steps along k to a turn of a tile's loop
ASKING_STEPS = 64  # along k from which asking for C's lines takes less time than waiting for them
LONG_WORK = 8 << 20  # multiply-adds from which the longer one, 3 % faster, is worth compiling
SPARE_REGISTERS = 5  # beside the sums, from which on several steps to a turn are no slower than one


def multiply_add(f: Kernel, kind: Kind, a: Value, b: Value, c: Value) -> Value:
    """c + a * b in the accumulator's type."""
    if kind.pair and not kind.floating:
        halves = vector("i16", 2 * kind.lanes)
        name = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}[kind.lanes]
        both = f.call(kind.accumulator, f"llvm.x86.{name}", *(f.convert(x, halves, "bitcast") for x in (a, b)))
        return c + both  # where the processor has it, LLVM makes one instruction of the two
    if kind.pair:
        halves = vector("bfloat", 2 * kind.lanes)
        return f.call(
            kind.accumulator,
            "llvm.x86.avx512bf16.dpbf16ps.512",
            c,
            f.convert(a, halves, "bitcast"),
            f.convert(b, halves, "bitcast"),
        )
    return f.fma(a, b, c) if kind.floating else a * b + c


def register_tile(m: int, n: int, lanes: int) -> tuple[int, int]:
    """Rows and vectors of a register tile: few loads to each multiplication, and few rows and columns past the edge."""
    if vector_bytes() < 64:
        return (2, 4) if m <= 2 and n > 2 * lanes else (register_rows(), min(2, -(-n // lanes)))
    if n <= 2 * lanes:
        return 8, -(-n // lanes)
    for rows, vectors in ((2, 8), (4, 6), (6, 4), (8, 3)):
        if m <= rows and n > lanes * (vectors - 1):
            return rows, vectors
    four, three = (-(-n // (v * lanes)) * v for v in (4, 3))
    return (8, 3) if 10 * three <= 9 * four else (6, 4)


def steps_together(work: int) -> int:
    """Steps to a turn of the loop of a tile that does `work` multiply-adds."""
    return SHORT_TURN if work < LONG_WORK else LONG_TURN


def _turn(rows: int, vectors: int, together: int) -> int:
    """Steps to a turn of a tile's loop. LLVM loads for several steps before it multiplies: where registers are few, it would
    store and reload sums in between, which takes half as long again. (64-byte vectors are multiplied by what lies in memory.)
    """
    enough = vector_bytes() == 64 or registers() - rows * vectors >= SPARE_REGISTERS
    return together if enough else 1


def micro(kind: Kind, rows: int, vectors: int, a: str, b_packed: bool, panel: int = 0, together: int = SHORT_TURN) -> Kernel:
    """void micro(k, a, b, c, c_stride, first, a_row, a_step, b_step, columns): C tile (+)= A rows * B columns.

    a: "packed" A has `rows` elements per step; of "rows", `a_row` apart, the elements lie side by side; "strided" ones are
    `a_step` apart as well (strides in stored elements). One more argument says how many rows there are, if they are not packed.
    C is of the compute type, a complete tile. Packed B has one row of the tile per step, or `panel` vectors, if that is more;
    otherwise it is read under a mask of `columns` lanes, and memory `ahead` is asked for, which is as B is: the last argument.
    together: steps along k to a turn of the loop, if registers are enough.
    """
    together = _turn(rows, vectors, together)
    a_packed, unit = a == "packed", a == "rows"
    f = Kernel(
        "micro",
        [
            ("k", "i64"),
            ("a", "ptr"),
            ("b", "ptr"),
            ("c", "ptr"),
            ("c_stride", "i64"),
            ("first", "i64"),
            ("a_row", "i64"),
            ("a_step", "i64"),
            ("b_step", "i64"),
            ("columns", "i64"),
            *(() if a_packed else (("count", "i64"),)),
            *(() if b_packed else (("ahead", "ptr"),)),
        ],
    )
    lanes, accumulator, compute = kind.lanes, kind.accumulator, kind.compute
    a_item = kind.item if a_packed else kind.storage
    b_item = kind.item if b_packed else kind.storage
    tile = [[f.variable(accumulator, 0) for _ in range(vectors)] for _ in range(rows)]
    masks = [] if b_packed else [f.mask(f["columns"] - j * lanes, lanes) for j in range(vectors)]
    # past the last row the last one again
    places = [] if a_packed else [f.at(a_item, f["a"], f["a_row"] * f.minimum(f["count"] - 1, i)) for i in range(rows)]

    stride = (panel or vectors) * lanes

    def columns_of(p: Value, turn: int, panel: Value | None) -> list[Value]:
        if panel is not None:
            firsts = [turn * stride + j * lanes for j in range(vectors)]
            return [f.load(vector(b_item, lanes), panel, first, align=vector_bytes()) for first in firsts]
        offset = (p + turn) * f["b_step"]
        row = f.at(b_item, f["b"], offset)
        f.fetch(f.at(b_item, f["ahead"], offset))
        loaded = (
            f.masked_load(vector(b_item, lanes), f.at(b_item, row, j * lanes), masks[j], BYTES[b_item]) for j in range(vectors)
        )
        return [widen(f, kind, x) for x in loaded]

    def steps(begin: Value | int, end: Value, together: int) -> None:
        with f.loop(begin, end, together) as p:
            a_panel = f.at(a_item, f["a"], p * rows) if a_packed else None
            b_panel = f.at(b_item, f["b"], p * stride) if b_packed else None
            for turn in range(together):
                columns = columns_of(p, turn, b_panel)
                offset = p + turn if unit else (p + turn) * f["a_step"]
                for i, row in enumerate(tile):
                    if a_panel is None:
                        one = widen(f, kind, f.load(a_item, f.at(a_item, places[i], offset)))
                    else:
                        one = f.load(a_item, a_panel, turn * rows + i)
                    broadcast = f.splat(one, lanes)
                    for j, cell in enumerate(row):
                        cell.set(multiply_add(f, kind, broadcast, columns[j], cell.get()))

    # C's lines are asked for first, so that they are there at the end
    with f.loop(0, f.select(f["k"] < ASKING_STEPS, f.i64(0), f.i64(rows))) as line:
        place = f.at(compute, f["c"], f["c_stride"] * line)
        for j in range(vectors):
            f.fetch(f.at(compute, place, j * lanes), to_write=True)
    whole = f["k"] & -together
    steps(0, whole, together)
    if together > 1:
        steps(whole, f["k"], 1)
    # what C holds is added at the end, so that the first steps need not wait for it
    c_rows = [f.at(compute, f["c"], f["c_stride"] * i) for i in range(rows)]
    with f.when(f["first"].equals(0)):
        for i, row in enumerate(tile):
            for j, cell in enumerate(row):
                cell.add(f.load(accumulator, c_rows[i], j * lanes, align=BYTES[compute]))
    for i, row in enumerate(tile):
        for j, cell in enumerate(row):
            f.store(cell.get(), c_rows[i], j * lanes, align=BYTES[compute])
    return f


@compiled(DIRECT, "micro")
def micro_address(kind: Kind, rows: int, vectors: int, a: str, b_packed: bool, panel: int = 0, together: int = SHORT_TURN) -> str:
    """Address of the register tile of all heights up to `rows`."""
    return module(micro(kind, rows, vectors, a, b_packed, panel, together))


def tile_addresses(kind: Kind, rows: int, vectors: int, a: str, columns: int, together: int) -> tuple[Address, Address, int]:
    """Addresses of the register tile and of a narrower one for the last panel of so many columns, and the most columns of that;
    the narrower one is compiled if the panel's empty vectors are a part worth mentioning of all.
    """
    micro = micro_address(kind, rows, vectors, a, True, vectors, together)
    used = -(-columns // kind.lanes)
    empty = -used % vectors
    if empty * EDGE <= used:
        return micro, 0, 0
    return micro, micro_address(kind, rows, vectors - empty, a, True, vectors, together), (vectors - empty) * kind.lanes


_tables: dict[tuple, ctypes.Array] = {}


def row_counts(rows: int, step: int) -> set[int]:
    """The heights of register tiles that cover `rows` rows in steps of `step`."""
    return {min(rows, step), rows % step or step} if rows else set()


class Table(NamedTuple):
    """The address of an array, one per key, whose element r is the address of function(r): when it is asked for, those of `rows`
    are there.
    """

    key: tuple
    function: Callable[[int], Kernel]
    rows: Iterable[int]

    def __index__(self) -> int:
        table = _tables.get(self.key)
        if table is None:
            table = _tables[self.key] = (ctypes.c_int64 * (MOST_ROWS + 1))()
        for r in self.rows:
            if not table[r]:
                made = self.function(r)
                table[r] = index(kernel_of_text(module(made), f"products.{made.name}", DIRECT, made.name))
        return ctypes.addressof(table)


def call_tile(f: Kernel, table: Value, rows: Value, *arguments: Value) -> None:
    """Call the register tile for `rows` rows."""
    f.call_pointer("void", f.load("ptr", f.pointer(table + rows * 8)), *arguments)
