"""Counts of points in bins, or sums of their weights: the kernels of histc, histogram, histogramdd and bincount.

The points are dealt out to parts; each part counts in a row of its own, and where there are several a second kernel adds the
rows up. Counts are kept in the dtype of the result, as PyTorch keeps them. Stands on builder and kernel; used by
ops.reduction.histogram.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flambeau.base.dtype import int64
from flambeau.base.layout import Layout
from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, kind_of, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.codegen.targets import lowered

PART = 2048  # points worth waking another thread for
LONG = 1 << 20  # points worth letting other Python threads run


class Form(NamedTuple):
    """What a kernel counts: points of `dims` coordinates, whose bins are found in some way, or (no way) the bins' own numbers.

    way: "equal": from the ends alone, bins being equally wide; "near": the same, then put right by the edges around it;
    "searched": by binary search in the edges.
    """

    kind: Kind  # of coordinates and edges
    counts: Kind | None  # of weights and counts; None: 64-bit integers, each point counts 1
    way: str | None
    dims: int
    weighted: bool


class _Counts:
    """A row of counts, as the text of a kernel reads and writes it."""

    def __init__(self, f: Kernel, kind: Kind | None):
        self.f, self.kind = f, kind
        self.type = "i64" if kind is None else kind.storage

    @property
    def bytes(self) -> int:
        return BYTES[self.type]

    def load(self, row: Value, at: Value) -> Value:
        value = self.f.load(self.type, row, at)
        return value if self.kind is None else widen(self.f, self.kind, value)

    def store(self, value: Value, row: Value, at: Value) -> None:
        self.f.store(value if self.kind is None else narrow(self.f, self.kind, value), row, at)

    def zero(self) -> Value:
        return self.f.value(0, "i64" if self.kind is None else self.kind.compute)


class _Axis:
    """One coordinate's bins: `count` of them, between `low` and `high`, at `edges`."""

    def __init__(self, f: Kernel, form: Form, count: Value, edges: Value | None, ends: tuple[Value, Value] | None):
        self.f, self.kind, self.way, self.count, self.edges = f, form.kind, form.way, count, edges
        self.low, self.high = ends or (self._edge(f.i64(0)), self._edge(count))
        self.bins = self._rounded(f.convert(count, self.kind.compute, "sitofp"))
        self.width = self._rounded(self.high - self.low)
        self.first, self.length = f.variable("i64"), f.variable("i64")

    def _rounded(self, value: Value) -> Value:
        """A number as the dtype holds it: every step is rounded, as in PyTorch."""
        kind = self.kind
        return value if kind.storage == kind.compute else widen(self.f, kind, narrow(self.f, kind, value))

    def _edge(self, at: Value) -> Value:
        assert self.edges is not None
        return widen(self.f, self.kind, self.f.load(self.kind.storage, self.edges, at))

    def inside(self, x: Value) -> Value:
        above, below = x >= self.low, x <= self.high  # neither holds for NaN
        return self.f.emit("i1", f"and i1 {above.name}, {below.name}")

    def bin(self, x: Value) -> Value:
        """The bin of a coordinate inside: bins hold their lower edge, the last one both."""
        f, last = self.f, self.count - 1
        if self.way == "searched":
            return f.minimum(self._last_edge_up_to(x), last)
        position = self._rounded(self._rounded(self._rounded(x - self.low) * self.bins) / self.width)
        # a width of 0 is one of numbers so large that their neighbours are the same: the middle then
        exists = f.emit("i1", f"fcmp ord {position.type} {position.name}, {position.name}")
        guess = f.select(exists, f.convert(f.select(exists, position, 0), "i64", "fptosi"), self.count >> 1)
        guess = f.minimum(f.maximum(guess, 0), last)
        if self.way == "near":
            below = f.convert(x < self._edge(guess), "i64", "zext")
            above = f.convert(x >= self._edge(guess + 1), "i64", "zext")
            guess = f.minimum(f.maximum(guess - below + above, 0), last)
        return guess

    def _last_edge_up_to(self, x: Value) -> Value:
        """The number of the last edge that is not above x; x is not below the first. No branch depends on x."""
        f = self.f
        self.first.set(0)
        self.length.set(self.count + 1)
        with f.repeat(lambda: self.length.get() > 1):
            half = self.length.get() >> 1
            self.first.add(half & -f.convert(self._edge(self.first.get() + half) <= x, "i64", "zext"))
            self.length.set(self.length.get() - half)
        return self.first.get()


@compiled(LIGHT)
def _count_kernel(form: Form) -> str:
    """The range is parts. Slots: counts, points, [edges of each coordinate], [weights]; then the ends of "equal" bins."""
    f = Kernel()
    c = f.constants(("points", "parts", "total", *(f"bins{d}" for d in range(form.dims))))
    counts = _Counts(f, form.counts)
    with_edges = form.way in ("near", "searched")
    points = f.buffer(1)
    axes: list[_Axis] = []
    if form.way is not None:
        for d in range(form.dims):
            ends = None
            if not with_edges:
                ends = tuple(f.load("double", f["p"], 6 + form.weighted + i) for i in range(2))
                ends = ends if form.kind.compute == "double" else tuple(f.convert(e, "float", "fptrunc") for e in ends)
            axes.append(_Axis(f, form, c[f"bins{d}"], f.buffer(2 + d) if with_edges else None, ends))
    weights = f.buffer(2 + form.dims * with_edges) if form.weighted else None
    rows = f.select(c["parts"].equals(1), f.parameter(4), f.parameter(1))
    with f.loop(f["begin"], f["end"]) as part:
        first, last = ((c["points"] * p).unsigned_div(c["parts"]) for p in (part, part + 1))
        row = f.at(counts.type, f.pointer(rows), part * c["total"])
        with f.loop(0, c["total"]) as bin_:
            counts.store(counts.zero(), row, bin_)
        place, inside = f.variable("i64"), f.variable("i1")
        with f.stretches(first, last) as (start, stop), f.loop(start, stop) as i:
            if form.way is None:
                place.set(f.load("i64", points, i))
                inside.set(place.get().unsigned_below(c["total"]))
            else:
                place.set(0)
                inside.set(1)
                for d, axis in enumerate(axes):
                    x = widen(f, form.kind, f.load(form.kind.storage, points, i * form.dims + d))
                    with f.branches(axis.inside(x)) as otherwise:
                        place.set(place.get() * axis.count + axis.bin(x))
                        otherwise()
                        inside.set(0)
            with f.when(inside.get()):
                one = f.value(1, counts.zero().type)
                if weights is not None:
                    one = widen(f, form.counts, f.load(form.counts.storage, weights, i))  # type: ignore[arg-type, union-attr]
                counts.store(counts.load(row, place.get()) + one, row, place.get())
    return module(f)


@compiled(LIGHT)
def _sum_kernel(kind: Kind | None) -> str:
    """The range is bins. Slot: counts; the scratch holds a row of them for each part."""
    f = Kernel()
    c = f.constants(("parts", "total"))
    counts = _Counts(f, kind)
    out, rows = f.buffer(0), f.pointer(f.parameter(1))
    sum_ = f.variable(counts.zero().type)
    with f.loop(f["begin"], f["end"]) as bin_:
        sum_.set(counts.zero())
        with f.loop(0, c["parts"]) as part:
            sum_.add(counts.load(rows, part * c["total"] + bin_))
        counts.store(sum_.get(), out, bin_)
    return module(f)


def counting_plan(
    out: Layout,
    points: Layout,
    bins: tuple[int, ...],
    way: str | None,
    edges: Sequence[Layout],
    weights: Layout | None,
    in_order: bool,
):
    """launch(None, points, [edges ...], [weights], [low, high]) -> counts; all contiguous.

    out: (product of bins,), of the weights' dtype if there are any; points: (number, len(bins)), or bin numbers (int64) with no
    way; in_order: weights are added one after the other, by one thread.
    """
    kind = kind_of(points.dtype) if way is not None else kind_of(out.dtype)
    form = Form(kind, None if out.dtype is int64 else kind_of(out.dtype), way, len(bins), weights is not None)
    count, total = points.shape[0], out.numel
    parts = 1 if in_order else max(1, min(planned_threads(), count // PART, count // max(total, 1)))
    phases = [Phase(_count_kernel(form), parts, 1, [count, parts, total, *bins])]
    if parts > 1:
        phases.append(Phase(_sum_kernel(form.counts), total, 16384, [parts, total]))
    given = [points, *edges, *([] if weights is None else [weights])]
    return lowered(
        Plan(phases, [out], given, "ff" if way == "equal" else "", parts * out.nbytes if parts > 1 else 0, release=count >= LONG)
    )
