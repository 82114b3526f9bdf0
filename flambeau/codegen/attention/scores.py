"""Rows of scores: what attention's kernels do to them between its products.

A row is scaled and masked, turned into exponentials in place, and its sum kept: a function that is compiled by itself, while the
kernels that call it are. Stands on strips.py and lanes.py; the kernels of this folder call it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float32, float64
from flambeau.codegen.builder import Value, module
from flambeau.codegen.jit import Address, compile_kernel
from flambeau.codegen.kernel import BYTES, Constants, Kernel, suffix, vector
from flambeau.codegen.kinds import Kind
from flambeau.codegen.lanes import apply_function, total_of
from flambeau.codegen.llvm import DIRECT
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


class Rows:
    """Emits the calls of a kernel to a function of rows, a `row_function`.

    The constant `name` is the function's address; others are the scale and the strides of the mask in `mask_slot`.
    """

    def __init__(self, f: Kernel, c: Constants, kind: Kind, name: str, masked: str | None, mask_slot: int, causal: bool) -> None:
        self.f, self.c, self.kind, self.name, self.masked, self.slot, self.causal = f, c, kind, name, masked, mask_slot, causal
        self.scale = scalar_constant(f, kind, c["scale"])

    def call(self, place: Row, scores: Value, columns: Value, *more: Value) -> None:
        """What the function does to a row; more: its own arguments."""
        f, c = self.f, self.c
        end = f.minimum(columns, place.position + 1) if self.causal else columns
        mask, step = scores, f.i64(0)
        if self.masked is not None:
            first = place.sample * c["m_n"] + place.head * c["m_h"] + place.position * c["m_row"]
            mask, step = f.at("i8" if self.masked == "bool" else self.kind.compute, f.buffer(self.slot), first), c["m_step"]
        f.call_pointer("void", f.pointer(c[self.name]), scores, end, columns, self.scale, mask, step, *more)


def row_function(name: str, kind: Kind, *more: tuple[str, str]) -> Kernel:
    """void name(scores, end, columns, scale, mask, mask_step, ...): a function of a row of scores, of which the first `end`
    count, the others up to `columns` do not; the elements of its mask are `mask_step` apart.
    """
    return Kernel(name, [("scores", "ptr"), ("end", "i64"), ("columns", "i64"), ("scale", kind.compute), ("mask", "ptr"),
                         ("mask_step", "i64"), *more])


def scale_and_mask(f: Kernel, kind: Kind, masked: str | None) -> Value:
    """Apply a `row_function`'s mask, which goes on scaled scores; what they are still to be multiplied by, in each lane."""
    if masked is None:
        return f.splat(f["scale"], kind.lanes)
    masked_scores(f, kind, masked == "bool", f["scores"], f["end"], f["mask"], f["mask_step"], f["scale"])
    return f.value(1, vector(kind.compute, kind.lanes))


def clear(f: Kernel, kind: Kind, *rows: Value) -> None:
    """Zeros where a `row_function`'s scores do not count."""
    lanes = kind.lanes
    with f.loop((f["end"] + (lanes - 1)) & -lanes, f["columns"], lanes) as x:
        for row in rows:
            f.store(f.value(0, vector(kind.compute, lanes)), f.at(kind.compute, row, x), align=BYTES[kind.compute])


def float_type(kind: Kind) -> DType:
    """That which scores are computed in."""
    return float64 if kind.compute == "double" else float32


@cache
def softmax_address(kind: Kind, masked: str | None) -> Address:
    """Address of softmax(..., sum, logarithm): scores to exponentials in place; stores the reciprocal and the logarithm of their
    sum.
    """
    f = row_function("softmax", kind, ("sum", "ptr"), ("logarithm", "ptr"))
    compute, lanes, size, dtype = kind.compute, kind.lanes, BYTES[kind.compute], float_type(kind)
    row, end, wide = f["scores"], f["end"], vector(compute, lanes)
    factor, lowest = scale_and_mask(f, kind, masked), f.value(LOWEST, compute)
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
    clear(f, kind, row)
    found = total_of(f, total.get())
    empty = found.equals(0.0)
    f.store(f.select(empty, f.value(0, compute), f.value(1, compute) / found), f["sum"])
    f.store(f.select(empty, lowest, best + apply_function(f, "log", dtype, found)), f["logarithm"])
    return compile_kernel(module(f), f.name, DIRECT)
