"""Kernels of embedding_bag: sums, means and maxima of a table's rows over bags of indices, and the gradient of the table.

Bag b holds the indices from offsets[b] up to offsets[b + 1] (the last one: to the end; none if that is before its start). Offsets
and indices are checked before anything is read through them; what is wrong leaves OFFSET_ERROR or INDEX_ERROR. Stands on builder
and kernel; used by ops.nn.embedding_bag.
"""

from __future__ import annotations

from typing import NamedTuple

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector

OFFSET_ERROR, INDEX_ERROR = 1, 2
CONSTANTS = ("width", "stride", "rows", "count", "bags", "padding", "parts")
VECTORS = 4  # that are folded at once


class Form(NamedTuple):
    """What a kernel does: kind of the table, integer type of indices and offsets, "sum", "mean" or "max", with factors or not."""

    kind: Kind
    index: str
    mode: str
    weighted: bool


class _Bags:
    """The indices of the bags, as the text of a kernel reads them."""

    def __init__(self, f: Kernel, form: Form, c: Constants, indices: Value, offsets: Value):
        self.f, self.form, self.c, self.indices, self.offsets = f, form, c, indices, offsets

    def _integer(self, array: Value, at: Value) -> Value:
        value = self.f.load(self.form.index, array, at)
        return value if value.type == "i64" else self.f.convert(value, "i64", "sext")

    def index(self, at: Value) -> Value:
        return self._integer(self.indices, at)

    def ends(self, bag: Value) -> tuple[Value, Value, Value]:
        """(begin, end, whether they lie within the indices)"""
        f, count = self.f, self.c["count"]
        end = f.variable("i64", count)
        with f.when(bag + 1 < self.c["bags"]):
            end.set(self._integer(self.offsets, bag + 1))
        begin, last = self._integer(self.offsets, bag), end.get()
        return begin, last, self._both(f.i64(-1) < begin, last <= count)

    def _both(self, a: Value, b: Value) -> Value:
        return self.f.emit("i1", f"and i1 {a.name}, {b.name}")

    def size(self, begin: Value, end: Value) -> tuple[Value, Value]:
        """(indices that are not the padding, whether all are rows of the table)"""
        f = self.f
        size, good = f.variable("i64", 0), f.variable("i1", 1)
        with f.loop(begin, end) as at:
            index = self.index(at)
            size.add(f.convert(index.differs(self.c["padding"]), "i64", "zext"))
            good.set(self._both(good.get(), index.unsigned_below(self.c["rows"])))
        return size.get(), good.get()


def _strips(f: Kernel, width: Value, lanes: int, body) -> None:
    """body(x, count, mask) for blocks of `count` vectors, then for single masked ones."""
    whole = width - width.unsigned_rem(VECTORS * lanes)
    with f.loop(0, whole, VECTORS * lanes) as x:
        body(x, VECTORS, None)
    with f.loop(whole, width, lanes) as x:
        body(x, 1, f.mask(width - x, lanes))


def _load(f: Kernel, kind: Kind, place: Value, mask: Value | None) -> Value:
    stored = vector(kind.storage, kind.lanes)
    size = BYTES[kind.storage]
    return widen(f, kind, f.load(stored, place, align=size) if mask is None else f.masked_load(stored, place, mask, size))


def _store(f: Kernel, value: Value, place: Value, mask: Value | None, size: int) -> None:
    if mask is None:
        f.store(value, place, align=size)
    else:
        f.masked_store(value, place, mask, size)


@compiled()
def forward_kernel(form: Form) -> str:
    """The range is bags. Slots: out, the chosen rows (max only; int64, -1: none), table, indices, offsets, factors (weighted)."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    kind, lanes, most = form.kind, form.kind.lanes, form.mode == "max"
    out, chosen = f.buffer(0), f.buffer(1)
    table, indices, offsets, factors = (f.buffer(i + (2 if most else 1)) for i in range(4))
    bags = _Bags(f, form, c, indices, offsets)
    error = f.variable("i64", 0)
    accumulators = [f.variable(kind.accumulator) for _ in range(VECTORS)]
    choices = [f.variable(vector("i64", lanes)) for _ in range(VECTORS)]
    with f.loop(f["begin"], f["end"]) as bag:
        begin, end, fits = bags.ends(bag)
        with f.branches(fits) as otherwise:
            size, good = bags.size(begin, end)
            with f.branches(good) as bad:
                target = bag * c["width"]

                def fold(x: Value, count: int, mask: Value | None) -> None:
                    for v in range(count):
                        accumulators[v].set(0)
                        choices[v].set(-1)
                    with f.loop(begin, end) as at:
                        index = bags.index(at)
                        # another thread may have changed it since it was checked
                        with f.when(index.unsigned_below(c["rows"]) & index.differs(c["padding"])):
                            row = f.at(kind.storage, table, index * c["stride"] + x)
                            factor = None
                            if form.weighted:
                                factor = f.splat(widen(f, kind, f.load(kind.storage, factors, at)), lanes)
                            for v in range(count):
                                value = _load(f, kind, f.at(kind.storage, row, v * lanes), mask)
                                before, choice = accumulators[v].get(), choices[v].get()
                                if most:
                                    more, first = value > before, choice < 0
                                    take = f.emit(more.type, f"or {more.type} {more.name}, {first.name}")
                                    choices[v].set(f.select(take, f.splat(index, lanes), choice))
                                    accumulators[v].set(f.select(take, value, before))
                                else:
                                    accumulators[v].set(before + value if factor is None else f.fma(value, factor, before))
                    for v in range(count):
                        value = accumulators[v].get()
                        if form.mode == "mean":
                            divisor = f.convert(f.maximum(size, 1), kind.compute, "sitofp")
                            value = value / f.splat(divisor, lanes)
                        _store(
                            f, narrow(f, kind, value), f.at(kind.storage, out, target + x + v * lanes), mask, BYTES[kind.storage]
                        )
                        if most:
                            _store(f, choices[v].get(), f.at("i64", chosen, target + x + v * lanes), mask, 8)

                _strips(f, c["width"], lanes, fold)
                bad()
                error.set(INDEX_ERROR)
            otherwise()
            error.set(OFFSET_ERROR)
    with f.when(error.get().differs(0)):
        f.store(error.get(), f["p"], 2)
    return module(f)


@compiled()
def gradient_kernel(form: Form) -> str:
    """Adds the bags' gradients to the rows of a table; the range is parts of the table, each of which one thread fills.

    Slots: the table, gradient of the result, indices, offsets, factors (if weighted).
    """
    f = Kernel()
    c = f.constants(CONSTANTS)
    kind, lanes = form.kind, form.kind.lanes
    table, gradient, indices, offsets, factors = (f.buffer(i) for i in range(5))
    bags = _Bags(f, form, c, indices, offsets)
    error = f.variable("i64", 0)
    with f.loop(f["begin"], f["end"]) as part:
        low, high = ((c["rows"] * p).unsigned_div(c["parts"]) for p in (part, part + 1))
        with f.loop(0, c["bags"]) as bag:
            begin, end, fits = bags.ends(bag)
            with f.branches(fits) as otherwise:
                divisor = None
                if form.mode == "mean":
                    size, _ = bags.size(begin, end)
                    divisor = f.splat(f.convert(f.maximum(size, 1), kind.compute, "sitofp"), lanes)
                with f.loop(begin, end) as at:
                    index = bags.index(at)
                    own = f.emit("i1", f"and i1 {(index >= low).name}, {(index < high).name}")
                    with f.when(f.emit("i1", f"and i1 {own.name}, {index.differs(c['padding']).name}")):
                        row = f.at(kind.storage, table, index * c["width"])
                        source = f.at(kind.storage, gradient, bag * c["stride"])
                        factor = None
                        if form.weighted:
                            factor = f.splat(widen(f, kind, f.load(kind.storage, factors, at)), lanes)

                        def add(x: Value, count: int, mask: Value | None) -> None:
                            for v in range(count):
                                place = f.at(kind.storage, row, x + v * lanes)
                                value = _load(f, kind, f.at(kind.storage, source, x + v * lanes), mask)
                                before = _load(f, kind, place, mask)
                                if divisor is not None:
                                    value = value / divisor
                                value = before + value if factor is None else f.fma(value, factor, before)
                                _store(f, narrow(f, kind, value), place, mask, BYTES[kind.storage])

                        _strips(f, c["width"], lanes, add)
                otherwise()
                error.set(OFFSET_ERROR)
    with f.when(error.get().differs(0)):
        f.store(error.get(), f["p"], 2)
    return module(f)
