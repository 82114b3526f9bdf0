"""What the contraction template computes: a product and the matrices it is of, which say where they lie.

Stands on element_type.py and epilogue.py; used by gemm.py and dots.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flambeau.codegen.builder import Value
from flambeau.codegen.element_type import Kind
from flambeau.codegen.kernel import Constants, Kernel
from flambeau.codegen.products.epilogue import Epilogue, bits_of

SERIAL_WORK = 48 * 1024  # multiply-adds below which waking another thread costs more than it saves

#: What a product's kernels are told of their operands: the inner batch, slots, first elements and strides, and the factors.
OPERANDS = tuple(
    """
    batch1 a_slot a_offset a0 a1 a_row a_step b_slot b_offset b0 b1 b_step b_column
    c_slot c_offset c0 c1 c_row c_column d_slot d_offset d0 d1 d_row d_column alpha beta""".split()
)

SCRATCH = -3  # the buffer slot of the plan's scratch memory


class Matrix(NamedTuple):
    """An operand: its buffer slot, strides in elements along (outer batch, inner batch, rows, columns), and first element."""

    slot: int
    strides: tuple[int, int, int, int]
    offset: int = 0

    @property
    def transposed(self) -> Matrix:
        s = self.strides
        return Matrix(self.slot, (s[0], s[1], s[3], s[2]), self.offset)

    @property
    def words(self) -> tuple[int, ...]:
        return (self.slot, self.offset, *self.strides)

    def moved(self, axis: int, steps: int) -> Matrix:
        """The same matrix from `steps` further along an axis (0 outer batch, 1 inner batch, 2 rows, 3 columns)."""
        return self._replace(offset=self.offset + self.strides[axis] * steps)


class Product(NamedTuple):
    """C[.., m, n] = activation(alpha * A[.., m, k] B[.., k, n] + beta * addend), for outer x inner batches.

    kind: of A and B; result: of C and the addend. activation names `apply`, which emits it. reserved: bytes at the front of the
    scratch memory that are in use.
    """

    kind: Kind
    result: Kind
    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    c: Matrix
    batch: tuple[int, int]
    addend: Matrix | None
    alpha: float
    beta: float
    activation: str | None
    apply: Callable | None
    reserved: int = 0

    @property
    def transposed(self) -> Product:
        addend = None if self.addend is None else self.addend.transposed
        return self._replace(m=self.n, n=self.m, a=self.b.transposed, b=self.a.transposed, c=self.c.transposed, addend=addend)

    @property
    def finish(self) -> Epilogue:
        scaled = self.alpha != 1 or (self.beta != 1 and self.addend is not None)
        addend = None if self.addend is None else _column_class(self.addend.strides[3], self.n)
        return Epilogue("unit" if self.c.strides[3] == 1 or self.n == 1 else "any", addend, scaled, self.activation, self.apply)

    @property
    def batches(self) -> int:
        return self.batch[0] * self.batch[1]

    @property
    def serial(self) -> bool:
        """Whether one thread does all of it."""
        return self.batches * self.m * self.n * self.k <= SERIAL_WORK

    def grain(self, total: int, threads: int) -> int:
        """Units of work to a piece."""
        return total if self.serial else max(1, total // (8 * threads))

    def operands(self, b: tuple[int, ...] | None = None, a: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Values of OPERANDS; b, a: the words of the operands, if they were packed."""
        d = Matrix(self.c.slot, (0, 0, 0, 0)) if self.addend is None else self.addend
        outer, inner, row, column = self.c.strides
        c = (self.c.slot, self.c.offset, outer, inner, row, 1 if self.finish.columns == "unit" else column)
        factors = (bits_of(self.alpha, self.kind), bits_of(self.beta, self.kind))
        return (self.batch[1], *(a or self.a.words), *(b or self.b.words), *c, *d.words, *factors)


def _column_class(stride: int, extent: int) -> str:
    return "unit" if stride == 1 or extent == 1 else "zero" if stride == 0 else "any"


def base_address(f: Kernel, c: Constants, letter: str, item: str, outer: Value, inner: Value) -> Value:
    """Address of the batch's first element of operand `letter`."""
    return f.at(item, f.slot(c[letter + "_slot"]), c[letter + "_offset"] + outer * c[letter + "0"] + inner * c[letter + "1"])


def finish_tile(f: Kernel, c: Constants, tile: Value, rows: Value, columns: Value, goal: Value, addend: Value) -> None:
    """Call the epilogue for a tile, which goes to `goal`."""
    f.call(
        "void",
        "finish",
        tile,
        rows,
        columns,
        goal,
        c["c_row"],
        c["c_column"],
        addend,
        c["d_row"],
        c["d_column"],
        c["alpha"],
        c["beta"],
        declare=False,
    )
