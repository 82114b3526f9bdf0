"""Kernels of elements of planes looked up at places: the taps of each place, and their weights, from its coordinates.

Places lie side by side in vectors; their taps are found once and serve all channels. The gradient of the planes is scattered from
the weights and indices that `gradient_kernel` leaves in scratch memory. Stands on strip_mine.py and the scalar language; used by
ops.nn.grid_sample.
"""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.base.dtype import float32, float64
from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.scalar import Lowering
from flambeau.codegen.strip_mine import gather, strips
from flambeau.ir.derivative import vjp
from flambeau.ir.scalar import Expr, constant, leaf

CONSTANTS = ("batch", "channels", "size", "places", "blocks")  # and the extents of a plane, the first first


@dataclass(frozen=True)
class Taps:
    """Expressions of the leaves `coordinate` and `extent`: the weight and the index (int32; -1: none) of every tap."""

    dims: int
    weights: tuple[Expr, ...]
    indices: tuple[Expr, ...]


def coordinate(axis: int, kind: Kind) -> Expr:
    """The leaf of a place's coordinate."""
    return leaf(f"coordinate{axis}", float32 if kind.compute == "float" else float64)


def extent(axis: int, kind: Kind) -> Expr:
    """The leaf of a plane's extent, in the type of the coordinates."""
    return leaf(f"extent{axis}", float32 if kind.compute == "float" else float64)


class _Block:
    """A vector of places of sample n, from p on; `grid` has the coordinates of each, those along the last axis first."""

    def __init__(self, f: Kernel, kind: Kind, c: Constants, taps: Taps, grid: Value, unit: Value):
        self.f, self.kind, self.c, self.taps = f, kind, c, taps
        self.lanes, self.dims = kind.lanes, taps.dims
        self.n, self.p = unit.unsigned_div(c["blocks"]), unit.unsigned_rem(c["blocks"]) * kind.lanes
        left = c["places"] - self.p
        self.exist, self.pairs = f.mask(left, self.lanes), f.mask(left * self.dims, self.lanes * self.dims)
        self.place = (self.n * c["places"] + self.p) * self.dims
        wide = vector(kind.compute, self.lanes * self.dims)
        read = f.masked_load(wide, f.at(kind.compute, grid, self.place), self.pairs, BYTES[kind.compute])
        order = range(self.lanes)
        self.known = {
            coordinate(d, kind): f.shuffle(read, read, [self.dims * i + self.dims - 1 - d for i in order]).name
            for d in range(self.dims)
        }
        for d in range(self.dims):
            size = f.convert(c[f"extent{d}"], kind.compute, "sitofp")
            self.known[extent(d, kind)] = f.splat(size, self.lanes).name
        self.low = Lowering(f.line, f.fresh, self.lanes)
        self.weights = [self.value(e) for e in taps.weights]
        self.indices = [Value(f, vector("i32", self.lanes), str(self.low.value(e, self.known))) for e in taps.indices]
        self.inside = [(index >= 0) & self.exist for index in self.indices]

    def value(self, expression: Expr, known: dict[Expr, str] | None = None) -> Value:
        """The elements of an expression of the leaves, and of those in `known`."""
        result = Value(self.f, self.kind.accumulator, str(self.low.value(expression, self.known | (known or {}))))
        self.f.declarations |= self.low.declarations
        return result

    def elements(self, planes: Value, channel: Value) -> list[Value]:
        """The element of every tap in a channel."""
        plane = self.f.at(self.kind.compute, planes, (self.n * self.c["channels"] + channel) * self.c["size"])
        return [
            gather(self.f, self.kind.compute, plane, index, inside, self.lanes)
            for index, inside in zip(self.indices, self.inside)
        ]

    def at(self, array: Value, channel: Value) -> Value:
        """Where the places of a channel lie in an array (N, C, P)."""
        row = (self.n * self.c["channels"] + channel) * self.c["places"] + self.p
        return self.f.at(self.kind.compute, array, row)

    def put_coordinates(self, values: list[Value], grid: Value) -> None:
        """Store a vector for each axis as the coordinates are stored."""
        f, lanes = self.f, self.lanes
        both = f.shuffle(values[-1], values[-2], range(2 * lanes))
        order = [i // self.dims + lanes * (i % self.dims) for i in range(self.dims * lanes)]
        if self.dims == 2:
            made = f.shuffle(both, both, order)
        else:
            made = f.shuffle(both, f.shuffle(values[0], values[0], [i % lanes for i in range(2 * lanes)]), order)
        f.masked_store(made, f.at(self.kind.compute, grid, self.place), self.pairs, BYTES[self.kind.compute])


def _kernel(taps: Taps) -> tuple[Kernel, Constants]:
    f = Kernel()
    return f, f.constants((*CONSTANTS, *[f"extent{d}" for d in range(taps.dims)]))


@compiled(INDEXED)
def forward_kernel(kind: Kind, taps: Taps) -> str:
    """The range is blocks of places of the samples. Slots: out (N, C, P), planes (N, C, S), grid (N, P, dims)."""
    f, c = _kernel(taps)
    out, planes, grid = (f.buffer(i) for i in range(3))
    with f.loop(f["begin"], f["end"]) as unit:
        block = _Block(f, kind, c, taps, grid, unit)
        with f.loop(0, c["channels"]) as channel:
            total = None
            for element, weight in zip(block.elements(planes, channel), block.weights):
                total = element * weight if total is None else f.fma(element, weight, total)
            f.masked_store(total, block.at(out, channel), block.exist, BYTES[kind.compute])
    return module(f)


@compiled(INDEXED)
def gradient_kernel(kind: Kind, taps: Taps, grid_too: bool, planes_too: bool) -> str:
    """What a lookup's gradients begin with; the range is that of `forward_kernel`. Slots: [gradient of the grid], [of the
    planes], gradient of out, planes, grid. planes_too: weights, and then indices, of the taps (K, N, P) are left in scratch
    memory.
    """
    f, c = _kernel(taps)
    gradient, planes, grid = (f.buffer(grid_too + planes_too + i) for i in range(3))
    count, size = len(taps.weights), BYTES[kind.compute]
    shares, slopes = _slopes(kind, taps)
    totals = [f.variable(kind.accumulator) for _ in range(count * grid_too)]
    with f.loop(f["begin"], f["end"]) as unit:
        block = _Block(f, kind, c, taps, grid, unit)
        if planes_too:
            for k, (weight, index) in enumerate(zip(block.weights, block.indices)):
                place = _tap(f, kind, c, count, k, block.n * c["places"] + block.p)
                f.masked_store(weight, place[0], block.exist, size)
                f.masked_store(index, place[1], block.exist, 4)
        if grid_too:
            for total in totals:
                total.set(0)
            with f.loop(0, c["channels"]) as channel:
                own = f.masked_load(kind.accumulator, block.at(gradient, channel), block.exist, size)
                for total, element in zip(totals, block.elements(planes, channel)):
                    total.set(f.fma(element, own, total.get()))
            known = {share: total.get().name for share, total in zip(shares, totals)}
            block.put_coordinates(
                [f.value(0.0, kind.accumulator) if slope is None else block.value(slope, known) for slope in slopes], f.buffer(0)
            )
    return module(f)


def _slopes(kind: Kind, taps: Taps) -> tuple[list[Expr], tuple[Expr | None, ...]]:
    """Leaves for what each tap's weight is to be multiplied by, and the derivatives of their sum by the coordinates."""
    dtype = taps.weights[0].dtype
    shares = [leaf(f"share{k}", dtype) for k in range(len(taps.weights))]
    whole = constant(0, dtype)
    for share, weight in zip(shares, taps.weights):
        whole = whole + share * weight
    return shares, vjp(whole, [coordinate(d, kind) for d in range(taps.dims)], constant(1, dtype))


def scratch_of(kind: Kind, taps: Taps, batch: int, places: int) -> int:
    """Bytes of scratch memory for weights and indices."""
    return len(taps.weights) * batch * places * (BYTES[kind.compute] + 4)


def _tap(f: Kernel, kind: Kind, c: Constants, count: int, tap: Value | int, at: Value) -> tuple[Value, Value]:
    """Where the weight and the index of a tap of place `at` of all samples are in scratch memory."""
    each, size = c["batch"] * c["places"], BYTES[kind.compute]
    return f.scratch((each * tap + at) * size), f.scratch(each * (count * size) + (each * tap + at) * 4)


@compiled(INDEXED)
def scatter_kernel(kind: Kind, taps: Taps, grid_too: bool) -> str:
    """The gradient of the planes, which are the range; slots and scratch memory are those of `gradient_kernel`."""
    f, c = _kernel(taps)
    count = len(taps.weights)
    out, gradient = f.buffer(int(grid_too)), f.buffer(grid_too + 1)
    with f.loop(f["begin"], f["end"]) as row:
        n, plane = row.unsigned_div(c["channels"]), f.at(kind.compute, out, row * c["size"])
        own = f.at(kind.compute, gradient, row * c["places"])
        strips(
            f,
            c["size"],
            kind.lanes,
            lambda strip, plane=plane: strip.store(
                f.value(0.0, kind.accumulator), kind.compute, f.at(kind.compute, plane, strip.x)
            ),
        )
        with f.loop(0, f.i64(count)) as tap:
            weights, indices = _tap(f, kind, c, count, tap, n * c["places"])
            with f.loop(0, c["places"]) as p:
                index = f.convert(f.load("i32", indices, p), "i64", "sext")
                with f.when(index >= 0):
                    share = f.load(kind.compute, own, p) * f.load(kind.compute, weights, p)
                    f.store(f.load(kind.compute, plane, index) + share, plane, index)
    return module(f)
