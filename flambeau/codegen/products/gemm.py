"""The contraction template: C = activation(alpha * A B + beta * D) for batches of strided matrices, as phases of a plan.

Sizes and strides are run-time constants; a kernel is specialised on dtype, register tile, where its operands are read (packed
panels or in place) and its epilogue. Large products pack B into panels once, shared by all threads, and A unless its rows are
contiguous, and then run over tiles of C; where one task has all rows of its columns, it packs their panels itself, one at a
time. Small and skinny products read their operands in place; those with few rows whose operands are both contiguous along k run
as vectorised dot products (dots.py). Stands on tiles.py, micro.py and pack.py; matmul, linear and attention use `gemm_phases`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from flambeau.codegen.cpu import register_rows, second_level_bytes, vector_bytes
from flambeau.codegen.element_type import TILE_SIDE, Kind, kind_of, paired
from flambeau.codegen.jit import Address
from flambeau.codegen.kernel import BYTES
from flambeau.codegen.plan import Phase, Prepacked
from flambeau.codegen.products import complex_gemm, matrix_unit
from flambeau.codegen.products.dots import dot_phases
from flambeau.codegen.products.epilogue import relu
from flambeau.codegen.products.matrix import SCRATCH, SERIAL_WORK, Matrix, Product
from flambeau.codegen.products.micro import micro_address, register_tile, steps_together, tile_addresses
from flambeau.codegen.products.pack import pack_address, pack_kernel, pack_units, stride_class
from flambeau.codegen.products.split_k import sliced
from flambeau.codegen.products.tiles import ALL, IN_PLACE, ONE, PACKED, Variant, tile_kernel
from flambeau.codegen.runtime.threads import planned_threads

TILE_PANELS = 64  # panels of rows per task, at most
DOTS = "dots"  # a form of product; the others are PACKED and IN_PLACE, as where panels come from
OWN_PANELS = 2  # panels of B for each thread from which those that one task reads are packed by it
OWN_BYTES = 32 << 10  # bytes of all panels of a task up to which they stay in the first-level cache
TILE_SLOTS = 512  # register tiles that a task may hold unfinished between blocks of k
IN_PLACE_STEPS, ONCE_STEPS = 128, 64  # steps along k after which the next panel of B is read in place, and if each is read once
IN_PLACE_WORK = 4 << 20  # multiply-adds up to which packing B costs more than it saves,
IN_PLACE_EACH = 256 << 10  # and those of each of many products, whose operands stay in the first-level cache
PACK_BYTES = 256 << 20  # packed operands of one product; larger ones are done in parts
DOT_MOST, DOT_STEPS, DOT_BYTES = 40, 128, 192 << 10  # rows, and bytes of A, up to which dot products beat packing B
IN_PLACE_ROWS = 18  # rows up to which packing B costs more than it saves, if it isn't widened
SMALL_DOT = 8192  # multiply-adds up to which packing costs more than the sums at the end of dot products


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
    apply: Callable | None = None,
    out: object = None,
    reserved: int = 0,
) -> tuple[list[Phase], int]:
    """Phases for C[.., m, n] = activation(alpha * A[.., m, k] B[.., k, n] + beta * addend), and the scratch bytes they need.

    `addend` has the output's dtype and any strides (0 broadcasts a bias; C itself accumulates). activation: "relu", or any
    other name together with `apply(f, value) -> value`, which emits it. out: another dtype for C. reserved: bytes at the front
    of the scratch memory that are in use. No phases if C is empty.
    """
    if not (m and n and batch[0] * batch[1]):
        return [], 0
    name = getattr(dtype, "name", dtype)
    if name in complex_gemm.PARTS:
        if activation is not None or out is not None or complex(alpha).imag or complex(beta).imag:
            raise NotImplementedError(f"a product of {name} takes no activation, no other output dtype and real factors only")
        return _complex_phases(name, (m, n, k), (a, b, c), batch, addend, complex(alpha).real, complex(beta).real, reserved)
    return _phases(_product_of(dtype, m, n, k, a, b, c, batch, addend, alpha, beta, activation, apply, out, reserved))


def _product_of(
    dtype: object,
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
    activation: str | None,
    apply: Callable | None,
    out: object,
    reserved: int = 0,
) -> Product:
    finish = relu if activation == "relu" else apply
    kind, result = kind_of(dtype), kind_of(out or dtype)
    return Product(kind, result, m, n, k, a, b, c, batch, addend, alpha, beta, activation, finish, reserved)


@cache
def block_steps() -> int:
    """Steps along k of a packed block: a panel of B, 64 columns of float32, then takes an eighth of the second-level cache."""
    return second_level_bytes() // (8 * 64 * 4)


def _phases(p: Product) -> tuple[list[Phase], int]:
    """The quickest form of a product that is not empty."""
    if _turned(p):
        p = p.transposed
    slices = sliced(p)
    if slices is not None:
        made = [_phases(part) for part in slices.products]
        return [*(phase for phases, _ in made for phase in phases), slices.sum], max(slices.scratch, *(size for _, size in made))
    threads, form = planned_threads(), _form(p)
    if form != PACKED:
        return dot_phases(p, threads) if form == DOTS else _in_place_phases(p, threads)
    parts = _halves(p)
    if not parts:
        return _packed_phases(p._replace(kind=paired(p.kind)), threads)[:2]
    made = [_phases(part) for part in parts]
    return [phase for phases, _ in made for phase in phases], max(scratch for _, scratch in made)


def _turned(p: Product) -> bool:
    """Whether the transposed product is computed: C is contiguous along m, or has one column."""
    return (p.n == 1 and p.m > 1) or (p.c.strides[3] != 1 and p.c.strides[2] == 1 and p.n > 1)


def _form(p: Product) -> str:
    """Which form is the quickest for a product that is not cut into slices: DOTS, IN_PLACE or PACKED."""
    most = register_rows()
    b_unit = p.b.strides[3] == 1 or p.n == 1
    if p.b.strides[2] == 1 and (p.n == 1 or not b_unit) and p.a.strides[3] == 1 and p.k >= 16:
        # sums across the vectors at the end of each dot product cost as much as DOT_STEPS along k
        few = p.m * (p.k + DOT_STEPS) <= DOT_MOST * p.k or p.n <= p.kind.lanes
        plain = p.kind.storage == p.kind.compute
        if p.m <= most or p.m * p.n * p.k <= SMALL_DOT or (few and plain and p.m * p.k * BYTES[p.kind.storage] <= DOT_BYTES):
            return DOTS
    each = p.m * p.n * p.k
    few_rows = IN_PLACE_ROWS if p.kind.storage == p.kind.compute else most
    unpacked = (each <= IN_PLACE_EACH or p.batches * each <= IN_PLACE_WORK) and not paired(p.kind).tiles
    return IN_PLACE if b_unit and (p.m <= few_rows or p.k == 0 or unpacked) else PACKED


def prepacked(step: Any, place: int) -> Prepacked | None:
    """A product whose B is packed beforehand, to slot `place`; None where B isn't packed, or isn't one matrix for all batches."""
    name = getattr(step.dtype, "name", step.dtype)
    if not (step.m and step.n and step.k and step.batch[0] * step.batch[1]) or name in complex_gemm.PARTS:
        return None
    if any(count > 1 and stride for count, stride in zip(step.batch, step.b.strides[:2], strict=True)):
        return None
    p = _product_of(*step)
    if _turned(p) or sliced(p) is not None or _form(p) != PACKED or _halves(p):
        return None
    p = p._replace(kind=paired(p.kind), b=p.b._replace(strides=(0, 0, *p.b.strides[2:])))
    (pack, *phases), scratch, size = _packed_phases(p, planned_threads(), place)
    return Prepacked(step.b.slot, [pack], size, phases, scratch, p.m * p.batches)


class _Panels(NamedTuple):
    """How an operand is packed: `lanes` of it in `count` panels of `height`; by_rows: as a matrix unit takes A."""

    lanes: int
    height: int
    count: int
    by_rows: bool = False


def _pack_phase(
    p: Product,
    matrix: Matrix,
    lane: int,
    step: int,
    panels: _Panels,
    depth: tuple[int, int, int, int],
    place: int,
    into: int,
    threads: int,
) -> tuple[Phase, int, int]:
    """(the phase that packs one operand at `place` of slot `into`, its outer and inner batches).

    lane, step: strides across and along the depth (k, steps, steps of a block, blocks).
    """
    k, steps, block, blocks = depth
    o, i = matrix.strides[:2]
    outer, inner = (p.batch[0] if o else 1), (p.batch[1] if i else 1)
    constants = (
        matrix.slot,
        matrix.offset,
        inner,
        o,
        i,
        lane,
        step,
        panels.lanes,
        panels.height,
        panels.count,
        k,
        steps,
        block,
        place,
        into,
    )
    order = stride_class(lane, step, panels.lanes, k)
    units = panels.count if panels.by_rows else pack_units(p.kind, panels.height, order, panels.count)
    total = outer * inner * units * blocks
    size = max(1, panels.count * panels.height * block // units)
    grain = total if p.serial else max(1, min(total // (4 * threads), 65536 // size + 1))
    kernel = matrix_unit.pack_rows_kernel(p.kind, order) if panels.by_rows else pack_kernel(p.kind, panels.height, order)
    return Phase(kernel, total, grain, constants), outer, inner


def _most_panels(kind: Kind, height: int, block: int) -> int:
    """Panels of rows per task, at most: what they are of A stays in the second-level cache from one panel of B to the next.
    Tiles of narrow vectors read it often, and it has to leave more to what passes by.
    """
    if vector_bytes() == 64:
        return TILE_PANELS
    return max(TILE_PANELS // 4, min(TILE_PANELS, 3 * second_level_bytes() // (8 * height * block * BYTES[kind.item])))


def _tile_shares(p: Product, threads: int, panels_m: int, panels_n: int, most: int, whole: bool) -> tuple[int, int]:
    """Panels of rows, `most` at most, and of columns per task, so that every thread has four tasks or more, if there are as many,
    and is done when the others are; whole: each task has all rows.
    """
    wanted = -(-4 * threads // p.batches)
    share_m = _share(1, panels_m, most)
    tasks_m = -(-panels_m // share_m)
    share_n = _share(-(-wanted // tasks_m), panels_n, TILE_SLOTS // most)
    tasks_n = -(-panels_n // share_n)
    if tasks_m * tasks_n < wanted and not whole:
        share_m = _share(-(-wanted // tasks_n), panels_m, most)
        tasks_m = -(-panels_m // share_m)

    def longest(share: int) -> int:
        """Panels of columns that the busiest thread multiplies, if a task has `share` of them."""
        return -(-p.batches * tasks_m * -(-panels_n // share) // threads) * share

    return share_m, min(range(share_n, share_n // 2, -1), key=longest)


def _order(p: Product, tiles_m: int, tiles_n: int) -> tuple[int, int, int, int]:
    """Numbers of tiles, and how many tiles come before the next one down, and before the next one to the right.

    A thread's share of them is a stretch of the longer side: it then reads a part of the larger operand, the one it packed.
    """
    return (tiles_m, tiles_n, 1, tiles_m) if 2 * p.n > p.m else (tiles_m, tiles_n, tiles_n, 1)


def _reads_rows(p: Product) -> bool:
    """Whether a register tile can read the rows of A where they lie as fast as a panel of them."""
    return p.a.strides[3] == 1 and p.kind.storage == p.kind.compute and not p.kind.pair


def _packed_phases(p: Product, threads: int, beforehand: int | None = None) -> tuple[list[Phase], int, int]:
    """Phases that pack B, and A where its rows aren't contiguous, into panels, and one that multiplies them; with the bytes of
    working memory, and those of B's panels. beforehand: the slot where B's panels are; the first phase then makes them, of slot
    1, in slot 0.
    """
    kind, rows_read = p.kind, _reads_rows(p)
    steps = -(-p.k // 2) if kind.pair else p.k
    if kind.tiles:
        rows, vectors, most, unit = matrix_unit.ROWS, matrix_unit.VECTORS, matrix_unit.BLOCK_STEPS, TILE_SIDE
        tiles: tuple[Address, Address, int] = (matrix_unit.micro(), 0, 0)
    else:
        (rows, vectors), most, unit = register_tile(p.m, p.n, kind.lanes), block_steps(), 1
        tiles = tile_addresses(p.kind, rows, vectors, "rows" if rows_read else "packed", p.n, steps_together(p.m * p.n * p.k))
    width = kind.lanes * vectors
    panels_m, panels_n = -(-p.m // rows), -(-p.n // width)
    blocks = max(1, -(-steps // most))
    block = max(1, -(-steps // (blocks * unit))) * unit
    steps = -(-steps // unit) * unit
    # a panel of B that only one task reads is packed by it, and is then in its processor's caches
    shared = any(count > 1 and not stride for count, stride in zip(p.batch, p.b.strides[:2], strict=False))
    most_m = _most_panels(kind, rows, block)
    own = (
        beforehand is None and not (kind.tiles or shared) and panels_m <= most_m and p.batches * panels_n >= OWN_PANELS * threads
    )
    phases: list[Phase] = []
    scratch, packed_bytes = p.reserved, 0
    places = {"a": 0, "b": 0}
    packed: dict[str, tuple[int, ...]] = {}
    operands = [] if own else [("b", p.b, p.b.strides[3], p.b.strides[2], _Panels(p.n, width, panels_n))]
    if not rows_read:
        operands.append(("a", p.a, p.a.strides[2], p.a.strides[3], _Panels(p.m, rows, panels_m, kind.tiles)))
    for name, matrix, lane, step, size in operands:
        into, place, slot = SCRATCH, scratch, SCRATCH
        supplied = name == "b" and beforehand is not None
        if supplied:
            into, place, slot, matrix = 0, 0, beforehand, matrix._replace(slot=1)
        depth = (p.k, steps, block, blocks)
        phase, outer, inner = _pack_phase(p, matrix, lane, step, size, depth, place, into, threads)
        phases.append(phase)
        places[name] = place
        elements = size.count * size.height * steps
        packed[name] = (slot, 0, elements * inner if matrix.strides[0] else 0, elements if matrix.strides[1] else 0, 0, 0)
        occupied = (elements * outer * inner * BYTES[kind.item] + 127) // 64 * 64
        if supplied:
            packed_bytes = occupied
        else:
            scratch += occupied
    share_m, share_n = _tile_shares(p, threads, panels_m, panels_n, most_m, own)
    tasks_m, tasks_n = -(-panels_m // share_m), -(-panels_n // share_n)
    b_panels, source = panels_n, PACKED
    pack: Address = 0
    if own:
        pack = pack_address(kind, width, stride_class(p.b.strides[3], p.b.strides[2], p.n, p.k))
        places["b"] = scratch
        size = block * width * BYTES[kind.item]
        b_panels, source = (share_n, ALL) if share_n * size <= OWN_BYTES else (1, ONE)
        scratch += threads * b_panels * size
    constants = (
        p.m,
        p.n,
        steps,
        *_order(p, tasks_m, tasks_n),
        share_m * rows,
        share_n * width,
        rows,
        block,
        *p.operands(**packed),
        panels_m,
        b_panels,
        *places.values(),
        scratch,
        TILE_SLOTS * rows * width,
        *tiles,
        pack,
        p.k,
    )
    total = p.batches * tasks_m * tasks_n
    kernel = tile_kernel(Variant(kind, p.result, vectors, not rows_read, source, p.finish))
    phases.append(Phase(kernel, total, p.grain(total, threads), constants))
    return phases, scratch + threads * TILE_SLOTS * rows * width * BYTES[kind.compute], packed_bytes


def _halves(p: Product) -> list[Product]:
    """Two smaller products that one is made of, where its packed operands would take too much memory; or nothing.

    A part along k adds to what the other has left in C.
    """
    packed = [(p.b, p.n)] if _reads_rows(p) else [(p.a, p.m), (p.b, p.n)]
    size_of = p.k * BYTES[paired(p.kind).item]
    lanes = sum(count * (p.batch[0] if x.strides[0] else 1) * (p.batch[1] if x.strides[1] else 1) for x, count in packed)
    if lanes * size_of <= PACK_BYTES:
        return []

    def addend(axis: int, half: int) -> Matrix | None:
        return None if p.addend is None else p.addend.moved(axis, half)

    for axis, extent in enumerate(p.batch):
        if extent > 1:
            half = extent // 2
            first, second = (
                tuple(count if i == axis else other for i, other in enumerate(p.batch)) for count in (half, extent - half)
            )
            a, b, c = (x.moved(axis, half) for x in (p.a, p.b, p.c))
            return [p._replace(batch=first), p._replace(a=a, b=b, c=c, addend=addend(axis, half), batch=second)]
    if max(p.m, p.n) >= 4 * TILE_PANELS * register_rows():
        if p.m >= p.n:
            half = p.m // 2
            rest = p._replace(m=p.m - half, a=p.a.moved(2, half), c=p.c.moved(2, half), addend=addend(2, half))
            return [p._replace(m=half), rest]
        half = p.n // 2
        rest = p._replace(n=p.n - half, b=p.b.moved(3, half), c=p.c.moved(3, half), addend=addend(3, half))
        return [p._replace(n=half), rest]
    if p.result.storage == p.kind.compute and p.activation is None and p.k > 1:
        half = p.k // 2
        rest = p._replace(k=p.k - half, a=p.a.moved(3, half), b=p.b.moved(2, half), addend=p.c, beta=1)
        return [p._replace(k=half), rest]
    return []


def _complex_phases(
    name: str,
    sizes: tuple[int, int, int],
    operands: tuple[Matrix, Matrix, Matrix],
    batch: tuple[int, int],
    addend: Matrix | None,
    alpha: float,
    beta: float,
    reserved: int,
) -> tuple[list[Phase], int]:
    """A real product of interleaved parts; where C or the addend don't lie like that, four products of parts."""
    (m, n, k), (a, b, c) = sizes, operands
    if n > 1 and c.strides[3] != 1 and (c.strides[2] == 1 or m == 1):
        return _complex_phases(
            name,
            (n, m, k),
            (b.transposed, a.transposed, c.transposed),
            batch,
            addend and addend.transposed,
            alpha,
            beta,
            reserved,
        )
    if n > 1 and (c.strides[3] != 1 or (addend is not None and addend.strides[3] != 1)):
        return _products_of_parts(name, sizes, operands, batch, addend, alpha, beta, reserved)
    serial = 4 * m * n * k * batch[0] * batch[1] <= SERIAL_WORK
    phase, twice, place = complex_gemm.copied(name, b, k, n, batch, True, reserved, serial)
    phases = [phase]
    if a.strides[3] == 1 or k == 1:
        a = complex_gemm.reals(a)
    else:
        phase, a, place = complex_gemm.copied(name, a, m, k, batch, False, place, serial)
        phases.append(phase)
    more, scratch = gemm_phases(
        complex_gemm.PARTS[name][0],
        m,
        2 * n,
        2 * k,
        a,
        twice,
        complex_gemm.reals(c),
        batch,
        addend and complex_gemm.reals(addend),
        alpha,
        beta,
        reserved=place,
    )
    return [*phases, *more], max(place, scratch)


def _products_of_parts(
    name: str,
    sizes: tuple[int, int, int],
    operands: tuple[Matrix, Matrix, Matrix],
    batch: tuple[int, int],
    addend: Matrix | None,
    alpha: float,
    beta: float,
    reserved: int,
) -> tuple[list[Phase], int]:
    """Four products of real and imaginary parts, which are matrices with doubled strides."""
    a, b, c = operands
    phases: list[Phase] = []
    scratch = reserved
    for imaginary in (0, 1):
        target = complex_gemm.part(c, imaginary)
        first = None if addend is None else complex_gemm.part(addend, imaginary)
        for step, (left, right, sign) in enumerate(((0, imaginary, 1), (1, 1 - imaginary, 1 if imaginary else -1))):
            more, need = gemm_phases(
                complex_gemm.PARTS[name][0],
                *sizes,
                complex_gemm.part(a, left),
                complex_gemm.part(b, right),
                target,
                batch,
                target if step else first,
                sign * alpha,
                1 if step else beta,
                reserved=reserved,
            )
            phases += more
            scratch = max(scratch, need)
    return phases, scratch


def _in_place_phases(p: Product, threads: int) -> tuple[list[Phase], int]:
    """One phase that reads A anywhere and B with unit stride along n where they lie."""
    most, vectors = register_tile(p.m, p.n, p.kind.lanes)
    width = vectors * p.kind.lanes
    rows = -(-p.m // -(-p.m // most))
    panels_m, panels_n = -(-p.m // rows), -(-p.n // width)
    wanted = 1 if p.serial else -(-4 * threads // p.batches)
    share_m = _share(wanted, panels_m, TILE_PANELS)
    tasks_m = -(-panels_m // share_m)
    share_n = _share(-(-wanted // tasks_m), panels_n, 1 << 20)
    tasks_n = -(-panels_n // share_n)
    micro = micro_address(p.kind, rows, vectors, "strided", False)
    blocks = max(1, -(-p.k // (IN_PLACE_STEPS if panels_m > 1 else ONCE_STEPS)))
    slots = (share_m * share_n if blocks > 1 else 1) * rows * width
    block = max(1, -(-p.k // blocks))
    constants = (
        p.m,
        p.n,
        p.k,
        *_order(p, tasks_m, tasks_n),
        share_m * rows,
        share_n * width,
        rows,
        block,
        *p.operands(),
        0,
        0,
        0,
        0,
        p.reserved,
        slots,
        micro,
        0,
        0,
        0,
        0,
    )
    total = p.batches * tasks_m * tasks_n
    kernel = tile_kernel(Variant(p.kind, p.result, vectors, False, IN_PLACE, p.finish))
    scratch = p.reserved + threads * slots * BYTES[p.kind.compute]
    return [Phase(kernel, total, p.grain(total, threads), constants)], scratch
