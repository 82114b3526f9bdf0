"""Products with few rows whose operands are both contiguous along k: vectorised dot products, nothing packed.

Stands on micro.py and matrix.py; gemm.py chooses this form where it is the quickest.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.cpu import registers
from flambeau.codegen.element_type import Kind, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.epilogue import Epilogue, epilogue
from flambeau.codegen.products.matrix import OPERANDS, Product, base_address, finish_tile
from flambeau.codegen.products.micro import Table, call_tile, multiply_add, row_counts

DOT_CONSTANTS = ("m", "n", "k", "tiles_n", "tile_columns", "height", *OPERANDS, "micros")
DOT_COLUMNS, MOST_DOT_ROWS = 4, 4


def _sums() -> int:
    """Vectors of sums that stay in registers, beside what they are made of."""
    return 16 if registers() == 32 else 12


def dot_rows() -> int:
    """Rows of a tile of dot products."""
    return _sums() // DOT_COLUMNS


def _width(kind: Kind) -> int:
    """Elements of a row of the tile: whole vectors."""
    return max(kind.lanes, DOT_COLUMNS)


def _dot_micro(kind: Kind, rows: int) -> Kernel:
    """void dot_rows(k, a, a_row, b, b_column, columns, tile): rows x 4 dot products along contiguous k."""
    f = Kernel(
        f"dot_{rows}",
        [("k", "i64"), ("a", "ptr"), ("a_row", "i64"), ("b", "ptr"), ("b_column", "i64"), ("columns", "i64"), ("tile", "ptr")],
    )
    storage, lanes = kind.storage, kind.lanes
    unroll = 1  # a multiplication waits for the one before it of the same sum: few rows have several sums to each element
    while 2 * unroll * rows * DOT_COLUMNS <= _sums():
        unroll *= 2
    wide = vector(storage, lanes)
    sums = [[[f.variable(kind.accumulator, 0) for _ in range(unroll)] for _ in range(DOT_COLUMNS)] for _ in range(rows)]
    a = [f.at(storage, f["a"], f["a_row"] * i) for i in range(rows)]
    # columns past the edge repeat the last one, so that nothing outside the matrix is read
    b = [f.at(storage, f["b"], f.minimum(f.i64(j), f["columns"] - 1) * f["b_column"]) for j in range(DOT_COLUMNS)]

    def step(k: Value, u: int, load) -> None:
        left = [widen(f, kind, load(pointer, k)) for pointer in a]
        for j, pointer in enumerate(b):
            right = widen(f, kind, load(pointer, k))
            for i in range(rows):
                sums[i][j][u].set(multiply_add(f, kind, left[i], right, sums[i][j][u].get()))

    whole = f["k"].unsigned_div(f.i64(lanes * unroll)) * (lanes * unroll)
    with f.loop(0, whole, lanes * unroll) as k:
        if BYTES[storage] < BYTES[kind.compute]:  # the processor asks for short rows too late by itself
            for pointer in b:
                f.fetch(f.at(storage, pointer, f["b_column"] * DOT_COLUMNS + k))
        for u in range(unroll):
            step(k + u * lanes, u, lambda pointer, k: f.load(wide, pointer, k, align=BYTES[storage]))
    with f.loop(whole, f["k"], lanes) as k:
        mask = f.mask(f["k"] - k, lanes)
        step(k, 0, lambda pointer, k: f.masked_load(wide, f.at(storage, pointer, k), mask))
    name = "fadd" if kind.floating else "add"
    for i in range(rows):
        for j in range(DOT_COLUMNS):
            cells = [v.get() for v in sums[i][j]]
            while len(cells) > 1:
                cells = [x + y for x, y in zip(cells[::2], cells[1::2], strict=True)]
            width, total = lanes, cells[0]
            while width > 1:
                width //= 2
                low = f.shuffle(total, total, range(width))
                high = f.shuffle(total, total, range(width, 2 * width))
                total = f.emit(low.type, f"{name} {low.type} {low.name}, {high.name}")
            scalar = f.emit(kind.compute, f"extractelement {total.type} {total.name}, i32 0")
            f.store(scalar, f["tile"], i * _width(kind) + j)
    return f


def _dot_table(kind: Kind, m: int, height: int) -> Table:
    return Table(("dot", kind), lambda r: _dot_micro(kind, r), row_counts(m, height))


@compiled(BRIEF)
def dot_kernel(kind: Kind, out: Kind, finish: Epilogue) -> str:
    """Few rows, both operands contiguous along k; the range is batches x tiles of columns."""
    f = Kernel()
    c = f.constants(DOT_CONSTANTS)
    tile = f.stack(kind.compute, MOST_DOT_ROWS * _width(kind), align=64)
    with f.loop(f["begin"], f["end"]) as index:
        batch = index.unsigned_div(c["tiles_n"])
        outer, inner = batch.unsigned_div(c["batch1"]), batch.unsigned_rem(c["batch1"])
        j0 = index.unsigned_rem(c["tiles_n"]) * c["tile_columns"]
        j1 = f.minimum(j0 + c["tile_columns"], c["n"])
        a, b = (base_address(f, c, letter, kind.storage, outer, inner) for letter in "ab")
        target = base_address(f, c, "c", out.storage, outer, inner)
        addend = base_address(f, c, "d", out.storage, outer, inner)
        with f.loop(j0, j1, DOT_COLUMNS) as j:
            columns = f.minimum(j1 - j, DOT_COLUMNS)
            with f.loop(0, c["m"], c["height"]) as i:
                rows = f.minimum(c["m"] - i, c["height"])
                operands = (
                    f.at(kind.storage, a, i * c["a_row"]),
                    c["a_row"],
                    f.at(kind.storage, b, j * c["b_column"]),
                    c["b_column"],
                )
                call_tile(f, c["micros"], rows, c["k"], *operands, columns, tile)
                goal = f.at(out.storage, target, i * c["c_row"] + j * c["c_column"])
                finish_tile(f, c, tile, rows, columns, goal, f.at(out.storage, addend, i * c["d_row"] + j * c["d_column"]))
    return module(epilogue(kind, out, finish, _width(kind)), f)


def dot_phases(p: Product, threads: int) -> tuple[list[Phase], int]:
    """One phase over batches x tiles of columns."""
    quads = -(-p.n // DOT_COLUMNS)
    tasks = 1 if p.serial else min(quads, -(-8 * threads // p.batches))
    columns = -(-quads // tasks) * DOT_COLUMNS
    tasks = -(-p.n // columns)
    total = p.batches * tasks
    height = -(-p.m // -(-p.m // dot_rows()))
    kernel = dot_kernel(p.kind, p.result, p.finish)
    constants = (p.m, p.n, p.k, tasks, columns, height, *p.operands(), _dot_table(p.kind, p.m, height))
    return [Phase(kernel, total, p.grain(total, threads), constants)], 0
