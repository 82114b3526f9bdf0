"""Positions of the elements that are not zero, or of those that begin a run of equal ones: count per chunk, running totals, then
the positions in order.

Two plans, because the size of the result is known only after the first. Stands on builder and jit; used by ops.indexing.nonzero.
"""

from __future__ import annotations

from typing import NamedTuple

from flambeau.base.dtype import FLOAT8
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.codegen.builder import Function, Value, Variable, kernel, module
from flambeau.codegen.jit import compiled
from flambeau.codegen.llvm import COMBINED, LIGHT
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.targets import lowered

CHUNK = 16384
BLOCK = 1024
LANES = 16  # elements that are counted at once
_FLOATS = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}


def element_type(dtype: DType) -> str:
    """The LLVM type in which elements of a real dtype are compared. NotImplementedError for float8."""
    if dtype in FLOAT8:
        raise NotImplementedError(f"\"nonzero_count_cpu\" not implemented for '{dtype.scalar_name}'")
    return _FLOATS.get(dtype.name, f"i{8 * dtype.itemsize}")


def _element(dtype: DType) -> tuple[str, int]:
    """(LLVM type, how many of them make an element)"""
    if dtype.is_complex:
        return {8: "float", 16: "double", 4: "half"}[dtype.itemsize], 2
    return element_type(dtype), 1


class Wanted(NamedTuple):
    """Which elements are looked for, of an LLVM type that makes an element `parts` times."""

    type: str
    parts: int
    begins: bool  # those that differ from the one before them, and the first; otherwise those that are not zero

    def holds(self, f: Function, x: Value, i: Value) -> Value:
        """Whether element i is one, as an i1."""
        type, parts = self.type, self.parts
        # the first is compared with itself
        other = i - f.convert(i.differs(0), "i64", "zext")
        found = f.value(0, "i1")
        for part in range(parts):
            own = f.load(type, x, i * parts + part)
            differs = own.differs(f.load(type, x, other * parts + part) if self.begins else 0)
            found = f.emit("i1", f"or i1 {found.name}, {differs.name}")
        return f.emit("i1", f"or i1 {found.name}, {i.equals(0).name}") if self.begins else found

    def mask(self, f: Function, x: Value, i: Value, lanes: int) -> Value:
        """Which of so many elements of one part from i on are such. Where runs begin, i is not 0."""
        type = f"<{lanes} x {self.type}>"
        own = f.load(type, f.at(self.type, x, i), align=1)
        return own.differs(f.load(type, f.at(self.type, x, i - 1), align=1) if self.begins else 0)

    def number(self, f: Function, x: Value, i: Value) -> Value:
        """How many of LANES elements from i on are such, as an i64. Where runs begin, i is not 0."""
        count = LANES * self.parts
        type = f"<{count} x {self.type}>"
        own = f.load(type, f.at(self.type, x, i * self.parts), align=1)
        differs = own.differs(f.load(type, f.at(self.type, x, (i - 1) * self.parts), align=1) if self.begins else 0)
        bits = f.convert(f.convert(differs, f"i{count}", "bitcast"), "i64", "zext")
        if self.parts == 2:  # one of two adjacent bits is enough
            bits = (bits | (bits >> 1)) & 0x55555555
        return f.call("i64", "llvm.ctpop.i64", bits)


@compiled(LIGHT)
def _count_kernel(wanted: Wanted) -> str:
    f = kernel()
    n = f.load("i64", f.pointer(f.parameter(0)), 0)
    counts, x = f.buffer(0), f.buffer(1)
    with f.loop(f["begin"], f["end"]) as chunk:
        first = chunk * CHUNK
        count = f.variable("i64", 0)
        last = f.minimum(first + CHUNK, n)
        start = first
        if wanted.begins:  # the first of all is looked at by itself
            start = first + f.convert(first.equals(0), "i64", "zext")
            count.set(start - first)
        whole = start + ((last - start) & -LANES)
        with f.loop(start, whole, LANES) as i:
            count.add(wanted.number(f, x, i))
        with f.loop(whole, last) as i:
            count.add(f.convert(wanted.holds(f, x, i), "i64", "zext"))
        f.store(count.get(), counts, chunk)
    return module(f)


@compiled(LIGHT)
def _add_kernel() -> str:
    g = kernel()
    chunks = g.load("i64", g.pointer(g.parameter(0)), 1)
    counts = g.buffer(0)
    total = g.variable("i64", 0)
    with g.loop(0, chunks) as i:
        own = g.load("i64", counts, i)
        g.store(total.get(), counts, i)
        total.add(own)
    g.store(total.get(), counts, chunks)
    return module(g)


def _write_positions(
    f: Function, wanted: Wanted, x: Value, out: Value, begin: Variable, last: Value, at: Variable, end: Value
) -> None:
    """Positions of whole vectors from `begin` on, which are stored at `at` while they surely fit."""
    lanes, kind = 8, "<8 x i64>"
    steps = Value(f, kind, "<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">")
    with f.repeat(lambda: (begin.get() + lanes <= last) & (at.get() + lanes <= end)):
        mask = wanted.mask(f, x, begin.get(), lanes)
        dense = f.call(
            kind, "llvm.experimental.vector.compress.v8i64", f.splat(begin.get(), lanes) + steps, mask, Value(f, kind, "poison")
        )
        f.store(dense, out, at.get(), align=8)
        bits = f.convert(f.convert(mask, f"i{lanes}", "bitcast"), "i64", "zext")
        at.add(f.call("i64", "llvm.ctpop.i64", bits))
        begin.add(lanes)


@compiled(COMBINED)
def _writing(wanted: Wanted, ndim: int) -> str:
    f = kernel()
    constants = f.pointer(f.parameter(0))
    n = f.load("i64", constants, 0)
    total = f.load("i64", constants, 1)
    sizes = [f.load("i64", constants, 2 + d) for d in range(ndim)]
    out, x, starts = f.buffer(0), f.buffer(1), f.buffer(2)
    found = f.stack("i64", BLOCK, 64)
    at = f.variable("i64")
    with f.loop(f["begin"], f["end"]) as chunk:
        at.set(f.load("i64", starts, chunk))
        end = f.load("i64", starts, chunk + 1)
        first = chunk * CHUNK
        last = f.minimum(first + CHUNK, n)
        begin = f.variable("i64")
        begin.set(first)
        if ndim == 1 and wanted.parts == 1:
            if wanted.begins:
                with f.when(first.equals(0) & (at.get() < end)):
                    f.store(f.i64(0), out, at.get())
                    at.add(1)
                    begin.set(1)
            _write_positions(f, wanted, x, out, begin, last, at, end)
        with f.loop(begin.get(), last, BLOCK) as block:
            count = f.variable("i64")
            count.set(0)
            with f.loop(block, f.minimum(block + BLOCK, last)) as i:
                # written always, kept only when true: no branch to mispredict
                f.store(i, found, count.get())
                count.add(f.convert(wanted.holds(f, x, i), "i64", "zext"))
            # another thread may have changed the elements since they were counted
            count.set(f.minimum(count.get(), end - at.get()))
            whole = count.get() & -8 if ndim == 1 else f.i64(0)
            with f.loop(0, whole, 8) as j:
                f.store(f.load("<8 x i64>", found, j, align=8), out, at.get() + j, align=8)
            with f.loop(whole, count.get()) as j:
                rest = f.load("i64", found, j)
                place = at.get() + j
                for d in reversed(range(1, ndim)):
                    f.store(rest.unsigned_rem(sizes[d]), out, total * d + place)
                    rest = rest.unsigned_div(sizes[d])
                f.store(rest, out, place)
            at.add(count.get())
        if wanted.begins:
            with f.when(last.equals(n)):
                f.store(n, out, end)
    return module(f)


def counting_plan(layout: Layout, counts: Layout, begins: bool):
    """launch(None, x) -> int64 tensor: where each chunk's positions start, then their number. x is contiguous."""
    chunks = -(-layout.numel // CHUNK)
    wanted = Wanted(*_element(layout.dtype), begins)
    constants = [layout.numel, chunks]
    return lowered(
        Plan(
            [Phase(_count_kernel(wanted), chunks, 4, constants), Phase(_add_kernel(), 1, 1, constants)],
            [counts],
            [layout],
            release=layout.numel > 1 << 20,
        )
    )


def writing_plan(layout: Layout, starts: Layout, out: Layout, ndim: int, begins: bool):
    """launch(None, x, starts) -> (number, ndim) int64 positions, each dimension's in one piece; after those of beginnings, the
    number of elements.
    """
    chunks = -(-layout.numel // CHUNK)
    return lowered(
        Plan(
            [
                Phase(
                    _writing(Wanted(*_element(layout.dtype), begins), ndim),
                    chunks,
                    4,
                    [layout.numel, out.shape[0], *(layout.shape[:ndim] if ndim > 1 else (layout.numel,))],
                )
            ],
            [out],
            [layout, starts],
            release=layout.numel > 1 << 20,
        )
    )
