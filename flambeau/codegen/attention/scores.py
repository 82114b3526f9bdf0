"""Rows of scores: what attention's kernels do to them between its products.

They are scaled and masked, turned into exponentials in place, and their sums kept: by a function that is compiled by itself,
while the kernel that calls it is. Stands on strip_mine.py and simd.py; the kernels of this folder call it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float32, float64
from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, suffix, vector
from flambeau.codegen.llvm import DIRECT
from flambeau.codegen.products.epilogue import scalar_constant
from flambeau.codegen.simd import apply_function, total_of
from flambeau.codegen.strip_mine import Strip, strips

LOWEST = float("-inf")


class Attention(NamedTuple):
    """Sizes and strides (batch, head, row, column) of an attention."""

    batch: int
    heads: int
    rows: int
    columns: int
    depth: int
    width: int
    query: tuple[int, int, int, int]
    key: tuple[int, int, int, int]
    value: tuple[int, int, int, int]
    mask: tuple[int, int, int, int] | None
    boolean: bool
    causal: bool

    @property
    def work(self) -> int:
        """Multiply-adds of its two products."""
        return self.batch * self.heads * self.rows * self.columns * (self.depth + self.width)

    @property
    def masked(self) -> str | None:
        """What the mask holds, if there is one: "bool" or "number"."""
        return None if self.mask is None else "bool" if self.boolean else "number"


def kept(f: Kernel, exists: Value | None, value: Value, otherwise: Value) -> Value:
    """The elements of a vector that exist."""
    return value if exists is None else f.select(exists, value, otherwise)


def load_existing(f: Kernel, type: str, pointer: Value, exists: Value | None) -> Value:
    """The elements of a caller's vector that exist, zero for the others."""
    return f.load(type, pointer, align=1) if exists is None else f.masked_load(type, pointer, exists)


def masked_scores(f: Kernel, kind: Kind, boolean: bool, row: Value, end: Value, mask: Value, step: Value, scale: Value) -> None:
    """Scale a row of scores and apply the caller's mask, in place."""
    compute, lanes = kind.compute, kind.lanes
    stored = "i8" if boolean else compute
    lowest = f.value(LOWEST, compute)

    def masked(value: Value, own: Value, lowest: Value) -> Value:
        return f.select(own.differs(0), value, lowest) if boolean else value + own

    def several(strip: Strip) -> None:
        x, exists = strip.x, strip.mask()
        at = f.at(compute, row, x)
        value = f.load(vector(compute, lanes), at, align=BYTES[compute]) * f.splat(scale, lanes)
        own = load_existing(f, vector(stored, lanes), f.at(stored, mask, x), exists)
        f.store(masked(value, own, f.splat(lowest, lanes)), at, align=BYTES[compute])

    with f.branches(step.equals(1)) as otherwise:
        strips(f, end, lanes, several)
        otherwise()
        with f.loop(0, end) as x:
            f.store(masked(f.load(compute, row, x) * scale, f.load(stored, mask, x * step), lowest), row, x)


@dataclass
class Place:
    """Where rows of scores belong: one head of one sample, from a position on."""

    sample: Value
    head: Value
    position: Value


class Rows:
    """Emits the calls of a kernel to a function of rows of scores, a `RowsFunction`.

    The constant `name` is the function's address; others are the scale and the strides of the mask in `mask_slot`.
    """

    def __init__(self, f: Kernel, c: Constants, kind: Kind, name: str, masked: str | None, mask_slot: int) -> None:
        self.f, self.c, self.kind, self.name, self.masked, self.slot = f, c, kind, name, masked, mask_slot
        self.scale = scalar_constant(f, kind, c["scale"])

    def call(self, place: Place, scores: Value, count: Value, columns: Value, *more: Value) -> None:
        """What the function does to `count` rows; more: its own arguments."""
        f, c, mask = self.f, self.c, scores
        if self.masked is not None:
            first = place.sample * c["m_n"] + place.head * c["m_h"] + place.position * c["m_row"]
            mask = f.at(_stored(self.kind, self.masked), f.buffer(self.slot), first)
        f.call_pointer(
            "void",
            f.pointer(c[self.name]),
            scores,
            c["padded"],
            count,
            place.position,
            columns,
            self.scale,
            mask,
            c["m_row"],
            c["m_step"],
            *more,
        )


class RowsFunction:
    """void name(scores, padded, count, position, columns, scale, mask, mask_row, mask_step, ...): a function of `count` rows of
    scores, `padded` apart, with `columns` elements.

    position: the first row's, which in a triangle has that many elements and one more; mask_row, mask_step: strides of the mask.
    """

    def __init__(self, name: str, kind: Kind, masked: str | None, causal: bool, *more: tuple[str, str]) -> None:
        self.kind, self.masked, self.causal = kind, masked, causal
        self.f = Kernel(
            name,
            [
                ("scores", "ptr"),
                ("padded", "i64"),
                ("count", "i64"),
                ("position", "i64"),
                ("columns", "i64"),
                ("scale", kind.compute),
                ("mask", "ptr"),
                ("mask_row", "i64"),
                ("mask_step", "i64"),
                *more,
            ],
        )

    def write(self, body: Callable[[Value, Value, Value, Value], None]) -> None:
        """body(i, row, end, factor) does what is to be done to row i, of which the elements before `end` count; they are still
        to be multiplied by `factor`, unless a mask is applied, which goes on scaled ones.
        """
        f, kind = self.f, self.kind
        factor = f.splat(f["scale"], kind.lanes) if self.masked is None else f.value(1, vector(kind.compute, kind.lanes))
        with f.loop(0, f["count"]) as i:
            row = f.at(kind.compute, f["scores"], i * f["padded"])
            end = f.minimum(f["columns"], f["position"] + i + 1) if self.causal else f["columns"]
            if self.masked is not None:
                mask = f.at(_stored(kind, self.masked), f["mask"], i * f["mask_row"])
                masked_scores(f, kind, self.masked == "bool", row, end, mask, f["mask_step"], f["scale"])
            body(i, row, end, factor)

    def clear(self, end: Value, *rows: Value) -> None:
        """Zeros where a row's elements do not count."""
        f, lanes, compute = self.f, self.kind.lanes, self.kind.compute
        with f.loop((end + (lanes - 1)) & -lanes, f["columns"], lanes) as x:
            for row in rows:
                f.store(f.value(0, vector(compute, lanes)), f.at(compute, row, x), align=BYTES[compute])


def _stored(kind: Kind, masked: str) -> str:
    """The type of a mask's elements."""
    return "i8" if masked == "bool" else kind.compute


def float_type(kind: Kind) -> DType:
    """That which scores are computed in."""
    return float64 if kind.compute == "double" else float32


@compiled(DIRECT, "softmax")
def softmax_address(kind: Kind, masked: str | None, causal: bool) -> str:
    """Address of softmax(..., sums, logarithms): scores to exponentials in place; stores the reciprocals and the logarithms of
    the rows' sums.
    """
    made = RowsFunction("softmax", kind, masked, causal, ("sums", "ptr"), ("logarithms", "ptr"))
    f, compute, lanes, size, dtype = made.f, kind.compute, kind.lanes, BYTES[kind.compute], float_type(kind)
    wide, lowest = vector(compute, lanes), f.value(LOWEST, compute)

    def softmax(i: Value, row: Value, end: Value, factor: Value) -> None:
        largest = f.variable(wide, f.splat(lowest, lanes))

        def find(strip: Strip) -> None:
            x, exists = strip.x, strip.mask()
            value = kept(f, exists, f.load(wide, f.at(compute, row, x), align=size) * factor, f.splat(lowest, lanes))
            largest.set(f.maximum(value, largest.get()))

        strips(f, end, lanes, find)
        best = f.call(compute, f"llvm.vector.reduce.fmax.{suffix(wide)}", largest.get(), fast="nnan nsz")
        best = f.select(best.equals(lowest), f.value(0, compute), best)
        base, total = f.splat(best, lanes), f.variable(wide, 0)

        def exponential(strip: Strip) -> None:
            x, exists = strip.x, strip.mask()
            at = f.at(compute, row, x)
            value = apply_function(f, "exp", dtype, f.load(wide, at, align=size) * factor - base)
            value = kept(f, exists, value, f.value(0, wide))
            f.store(value, at, align=size)
            total.add(value)

        strips(f, end, lanes, exponential)
        made.clear(end, row)
        found = total_of(f, total.get())
        empty = found.equals(0.0)
        f.store(f.select(empty, f.value(0, compute), f.value(1, compute) / found), f["sums"], i)
        f.store(f.select(empty, lowest, best + apply_function(f, "log", dtype, found)), f["logarithms"], i)

    made.write(softmax)
    return module(made.f)
