"""Kernels of the distances between all pairs of rows of two matrices, or of one, and of their gradients.

The rows of the second matrix are packed side by side, so that a vector holds the distances of one row to as many others and
nothing is summed across lanes. Terms are added up in the dtype itself, in blocks, whose sums are added up in turn. Stands on
kernel.py, products.pack and strip_mine.py; used by ops.linalg.cdist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.codegen.attention.panels import packed_bytes, packing, panels_of
from flambeau.codegen.builder import Value, Variable, module
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.products.epilogue import bits_of, scalar_constant
from flambeau.codegen.scalar import Lowering
from flambeau.codegen.strip_mine import Strip, strips
from flambeau.codegen.targets import lowered
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr

ROWS = 4  # of one matrix that share what is loaded of the other
BLOCK = 64  # terms that are added up before their sum is added to the total
WORK = 100_000  # terms worth waking another thread for
CONSTANTS = ("rows", "columns", "depth", "batch", "row", "step", "panels", "order")
LEAVES = ("x", "total", "weight", "distance", "order")
GRADIENT_CONSTANTS = ("rows", "others", "depth", "batch", "row", "other", "order")


def norm_of(order: float) -> str:
    """Which of the kernels' norms an order asks for."""
    return {0.0: "zero", 1.0: "one", 2.0: "two", math.inf: "largest"}.get(order, "low" if order < 1 else "any")


def _term(norm: str, x: Expr, total: Expr, order: Expr) -> Expr:
    """The total with one more difference x."""
    size = abs(x)
    if norm == "largest":
        return s.maximum(total, size)
    if norm == "zero":
        return total + s.where(x == 0, 0, s.where(s.isnan(x), x, 1))
    return total + {"one": lambda: size, "two": lambda: x * x}.get(norm, lambda: s.pow(size, order))()


def _result(norm: str, total: Expr, order: Expr) -> Expr:
    if norm in ("zero", "one", "largest"):
        return total
    return s.sqrt(total) if norm == "two" else s.pow(total, 1 / order)


def _slope(norm: str, x: Expr, total: Expr, weight: Expr, distance: Expr, order: Expr) -> Expr:
    """The gradient of the first operand of the difference x, added to the total of what other differences gave."""
    sign = s.where(x > 0, 1, s.where(x < 0, -1, x))
    if norm in ("one", "two"):
        return s.fma(weight, sign if norm == "one" else x, total)
    if norm == "largest":
        behind = distance - abs(x)
        return s.fma(weight, s.where(behind == 0, sign, s.where(s.isnan(behind), behind, 0)), total)
    slope = s.copysign(s.pow(abs(x), order - 1), x)
    return s.where(x == 0, total, s.fma(weight, slope, total)) if norm == "low" else s.fma(weight, slope, total)


class _Terms:
    """Expressions over registers of one kernel."""

    def __init__(self, f: Kernel, dtype: DType, norm: str, order: Value) -> None:
        self.f, self.norm, self.order = f, norm, order
        self.leaves = {name: s.leaf(name, dtype) for name in LEAVES}

    def compute(self, expression: Callable[..., Expr], lanes: int, **values: Value) -> Value:
        f, leaves = self.f, self.leaves
        low = Lowering(f.line, f.fresh, lanes)
        given = values | {"order": f.splat(self.order, lanes)}  # in the order of the expression's parameters
        made = expression(self.norm, *(leaves[name] for name in given))
        result = low.value(made, {leaves[name]: value.name for name, value in given.items()})
        f.declarations |= low.declarations
        return Value(f, next(iter(values.values())).type, result)


def _in_blocks(
    f: Kernel,
    begin: Value,
    end: Value,
    totals: Sequence[Variable],
    parts: Sequence[Variable],
    body: Callable[[Value], None],
    sums: bool = True,
) -> None:
    """body(i), which adds to `parts`, for i in a range; sums: parts begin at zero in each block and are added to `totals`."""
    if not sums:
        with f.loop(begin, end) as i:
            body(i)
        return
    with f.loop(begin, end, BLOCK) as first:
        for part in parts:
            part.set(0)
        with f.loop(first, f.minimum(first + BLOCK, end)) as i:
            body(i)
        for total, part in zip(totals, parts):
            total.add(part.get())


def _pair_base(row: Value, count: Value) -> Value:
    """Where the distances of a row to those after it are among those of `count` rows, less the number of the other row."""
    return ((row * (count * 2 - row - 3)) >> 1) - 1


@compiled(LIGHT)
def _forward_kernel(kind: Kind, dtype: DType, norm: str, pairs: bool, vectors: int) -> str:
    """The range is batches x blocks of rows. Slots: distances, the first matrices; the second are packed in scratch memory.
    pairs: only those of a row and a later one, in one vector. vectors: of a panel's two, as many as are needed.
    """
    f = Kernel()
    c = f.constants(CONSTANTS)
    lanes, type, size = kind.lanes, kind.compute, BYTES[kind.compute]
    wide, panel = vector(type, lanes), 2 * lanes
    terms = _Terms(f, dtype, norm, scalar_constant(f, kind, c["order"]))
    totals = [f.variable(wide) for _ in range(vectors * ROWS)]
    parts = totals if norm == "largest" else [f.variable(wide) for _ in range(vectors * ROWS)]
    blocks = f.ceiling_division(c["rows"], ROWS)
    with f.loop(f["begin"], f["end"]) as index:
        batch, first = index.unsigned_div(blocks), index.unsigned_rem(blocks) * ROWS
        # the last block's missing rows are its last one again
        rows = [f.minimum(first + r, c["rows"] - 1) for r in range(ROWS)]
        sources = [f.at(type, f.buffer(1), batch * c["batch"] + row * c["row"]) for row in rows]
        if pairs:
            targets = [f.at(type, f.buffer(0), _pair_base(row, c["columns"])) for row in rows]
        else:
            targets = [f.at(type, f.buffer(0), (batch * c["rows"] + row) * c["columns"]) for row in rows]
        packed = f.at(type, f.scratch(f.i64(0)), batch * c["panels"] * c["depth"] * panel)
        start = (first + 1) & -panel if pairs else f.i64(0)
        with f.loop(start, c["columns"], panel) as j:
            others = f.at(type, packed, j * c["depth"])
            for total in totals:
                total.set(0)

            def add(k: Value, others: Value = others, sources: list[Value] = sources) -> None:
                step = f.at(type, others, k * panel)
                loaded = [f.load(wide, step, i * lanes, align=size) for i in range(vectors)]
                for r, source in enumerate(sources):
                    own = f.splat(f.load(type, source, k * c["step"]), lanes)
                    for each, other in zip(parts[vectors * r :], loaded):
                        each.set(terms.compute(_term, lanes, x=own - other, total=each.get()))

            _in_blocks(f, f.i64(0), c["depth"], totals, parts, add, norm != "largest")
            for r, (row, target) in enumerate(zip(rows, targets)):
                for i, each in enumerate(totals[vectors * r : vectors * (r + 1)]):
                    place = j + i * lanes
                    exists = f.mask(c["columns"] - place, lanes)
                    if pairs:
                        before = f.mask(row + 1 - place, lanes)
                        exists = f.emit(exists.type, f"xor {exists.type} {(exists & before).name}, {exists.name}")
                    value = terms.compute(_result, lanes, total=each.get())
                    f.masked_store(value, f.at(type, target, place), exists, size)
    return module(f)


class _Gradient:
    """The kernel of gradients: each row's sum, over the other matrix's rows, of weights times slopes of the differences.

    The range is batches x blocks of rows. Slots: gradient, own rows, other rows, weights, distances; rows lie one after another.
    """

    def __init__(self, kind: Kind, dtype: DType, norm: str, pairs: bool) -> None:
        f = self.f = Kernel()
        c = self.c = f.constants(GRADIENT_CONSTANTS)
        self.kind, self.norm, self.pairs = kind, norm, pairs
        self.type, self.wide = kind.compute, vector(kind.compute, kind.lanes)
        self.terms = _Terms(f, dtype, norm, scalar_constant(f, kind, c["order"]))
        self.totals, self.parts = ([f.variable(self.wide) for _ in range(ROWS)] for _ in range(2))
        blocks = f.ceiling_division(c["rows"], ROWS)
        with f.loop(f["begin"], f["end"]) as index:
            self.batch, self.first = index.unsigned_div(blocks), index.unsigned_rem(blocks) * ROWS
            self.rows = [f.minimum(self.first + r, c["rows"] - 1) for r in range(ROWS)]
            self.others = f.at(self.type, f.buffer(2), self.batch * c["others"] * c["depth"])
            strips(f, c["depth"], kind.lanes, self.strip)

    def strip(self, strip: Strip) -> None:
        """The gradient of some columns of the block's rows."""
        f, c = self.f, self.c
        places = [(self.batch * c["rows"] + row) * c["depth"] + strip.x for row in self.rows]
        own = [strip.load(self.type, f.at(self.type, f.buffer(1), place)) for place in places]
        for total in self.totals:
            total.set(0)

        def over(begin: Value, end: Value, weight: Callable[[Value, Value], tuple[Value, Value | None]]) -> None:
            def add(j: Value) -> None:
                other = strip.load(self.type, f.at(self.type, self.others, j * c["depth"] + strip.x))
                for part, row, x in zip(self.parts, self.rows, own):
                    self.add(part, x - other, *weight(row, j))

            _in_blocks(f, begin, end, self.totals, self.parts, add)

        if self.pairs:
            behind = f.minimum(self.first + ROWS, c["rows"])
            over(f.i64(0), self.first, self.earlier)
            over(self.first, behind, self.near)
            over(behind, c["rows"], self.later)
        else:
            over(f.i64(0), c["others"], lambda row, j: (self.batch * c["batch"] + row * c["row"] + j * c["other"], None))
        for place, total in zip(places, self.totals):
            strip.store(total.get(), self.type, f.at(self.type, f.buffer(0), place))

    def earlier(self, row: Value, j: Value) -> tuple[Value, None]:
        return _pair_base(j, self.c["rows"]) + row, None

    def later(self, row: Value, j: Value) -> tuple[Value, None]:
        return _pair_base(row, self.c["rows"]) + j, None

    def near(self, row: Value, j: Value) -> tuple[Value, Value]:
        """Rows of the same block; one is no pair with itself."""
        f = self.f
        place = f.select(j < row, self.earlier(row, j)[0], self.later(row, j)[0])
        same = j.equals(row)
        return f.select(same, f.i64(0), place), same

    def add(self, part: Variable, x: Value, place: Value, skipped: Value | None) -> None:
        """One more difference, whose weight is at `place`."""
        f, lanes = self.f, self.kind.lanes
        weight = f.splat(f.load(self.type, f.buffer(3), place), lanes)
        distance = f.splat(f.load(self.type, f.buffer(4), place), lanes) if self.norm == "largest" else x
        following = self.terms.compute(_slope, lanes, x=x, total=part.get(), weight=weight, distance=distance)
        part.set(following if skipped is None else f.select(skipped, part.get(), following))


@compiled(LIGHT)
def _gradient_kernel(kind: Kind, dtype: DType, norm: str, pairs: bool) -> str:
    return module(_Gradient(kind, dtype, norm, pairs).f)


def _batches(layout: Layout) -> tuple[int, int]:
    """How many matrices there are, and how far apart; they lie evenly."""
    count = math.prod(layout.shape[:-2])
    return count, layout.strides[-3] if layout.ndim > 2 else 0


def distances_plan(first: Layout, second: Layout | None, out: Layout, order: float) -> Callable:
    """launch(None, first, second) -> distances (*, m, n) of the rows of (*, m, k) and (*, n, k), whose batches lie evenly; or,
    if second is None, launch(None, first) -> those of all pairs of rows of a matrix, in one vector.
    """
    pairs, kind = second is None, kind_of(first.dtype)
    other, inputs = (first, [first]) if second is None else (second, [first, second])
    (count, step), (_, other_step) = _batches(first), _batches(other)
    rows, columns, depth = first.shape[-2], other.shape[-2], first.shape[-1]
    phases = []
    if out.numel:
        if depth:
            row, step_along = other.strides[-2:]
            strides = (other_step, 0, 0, 0)
            phases.append(packing(kind, 2 * kind.lanes, len(inputs), strides, 1, count, row, step_along, columns, depth, 0))
        words = (rows, columns, depth, step, *first.strides[-2:], panels_of(columns, 2 * kind.lanes), bits_of(order, kind))
        kernel = _forward_kernel(kind, first.dtype, norm_of(order), pairs, 1 if columns <= kind.lanes else 2)
        grain = max(1, WORK // (ROWS * columns * (depth + 1)))
        phases.append(Phase(kernel, count * -(-rows // ROWS), grain, words))
    scratch = packed_bytes(kind, 2 * kind.lanes, count, columns, depth)
    return lowered(Plan(phases, [out], inputs, "", scratch, release=out.numel * depth >= 1 << 20))


def distance_gradient_plan(own: Layout, other: Layout, weights: Layout, order: float, turned: bool) -> Callable:
    """launch(None, own, other, weights, distances) -> the gradient of the rows `own`; all are contiguous.

    turned: the weights' columns belong to these rows. If they are one vector, own and other are the same matrix.
    """
    kind, pairs = kind_of(own.dtype), weights.ndim == 1
    rows, others, depth = own.shape[-2], other.shape[-2], own.shape[-1]
    steps = (1, rows) if turned else (others, 1)
    words = (rows, others, depth, rows * others, *steps, bits_of(order, kind))
    phases = []
    if own.numel:
        grain = max(1, WORK // (ROWS * (others + 1) * depth))
        kernel = _gradient_kernel(kind, own.dtype, norm_of(order), pairs)
        phases.append(Phase(kernel, math.prod(own.shape[:-2]) * -(-rows // ROWS), grain, words))
    return lowered(Plan(phases, [own], [own, other, weights, weights], release=own.numel * others >= 1 << 20))
