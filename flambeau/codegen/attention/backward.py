"""The gradient of the attention kernel: a head at a time, its scores computed again block by block of rows.

With P the exponentials scaled by their rows' sums: dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)) scale, dQ = dS K and
dK = dS^T Q. The gradients of keys and values gather up in the thread's scratch. Stands on panels.py, scores.py
and products.micro.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.base.dtype import dtype as DType
from flambeau.codegen.attention.panels import Packer, block_of, panels_of, tile_of
from flambeau.codegen.attention.scores import LOWEST, Attention, Place, Rows, RowsFunction, float_type, kept, load_existing
from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, kind_of, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import BRIEF, DIRECT
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.epilogue import bits_of
from flambeau.codegen.products.micro import micro_address, steps_together
from flambeau.codegen.products.pack import stride_class
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.codegen.simd import apply_function, total_of
from flambeau.codegen.strip_mine import Strip, strips

CONSTANTS = (
    "heads", "rows", "columns", "depth", "width", "block", "row_step", "padded", "q_n", "q_h", "q_row", "q_step", "g_n",
    "g_h", "g_row", "g_step", "k_n", "k_h", "k_row", "k_step", "v_n", "v_h", "v_row", "v_step", "m_n", "m_h", "m_row", "m_step",
    "scale", "slice", "d_panels", "w_panels", "c_panels", "own_tile", "row_tile", "column_tile", "gradients",
)  # fmt: skip
BLOCK_BYTES = 128 << 10  # scores of a block of rows
OUT_Q, OUT_K, OUT_V, GRADIENT, QUERY, KEY, VALUE, RESULT, LOGARITHM, MASK = range(10)


class _Left(NamedTuple):
    """The left factor of a product: where it begins, its type, and how far its rows and columns are apart."""

    data: Value
    type: str
    row: Value
    step: Value


def _product(
    f: Kernel,
    kind: Kind,
    c: Any,
    tile: str,
    panel: int,
    sizes: tuple[Value, Value, Value],
    a: _Left,
    b: Value,
    goal: tuple[Value, Value],
    first: Value,
    b_panel: Value | None = None,
) -> None:
    """goal (+)= A B for (rows, columns, depth) `sizes`, by the register tile `tile`.

    b: packed in panels, `b_panel` elements a column (its depth, if not given); goal: (address, row stride).
    """
    rows, columns, depth = sizes
    compute = kind.compute
    with f.loop(0, columns, panel) as j, f.loop(0, rows, c["row_step"]) as i:
        f.call_pointer(
            "void",
            f.pointer(c[tile]),
            depth,
            f.at(a.type, a.data, i * a.row),
            f.at(compute, b, j * (depth if b_panel is None else b_panel)),
            f.at(compute, goal[0], i * goal[1] + j),
            goal[1],
            first,
            a.row,
            a.step,
            f.i64(0),
            f.i64(panel),
            rows - i,
        )


@compiled(BRIEF)
def backward_kernel(kind: Kind, vectors: int, masked: str | None, causal: bool, orders: tuple[str, ...]) -> str:
    """The range is batches x heads. Slots: dq, dk, dv, g, q, k, v, out, logarithms, [mask].

    orders: how keys, values, keys by depth, gradients and queries lie, which are packed in this order.
    """
    f = Kernel()
    c = f.constants(CONSTANTS)
    compute, size, lanes = kind.compute, BYTES[kind.compute], kind.lanes
    panel = vectors * lanes
    rows = Rows(f, c, kind, "gradients", masked, MASK)
    packer = Packer(f, kind, panel)
    keys = f.scratch(f["thread"] * c["slice"])
    values = f.at(compute, keys, c["c_panels"] * panel * c["depth"])
    keys_by_depth = f.at(compute, values, c["c_panels"] * panel * c["width"])
    gradients = f.at(compute, keys_by_depth, c["d_panels"] * panel * c["columns"])
    queries = f.at(compute, gradients, c["w_panels"] * panel * c["rows"])
    weights = f.at(compute, queries, c["d_panels"] * panel * c["rows"])
    changes = f.at(compute, weights, c["block"] * c["padded"])
    tiles = f.at(compute, changes, c["block"] * c["padded"])
    sum_keys = f.at(compute, tiles, c["block"] * panel)
    depth_padded, width_padded = c["d_panels"] * panel, c["w_panels"] * panel
    sum_values = f.at(compute, sum_keys, (c["padded"] + c["row_step"]) * depth_padded)
    blocks = f.ceiling_division(c["rows"], c["block"])

    with f.loop(f["begin"], f["end"]) as plane:
        n, h = plane.unsigned_div(c["heads"]), plane.unsigned_rem(c["heads"])
        for order, slot, letter, by_rows, lanes_name, steps_name, goal in (
            (orders[0], KEY, "k", True, "columns", "depth", keys),
            (orders[1], VALUE, "v", True, "columns", "width", values),
            (orders[2], KEY, "k", False, "depth", "columns", keys_by_depth),
            (orders[3], GRADIENT, "g", False, "width", "rows", gradients),
            (orders[4], QUERY, "q", False, "depth", "rows", queries),
        ):
            source = f.at(kind.storage, f.buffer(slot), n * c[f"{letter}_n"] + h * c[f"{letter}_h"])
            strides = (c[f"{letter}_row"], c[f"{letter}_step"])
            packer.pack(order, source, strides if by_rows else strides[::-1], c[lanes_name], c[steps_name], goal)
        one = f.i64(1)
        with f.loop(0, blocks) as number:
            # from the last block on: with a triangle it alone has all columns, and sets the sums that the others add to
            fresh = f.convert(number.equals(0), "i64", "zext")
            first = (blocks - 1 - number) * c["block"]
            count = f.minimum(c["block"], c["rows"] - first)
            # a whole number of tiles, but for the last: their rows past it are sums that nobody reads
            columns = f.minimum(c["columns"], first + count) if causal else c["columns"]
            if causal:
                columns = f.select(number.equals(0), c["columns"], columns)
            query = f.at(kind.storage, f.buffer(QUERY), n * c["q_n"] + h * c["q_h"] + first * c["q_row"])
            gradient = f.at(kind.storage, f.buffer(GRADIENT), n * c["g_n"] + h * c["g_h"] + first * c["g_row"])
            own = _Left(query, kind.storage, c["q_row"], c["q_step"])
            _product(f, kind, c, "own_tile", panel, (count, columns, c["depth"]), own, keys, (weights, c["padded"]), one)
            own = _Left(gradient, kind.storage, c["g_row"], c["g_step"])
            _product(f, kind, c, "own_tile", panel, (count, columns, c["width"]), own, values, (changes, c["padded"]), one)
            row = plane * c["rows"] + first
            rows.call(
                Place(n, h, first),
                weights,
                count,
                columns,
                changes,
                f.at(compute, f.buffer(LOGARITHM), row),
                gradient,
                c["g_row"],
                c["g_step"],
                f.at(kind.storage, f.buffer(RESULT), row * c["width"]),
                c["width"],
            )
            for left, right, extent, sums, stride in (
                (weights, gradients, "width", sum_values, width_padded),
                (changes, queries, "depth", sum_keys, depth_padded),
            ):
                turned = _Left(left, compute, one, c["padded"])
                right = f.at(compute, right, first * panel)
                sizes = (columns, c[extent], count)
                _product(f, kind, c, "column_tile", panel, sizes, turned, right, (sums, stride), fresh, c["rows"])
            with f.loop(0, c["depth"], panel) as j:
                with f.loop(0, count, c["row_step"]) as i:
                    a = f.at(compute, changes, i * c["padded"])
                    b = f.at(compute, keys_by_depth, j * c["columns"])
                    goal = f.at(compute, tiles, i * panel)
                    steps = (f.i64(panel), one, c["padded"], one, f.i64(0), f.i64(panel))
                    f.call_pointer("void", f.pointer(c["row_tile"]), columns, a, b, goal, *steps, count - i)
                target = f.at(kind.storage, f.buffer(OUT_Q), (plane * c["rows"] + first) * c["depth"] + j)
                _store(f, kind, tiles, f.i64(panel), count, f.minimum(c["depth"] - j, panel), target, c["depth"], size)
        for out, sums, extent, stride in ((OUT_K, sum_keys, "depth", depth_padded), (OUT_V, sum_values, "width", width_padded)):
            target = f.at(kind.storage, f.buffer(out), plane * c["columns"] * c[extent])
            _store(f, kind, sums, stride, c["columns"], c[extent], target, c[extent], size)
    return module(*packer.functions, f)


def _store(
    f: Kernel, kind: Kind, source: Value, stride: Value, rows: Value, columns: Value, target: Value, row: Value, size: int
) -> None:
    """Rows of sums to their place, in the stored type."""
    lanes = kind.lanes
    with f.loop(0, rows) as i, f.loop(0, columns, lanes) as j:
        value = f.load(vector(kind.compute, lanes), f.at(kind.compute, source, i * stride + j), align=size)
        f.masked_store(
            narrow(f, kind, value), f.at(kind.storage, target, i * row + j), f.mask(columns - j, lanes), BYTES[kind.storage]
        )


@compiled(DIRECT, "gradients")
def _gradients_address(kind: Kind, masked: str | None, causal: bool) -> str:
    """Address of gradients(..., changes, logarithms, gradient, g_row, g_step, result, width): scores to weights, and the
    gradients of weights to those of scores, both in place. The last five tell where the rows' results and their gradients lie.
    """
    made = RowsFunction(
        "gradients",
        kind,
        masked,
        causal,
        ("changes", "ptr"),
        ("logarithms", "ptr"),
        ("gradient", "ptr"),
        ("g_row", "i64"),
        ("g_step", "i64"),
        ("result", "ptr"),
        ("width", "i64"),
    )
    f, compute, lanes, size = made.f, kind.compute, kind.lanes, BYTES[kind.compute]
    wide = vector(compute, lanes)
    scale, zero = f.splat(f["scale"], lanes), f.value(0, wide)

    def gradients(i: Value, row: Value, end: Value, factor: Value) -> None:
        changes = f.at(compute, f["changes"], i * f["padded"])
        gradient = f.at(kind.storage, f["gradient"], i * f["g_row"])
        result = f.at(kind.storage, f["result"], i * f["width"])
        total = f.splat(_inner_product(f, kind, gradient, f["g_step"], result, f["width"]), lanes)
        # a row in which nothing counts has weights exp(-inf - inf) = 0
        logarithm = f.load(compute, f["logarithms"], i)
        logarithm = f.select(logarithm.equals(f.value(LOWEST, compute)), f.value(float("inf"), compute), logarithm)
        base = f.splat(logarithm, lanes)

        def weigh(strip: Strip) -> None:
            x, exists = strip.x, strip.mask()
            own, other = f.at(compute, row, x), f.at(compute, changes, x)
            score = f.load(wide, own, align=size) * factor
            weight = kept(f, exists, apply_function(f, "exp", float_type(kind), score - base), zero)
            change = weight * (f.load(wide, other, align=size) - total) * scale
            f.store(weight, own, align=size)
            f.store(kept(f, exists, change, zero), other, align=size)

        strips(f, end, lanes, weigh)
        made.clear(end, row, changes)

    made.write(gradients)
    return module(made.f)


def _inner_product(f: Kernel, kind: Kind, gradient: Value, step: Value, result: Value, width: Value) -> Value:
    """The sum over a row of gradient times result; both in the stored type, the gradient's elements `step` apart."""
    storage, compute, lanes = kind.storage, kind.compute, kind.lanes
    total = f.variable(compute, 0)

    def several(strip: Strip) -> None:
        x, exists = strip.x, strip.mask()
        own, other = (load_existing(f, vector(storage, lanes), f.at(storage, at, x), exists) for at in (gradient, result))
        sums.set(sums.get() + widen(f, kind, own) * widen(f, kind, other))

    with f.branches(step.equals(1)) as otherwise:
        sums = f.variable(vector(compute, lanes), 0)
        strips(f, width, lanes, several)
        total.set(total_of(f, sums.get()))
        otherwise()
        with f.loop(0, width) as x:
            total.add(widen(f, kind, f.load(storage, gradient, x * step)) * widen(f, kind, f.load(storage, result, x)))
    return total.get()


def backward_phases(dtype: DType, a: Attention, gradient: tuple[int, int, int, int], scale: float) -> tuple[list[Phase], int]:
    """Phases for slots (dq, dk, dv, g, q, k, v, out, logarithms, [mask]) and the scratch bytes they need."""
    kind = kind_of(dtype)
    whole = kind_of("float64" if kind.compute == "double" else "float32")
    size = BYTES[kind.compute]
    most, vectors = tile_of(a, kind)
    panel = vectors * kind.lanes
    planes = a.batch * a.heads
    gradients = _gradients_address(kind, a.masked, a.causal)
    orders = tuple(
        stride_class(lane, step, lanes, steps)
        for lane, step, lanes, steps in (
            (*a.key[2:], a.columns, a.depth),
            (*a.value[2:], a.columns, a.width),
            (*a.key[:1:-1], a.depth, a.columns),
            (*gradient[:1:-1], a.width, a.rows),
            (*a.query[:1:-1], a.depth, a.rows),
        )
    )
    column_panels, depth_panels, width_panels = (panels_of(n, panel) for n in (a.columns, a.depth, a.width))
    padded = column_panels * panel
    block = block_of(a, most, padded * size, BLOCK_BYTES)
    packed = padded * (a.depth + a.width) + panel * (depth_panels * (a.columns + a.rows) + width_panels * a.rows)
    sums = (padded + most) * (depth_panels + width_panels) * panel
    slice_bytes = ((packed + 2 * block * padded + block * panel + sums) * size + 127) // 64 * 64
    together = steps_together(a.work)
    words = (
        a.heads,
        a.rows,
        a.columns,
        a.depth,
        a.width,
        block,
        most,
        padded,
        *a.query,
        *gradient,
        *a.key,
        *a.value,
        *(a.mask or (0, 0, 0, 0)),
        bits_of(scale, kind),
        slice_bytes,
        depth_panels,
        width_panels,
        column_panels,
        micro_address(kind, most, vectors, "rows" if a.query[3] == gradient[3] == 1 else "strided", True, together=together),
        micro_address(whole, most, vectors, "rows", True, together=together),
        micro_address(whole, most, vectors, "strided", True, together=together),
        gradients,
    )
    kernel = backward_kernel(kind, vectors, a.masked, a.causal, orders)
    phase = Phase(kernel, planes, max(1, 100_000 // (a.rows * a.columns * a.depth)), words)
    return [phase], slice_bytes * max(planned_threads(), 1)
