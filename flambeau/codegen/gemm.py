"""The contraction template: C = activation(alpha * A B + beta * D) for batches of strided matrices, as phases of a plan.

Sizes and strides are run-time constants; a kernel is specialised on dtype, register tile, where its operands are read (packed
panels or in place) and its epilogue. Large products pack both operands into panels once, shared by all threads, and then run
over tiles of C; small and skinny ones read their operands in place; products with few rows whose operands are both contiguous
along k run as vectorised dot products (gemm_dot.py). Stands on gemm_micro.py, matrix.py and pack.py; matmul, linear and attention
use `gemm_phases`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from flambeau.codegen import state
from flambeau.codegen.builder import module
from flambeau.codegen.gemm_dot import dot_phases
from flambeau.codegen.gemm_micro import (
    BYTES,
    Epilogue,
    Kernel,
    Kind,
    bits_of,
    call_tile,
    epilogue,
    kind_of,
    micro_table,
    paired,
    register_rows,
    relu,
    row_counts,
    vector_bytes,
)
from flambeau.codegen.jit import LIGHT, compile_kernel
from flambeau.codegen.launch import Phase
from flambeau.codegen.matrix import OPERANDS, SERIAL_WORK, Matrix, base_address
from flambeau.codegen.pack import pack_text, stride_class

BLOCK_STEPS = 256  # steps along k of a packed block: a panel of B (32 columns) then stays in the first-level cache
TILE_PANELS = 16  # panels of rows per task: with the block above a quarter of the second-level cache
TILE_SLOTS = 128  # register tiles that a task may hold unfinished between blocks of k (on its stack)
IN_PLACE_BYTES = 192 << 10
PACK_BYTES = 256 << 20  # packed operands of one product; larger ones are done in parts
SMALL_DOT = 8192  # multiply-adds up to which packing costs more than the sums at the end of dot products

CONSTANTS = (
    "m",
    "n",
    "k",
    "tiles_m",
    "tiles_n",
    "tile_rows",
    "tile_columns",
    "row_step",
    "block",
    *OPERANDS,
    "a_panels",
    "b_panels",
    "a_place",
    "b_place",
    "micros",
)


class Variant(NamedTuple):
    """What a compute kernel is specialised on."""

    kind: Kind
    out: Kind
    rows: int
    vectors: int
    a_packed: bool
    b_packed: bool
    finish: Epilogue


@cache
def tile_text(v: Variant) -> str:
    """The compute kernel: its range is batches x tiles of rows x tiles of columns."""
    kind, compute = v.kind, v.kind.compute
    width = v.vectors * kind.lanes
    cell = v.rows * width
    plain = v.finish.plain and v.out.storage == compute
    f = Kernel()
    c = f.constants(CONSTANTS)
    slots = f.stack(compute, TILE_SLOTS * cell if v.a_packed or v.b_packed else cell, align=64)
    blocks = f.maximum(f.ceiling_division(c["k"], c["block"]), 1)
    with f.loop(f["begin"], f["end"]) as index:
        tile_n, rest = index.unsigned_rem(c["tiles_n"]), index.unsigned_div(c["tiles_n"])
        tile_m, batch = rest.unsigned_rem(c["tiles_m"]), rest.unsigned_div(c["tiles_m"])
        outer, inner = batch.unsigned_div(c["batch1"]), batch.unsigned_rem(c["batch1"])
        i0, j0 = tile_m * c["tile_rows"], tile_n * c["tile_columns"]
        i1, j1 = f.minimum(i0 + c["tile_rows"], c["m"]), f.minimum(j0 + c["tile_columns"], c["n"])
        target = base_address(f, c, "c", v.out.storage, outer, inner)
        addend = base_address(f, c, "d", v.out.storage, outer, inner) if v.finish.addend else target
        if v.a_packed:
            a_base = f.at(kind.item, f.scratch(c["a_place"]), outer * c["a0"] + inner * c["a1"])
        else:
            a_base = base_address(f, c, "a", kind.storage, outer, inner)
        if v.b_packed:
            b_base = f.at(kind.item, f.scratch(c["b_place"]), outer * c["b0"] + inner * c["b1"])
        else:
            b_base = base_address(f, c, "b", kind.storage, outer, inner)
        with f.loop(0, blocks) as block:
            k0 = block * c["block"]
            depth = f.minimum(c["block"], c["k"] - k0)
            first = f.convert(block.equals(0), "i64", "zext")
            last = (block + 1).equals(blocks)
            with f.loop(j0, j1, width) as j:
                columns = f.minimum(j1 - j, width)
                if v.b_packed:
                    b = f.at(kind.item, b_base, k0 * c["b_panels"] * width + j * depth)
                else:
                    b = f.at(kind.storage, b_base, k0 * c["b_step"] + j)
                with f.loop(i0, i1, c["row_step"]) as i:
                    rows = f.minimum(i1 - i, c["row_step"])
                    panel = i.unsigned_div(c["row_step"])
                    if v.a_packed:
                        a = f.at(kind.item, a_base, k0 * c["a_panels"] * v.rows + panel * depth * v.rows)
                    else:
                        a = f.at(kind.storage, a_base, i * c["a_row"] + k0 * c["a_step"])
                    goal = f.at(
                        v.out.storage, target, i * c["c_row"] + j * (1 if v.finish.columns == "unit" else c["c_column"])
                    )
                    row = (i - i0).unsigned_div(c["row_step"])
                    place = row * f.ceiling_division(c["tile_columns"], width) + (j - j0).unsigned_div(f.i64(width))
                    tile = f.at(compute, slots, f.select(blocks.equals(1), f.i64(0), place) * cell)
                    stride = f.i64(width)
                    direct = None
                    if plain:
                        direct = columns.equals(width)
                        tile, stride = f.select(direct, goal, tile), f.select(direct, c["c_row"], stride)
                    arguments = (depth, a, b, tile, stride, first, c["a_row"], c["a_step"], c["b_step"], columns)
                    call_tile(f, c["micros"], rows, *arguments)
                    finish = last if direct is None else f.select(direct, f.value(0, "i1"), last)
                    with f.when(finish):
                        d = (
                            tile
                            if v.finish.addend is None
                            else f.at(v.out.storage, addend, i * c["d_row"] + j * c["d_column"])
                        )
                        f.call(
                            "void",
                            "finish",
                            tile,
                            rows,
                            columns,
                            goal,
                            c["c_row"],
                            c["c_column"],
                            d,
                            c["d_row"],
                            c["d_column"],
                            c["alpha"],
                            c["beta"],
                            declare=False,
                        )
    return module(epilogue(kind, v.out, v.finish, width), f)


@cache
def tile_kernel(v: Variant) -> int:
    return compile_kernel(tile_text(v), pipeline=LIGHT)


@cache
def pack_kernel(kind: Kind, width: int, order: str) -> int:
    return compile_kernel(pack_text(kind, width, order), pipeline=LIGHT)


def _column_class(stride: int, extent: int) -> str:
    return "unit" if stride == 1 or extent == 1 else "zero" if stride == 0 else "any"


def _share(tasks_wanted: int, panels: int, most: int) -> int:
    """Panels per task: at most `most`, split evenly, and finer if that gives every thread work."""
    tasks = max(-(-panels // most), min(tasks_wanted, panels))
    return -(-panels // tasks)


def gemm_phases(
    dtype: object,
    m: int,
    n: int,
    k: int,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    batch: tuple[int, int] = (1, 1),
    addend: Matrix | None = None,
    alpha: float = 1,
    beta: float = 1,
    activation: str | None = None,
    apply: object = None,
    out: object = None,
) -> tuple[list[Phase], int]:
    """Phases for C[.., m, n] = activation(alpha * A[.., m, k] B[.., k, n] + beta * addend), and the scratch bytes they need.

    `addend` has the output's dtype and any strides (0 broadcasts a bias; C itself accumulates). activation: "relu", or any
    other name together with `apply(f, value) -> value`, which emits it. out: another dtype for C. No phases if C is empty.
    """
    if not (m and n and batch[0] * batch[1]):
        return [], 0
    name = getattr(dtype, "name", dtype)
    if name in _COMPLEX:
        if activation is not None or out is not None or complex(alpha).imag or complex(beta).imag:
            raise NotImplementedError(
                f"a product of {name} takes no activation, no other output dtype and real factors only"
            )
        return _complex_phases(_COMPLEX[name], m, n, k, a, b, c, batch, addend, complex(alpha).real, complex(beta).real)
    kind, result = kind_of(dtype), kind_of(out or dtype)
    if activation == "relu":
        apply = relu
    if (n == 1 and m > 1) or (c.strides[3] != 1 and c.strides[2] == 1 and n > 1):
        # C is contiguous along m (or has one column): compute its transpose
        m, n, a, b, c = n, m, b.transposed, a.transposed, c.transposed
        addend = None if addend is None else addend.transposed
    finish = Epilogue(
        "unit" if c.strides[3] == 1 or n == 1 else "any",
        None if addend is None else _column_class(addend.strides[3], n),
        alpha != 1 or (beta != 1 and addend is not None),
        activation,
        apply,
    )
    word = (bits_of(alpha, kind), bits_of(beta, kind))
    d = Matrix(c.slot, (0, 0, 0, 0)) if addend is None else addend
    threads = state.words[state.THREADS]
    b_unit = b.strides[3] == 1 or n == 1
    rows_most = register_rows()
    if (m <= rows_most or m * n * k <= SMALL_DOT) and b.strides[2] == 1 and not b_unit and a.strides[3] == 1 and k >= 16:
        return dot_phases(kind, result, finish, m, n, k, a, b, c, d, batch, word, threads)
    if b_unit and (m <= 2 * rows_most or k * n * BYTES[kind.storage] <= IN_PLACE_BYTES or k == 0) and not kind.pair:
        return _in_place_phases(kind, result, finish, m, n, k, a, b, c, d, batch, word, threads)
    kind = paired(kind)
    parts = _halves(kind, result, finish, m, n, k, a, b, c, addend, batch, beta)
    if parts:
        phases, scratch = [], 0
        for sizes, matrices, add, extents, factor in parts:
            more, need = gemm_phases(dtype, *sizes, *matrices, extents, add, alpha, factor, activation, apply, out)
            phases += more
            scratch = max(scratch, need)
        return phases, scratch
    return _packed_phases(kind, result, finish, m, n, k, a, b, c, d, batch, word, threads)


class _Panels(NamedTuple):
    """How an operand is packed: `lanes` of it in `count` panels of `step` lanes, each with room for `height`."""

    lanes: int
    step: int
    height: int
    count: int


def _pack_phase(
    kind: Kind,
    matrix: Matrix,
    lane: int,
    step: int,
    panels: _Panels,
    batch: tuple[int, int],
    depth: tuple[int, int, int, int],
    place: int,
    serial: bool,
) -> tuple[Phase, int, int]:
    """(the phase that packs one operand at `place` of the scratch memory, its outer and inner batches).

    lane, step: strides across and along the depth (k, steps, steps of a block, blocks).
    """
    k, steps, block, blocks = depth
    o, i = matrix.strides[:2]
    outer, inner = (batch[0] if o else 1), (batch[1] if i else 1)
    constants = (
        *(matrix.slot, matrix.offset, inner, o, i, lane, step),
        *(panels.lanes, panels.step, panels.count, k, steps, block, place),
    )
    total = outer * inner * panels.count * blocks
    grain = total if serial else max(1, min(total // (4 * state.words[state.THREADS]), 65536 // (panels.height * block) + 1))
    kernel = pack_kernel(kind, panels.height, stride_class(lane, step, panels.lanes, k))
    return Phase(kernel, total, grain, constants), outer, inner


def _tile_shares(wanted: int, panels_m: int, panels_n: int) -> tuple[int, int]:
    """Panels of rows and of columns per task, so that there are `wanted` tasks to each product if it has as many."""
    share_m = _share(1, panels_m, TILE_PANELS)
    tasks_m = -(-panels_m // share_m)
    share_n = _share(-(-wanted // tasks_m), panels_n, TILE_SLOTS // TILE_PANELS)
    tasks_n = -(-panels_n // share_n)
    if tasks_m * tasks_n < wanted:
        share_m = _share(-(-wanted // tasks_n), panels_m, TILE_PANELS)
    return share_m, share_n


def _packed_phases(
    kind: Kind,
    result: Kind,
    finish: Epilogue,
    m: int,
    n: int,
    k: int,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    d: Matrix,
    batch: tuple[int, int],
    word: tuple[int, int],
    threads: int,
) -> tuple[list[Phase], int]:
    """Phases that pack A and B into panels, and one that multiplies the panels."""
    lanes, rows_most = kind.lanes, register_rows()
    batches = batch[0] * batch[1]
    steps = -(-k // 2) if kind.pair else k
    vectors = 1 if n <= lanes else 2
    width = lanes * vectors
    panels_m = -(-m // rows_most)
    row_step = -(-m // panels_m)
    panels_m, panels_n = -(-m // row_step), -(-n // width)
    blocks = max(1, -(-steps // (BLOCK_STEPS * 3 // 2)))
    block = max(1, -(-steps // blocks))
    serial = batches * m * n * k <= SERIAL_WORK
    phases: list[Phase] = []
    scratch = 0
    places, strides = [], []
    for matrix, lane, step, size in (
        (a, a.strides[2], a.strides[3], _Panels(m, row_step, rows_most, panels_m)),
        (b, b.strides[3], b.strides[2], _Panels(n, width, width, panels_n)),
    ):
        phase, outer, inner = _pack_phase(kind, matrix, lane, step, size, batch, (k, steps, block, blocks), scratch, serial)
        phases.append(phase)
        places.append(scratch)
        elements = size.count * size.height * steps
        strides.append((elements * inner if matrix.strides[0] else 0, elements if matrix.strides[1] else 0))
        scratch += (elements * outer * inner * BYTES[kind.item] + 127) // 64 * 64
    share_m, share_n = _tile_shares(-(-4 * threads // batches), panels_m, panels_n)
    tasks_m, tasks_n = -(-panels_m // share_m), -(-panels_n // share_n)
    constants = (
        *(m, n, steps, tasks_m, tasks_n, share_m * row_step, share_n * width, row_step, block, batch[1]),
        *(a.slot, 0, *strides[0], 0, 0),
        *(b.slot, 0, *strides[1], 0, 0),
        *c.words,
        *d.words,
        *word,
        panels_m,
        panels_n,
        *places,
        micro_table(kind, vectors, rows_most, True, True, row_counts(m, row_step)),
    )
    total = batches * tasks_m * tasks_n
    variant = Variant(kind, result, rows_most, vectors, True, True, finish)
    phases.append(Phase(tile_kernel(variant), total, total if serial else max(1, total // (8 * threads)), constants))
    return phases, scratch


def _halves(
    kind: Kind,
    result: Kind,
    finish: Epilogue,
    m: int,
    n: int,
    k: int,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    addend: Matrix | None,
    batch: tuple[int, int],
    beta: float,
) -> list[tuple]:
    """Two smaller products that one is made of, where its packed operands would take too much memory; or nothing.

    Each is ((m, n, k), (a, b, c), addend, batch, beta). A part along k adds to what the other has left in C.
    """
    outer, inner = batch
    sizes = [
        rows * k * BYTES[kind.item] * (outer if x.strides[0] else 1) * (inner if x.strides[1] else 1)
        for x, rows in ((a, m), (b, n))
    ]
    if sum(sizes) <= PACK_BYTES:
        return []
    whole = (addend, batch, beta)

    def along(axis: int, half: int, x: Matrix | None) -> Matrix | None:
        return None if x is None else x.moved(axis, half)

    for axis, extent in enumerate(batch):
        if extent > 1:
            half = extent // 2
            first, second = (
                tuple(count if i == axis else other for i, other in enumerate(batch)) for count in (half, extent - half)
            )
            rest = tuple(x.moved(axis, half) for x in (a, b, c))
            return [
                ((m, n, k), (a, b, c), addend, first, beta),
                ((m, n, k), rest, along(axis, half, addend), second, beta),
            ]
    if max(m, n) >= 4 * TILE_PANELS * register_rows():
        if m >= n:
            half = m // 2
            rest = (a.moved(2, half), b, c.moved(2, half))
            return [
                ((half, n, k), (a, b, c), *whole),
                ((m - half, n, k), rest, along(2, half, addend), batch, beta),
            ]
        half = n // 2
        rest = (a, b.moved(3, half), c.moved(3, half))
        return [((m, half, k), (a, b, c), *whole), ((m, n - half, k), rest, along(3, half, addend), batch, beta)]
    if result.storage == kind.compute and finish.activation is None and k > 1:
        half = k // 2
        rest = (a.moved(3, half), b.moved(2, half), c)
        return [((m, n, half), (a, b, c), *whole), ((m, n, k - half), rest, c, batch, 1)]
    return []


_COMPLEX = {"complex64": "float32", "complex128": "float64"}


def _complex_phases(
    part: str,
    m: int,
    n: int,
    k: int,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    batch: tuple[int, int],
    addend: Matrix | None,
    alpha: float,
    beta: float,
) -> tuple[list[Phase], int]:
    """Four products of real and imaginary parts, which are matrices with doubled strides."""

    def half(x: Matrix, imaginary: int) -> Matrix:
        return Matrix(x.slot, tuple(2 * s for s in x.strides), 2 * x.offset + imaginary)

    phases: list[Phase] = []
    scratch = 0
    for imaginary in (0, 1):
        target = half(c, imaginary)
        first = None if addend is None else half(addend, imaginary)
        for step, (left, right, sign) in enumerate(((0, imaginary, 1), (1, 1 - imaginary, 1 if imaginary else -1))):
            more, need = gemm_phases(
                part,
                m,
                n,
                k,
                half(a, left),
                half(b, right),
                target,
                batch,
                target if step else first,
                sign * alpha,
                1 if step else beta,
            )
            phases += more
            scratch = max(scratch, need)
    return phases, scratch


def _register_tile(m: int, n: int, lanes: int) -> tuple[int, int]:
    """Rows and vectors of an in-place register tile: few rows leave room for wide ones, which read B in longer runs."""
    shapes = ((2, 8), (4, 6), (6, 4), (14, 2)) if vector_bytes() == 64 else ((2, 4), (6, 2))
    rows, vectors = next(((r, v) for r, v in shapes if m <= r), shapes[-1])
    if n <= lanes:
        return register_rows(), 1
    return (rows, vectors) if n > lanes * (vectors - 1) else (register_rows(), 2)


def _in_place_phases(
    kind: Kind,
    result: Kind,
    finish: Epilogue,
    m: int,
    n: int,
    k: int,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    d: Matrix,
    batch: tuple[int, int],
    word: tuple[int, int],
    threads: int,
) -> tuple[list[Phase], int]:
    """One phase that reads A anywhere and B with unit stride along n where they lie."""
    rows, vectors = _register_tile(m, n, kind.lanes)
    width = vectors * kind.lanes
    panels_m = -(-m // rows)
    row_step = -(-m // panels_m)
    panels_m, panels_n = -(-m // row_step), -(-n // width)
    batches = batch[0] * batch[1]
    serial = batches * m * n * k <= SERIAL_WORK
    wanted = 1 if serial else -(-4 * threads // batches)
    share_m = _share(wanted, panels_m, TILE_PANELS)
    tasks_m = -(-panels_m // share_m)
    share_n = _share(-(-wanted // tasks_m), panels_n, 1 << 20)
    tasks_n = -(-panels_n // share_n)
    constants = (
        m,
        n,
        k,
        tasks_m,
        tasks_n,
        share_m * row_step,
        share_n * width,
        row_step,
        max(k, 1),
        batch[1],
        *a.words,
        *b.words,
        *c.words,
        *d.words,
        *word,
        0,
        0,
        0,
        0,
        micro_table(kind, vectors, rows, False, False, row_counts(m, row_step)),
    )
    total = batches * tasks_m * tasks_n
    variant = Variant(kind, result, rows, vectors, False, False, finish)
    return [Phase(tile_kernel(variant), total, total if serial else max(1, total // (8 * threads)), constants)], 0
