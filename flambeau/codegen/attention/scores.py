"""Rows of scores: what attention's kernels do to them between its two products.

A row is scaled and masked, turned into exponentials in place, and its sum kept. Stands on strips.py and lanes.py; the kernels
of this folder call it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from flambeau.base.dtype import float32, float64
from flambeau.codegen.builder import Value
from flambeau.codegen.kernel import BYTES, Kernel, suffix, vector
from flambeau.codegen.kinds import Kind
from flambeau.codegen.lanes import apply_function, total_of
from flambeau.codegen.products.epilogue import scalar_constant
from flambeau.codegen.strips import Strip, strips

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
class Row:
    """A row of scores: that of a position in one head of one sample."""

    plane: Value
    sample: Value
    head: Value
    position: Value


class Softmax:
    """What a row of scores goes through; the kernel's constants have the mask's strides and the scale."""

    def __init__(self, f: Kernel, c: dict[str, Value], kind: Kind, masked: str | None, causal: bool) -> None:
        self.f, self.c, self.kind, self.masked, self.causal = f, c, kind, masked, causal
        self.dtype = float64 if kind.compute == "double" else float32
        self.scale = scalar_constant(f, kind, c["scale"])

    def exponentials(self, place: Row, row: Value, columns: Value, sum_at: Value) -> None:
        """A row's scores to exponentials in place; stores the reciprocal and the logarithm of their sum."""
        f, c, compute = self.f, self.c, self.kind.compute
        log_at = f.at(compute, f.buffer(1), place.plane * c["rows"] + place.position)
        lanes, size = self.kind.lanes, BYTES[compute]
        wide = vector(compute, lanes)
        end = f.minimum(columns, place.position + 1) if self.causal else columns
        lowest = f.value(LOWEST, compute)
        factor = self._factor(place, row, end)
        largest = f.variable(wide, f.splat(lowest, lanes))

        def find(strip: Strip) -> None:
            x, exists = strip.x, strip.mask()
            value = kept(f, exists, f.load(wide, f.at(compute, row, x), align=size) * factor, f.splat(lowest, lanes))
            largest.set(f.maximum(value, largest.get()))
        strips(f, end, lanes, find)
        best = f.call(compute, f"llvm.vector.reduce.fmax.{suffix(wide)}", largest.get(), fast="nnan nsz")
        best = f.select(best.equals(lowest), f.value(0, compute), best)
        base, zero, total = f.splat(best, lanes), f.value(0, wide), f.variable(wide, 0)

        def exponential(strip: Strip) -> None:
            x, exists = strip.x, strip.mask()
            at = f.at(compute, row, x)
            value = apply_function(f, "exp", self.dtype, f.load(wide, at, align=size) * factor - base)
            value = kept(f, exists, value, zero)
            f.store(value, at, align=size)
            total.add(value)
        strips(f, end, lanes, exponential)
        with f.loop((end + (lanes - 1)) & -lanes, columns, lanes) as x:
            f.store(zero, f.at(compute, row, x), align=size)
        found = total_of(f, total.get())
        empty = found.equals(0.0)
        f.store(f.select(empty, f.value(0, compute), f.value(1, compute) / found), sum_at)
        f.store(f.select(empty, lowest, best + apply_function(f, "log", self.dtype, found)), log_at)

    def _factor(self, place: Row, row: Value, end: Value) -> Value:
        """What the scores of a row are still to be multiplied by: 1 once the mask, which goes on scaled ones, is applied."""
        f, c, kind = self.f, self.c, self.kind
        if self.masked is None:
            return f.splat(self.scale, kind.lanes)
        boolean = self.masked == "bool"
        mask = f.at("i8" if boolean else kind.compute, f.buffer(5),
                    place.sample * c["m_n"] + place.head * c["m_h"] + place.position * c["m_row"])
        masked_scores(f, kind, boolean, row, end, mask, c["m_step"], self.scale)
        return f.value(1, vector(kind.compute, kind.lanes))
