"""Products of complex matrices as one real product, of twice the columns over twice the steps.

A row of A is read as the reals that it is: re, im, re, im, ... Each row of B is followed by i times it, so that a complex step
adds re(a) b + im(a) i b to a row of C, which is written as reals as well. What doesn't lie like that is copied into the scratch
memory. Stands on matrix.py and kernel.py; gemm.py plans the real product.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.cpu import vector_bytes
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.matrix import SCRATCH, Matrix

PARTS = {"complex64": ("float32", "float"), "complex128": ("float64", "double")}  # by dtype: that of a part, and its LLVM type
TOGETHER = 32  # columns that are copied together
CONSTANTS = ("slot", "offset", "batch1", "batch0_stride", "batch1_stride", "row", "column", "rows", "columns", "destination")


def reals(matrix: Matrix) -> Matrix:
    """A matrix of complex numbers whose rows are contiguous as the matrix of their parts."""
    outer, inner, row, _ = matrix.strides
    return Matrix(matrix.slot, (2 * outer, 2 * inner, 2 * row, 1), 2 * matrix.offset)


def part(matrix: Matrix, imaginary: int) -> Matrix:
    """The real or the imaginary parts of a matrix."""
    return Matrix(matrix.slot, tuple(2 * s for s in matrix.strides), 2 * matrix.offset + imaginary)  # type: ignore[arg-type]


def copied(
    dtype: str, matrix: Matrix, rows: int, columns: int, batch: tuple[int, int], turned: bool, place: int, serial: bool
) -> tuple[Phase, Matrix, int]:
    """(the phase that copies a matrix to `place` of the scratch memory, the matrix of its parts there, where that ends); turned:
    each row is followed by i times it. A thread copies a stretch of the columns, as it then multiplies such a stretch.
    """
    _, item = PARTS[dtype]
    outer, inner = (count if stride else 1 for count, stride in zip(batch, matrix.strides[:2], strict=False))
    o, i, row, column = matrix.strides
    length = 2 * columns
    size = rows * (1 + turned) * length
    there = Matrix(SCRATCH, (size * inner if o else 0, size if i else 0, length, 1), place // BYTES[item])
    total = outer * inner * -(-columns // TOGETHER)
    grain = total if serial else max(1, total // 16)
    constants = (matrix.slot, matrix.offset, inner, o, i, row, column, rows, columns, place)
    phase = Phase(copy_kernel(item, turned, column == 1 or columns == 1), total, grain, constants)
    return phase, there, place + (outer * inner * size * BYTES[item] + 127) // 64 * 64


@compiled(LIGHT)
def copy_kernel(item: str, turned: bool, unit: bool) -> str:
    """The range is stretches of TOGETHER columns of all matrices."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    lanes = vector_bytes() // BYTES[item]
    pair = vector(item, 2)

    def put(values: Value, target: Value, length: Value, mask: Value | None = None) -> None:
        count = int(values.type[1:].split(" ")[0])
        made = [values]
        if turned:
            swapped = f.shuffle(values, values, [at ^ 1 for at in range(count)])
            signs = ", ".join(f"{item} {sign}" for sign in ("-1.0", "1.0") * (count // 2))
            made.append(f.emit(values.type, f"fmul {values.type} {swapped.name}, <{signs}>"))
        for number, value in enumerate(made):
            goal = f.at(item, target, length * number)
            if mask is None:
                f.store(value, goal, align=BYTES[item])
            else:
                f.masked_store(value, goal, mask)

    columns, rows, row, column = (c[name] for name in ("columns", "rows", "row", "column"))
    length = columns * 2
    with f.loop(f["begin"], f["end"]) as index:
        stretches = f.ceiling_division(columns, TOGETHER)
        batch, start = index.unsigned_div(stretches), index.unsigned_rem(stretches) * TOGETHER
        stop = f.minimum(start + TOGETHER, columns)
        first = (
            c["offset"]
            + batch.unsigned_div(c["batch1"]) * c["batch0_stride"]
            + batch.unsigned_rem(c["batch1"]) * c["batch1_stride"]
        )
        source = f.at(item, f.slot(c["slot"]), first * 2)
        target = f.at(item, f.scratch(c["destination"]), batch * rows * (1 + turned) * length)
        with f.loop(0, rows) as i:
            taken, goal = f.at(item, source, i * row * 2), f.at(item, target, i * (1 + turned) * length)
            if unit:
                with f.loop(start * 2, stop * 2, lanes) as j:
                    mask = f.mask(stop * 2 - j, lanes)
                    put(f.masked_load(vector(item, lanes), f.at(item, taken, j), mask), f.at(item, goal, j), length, mask)
            else:
                with f.loop(start, stop) as j:
                    put(f.load(pair, f.at(item, taken, j * column * 2), align=BYTES[item]), f.at(item, goal, j * 2), length)
    return module(f)
