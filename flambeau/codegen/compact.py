"""Positions of the elements that are not zero: count per chunk, running totals, then the positions in order.

Two plans, because the size of the result is known only after the first. Stands on builder and jit; used by ops.mask.
"""

from __future__ import annotations

from functools import cache

from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.codegen import launch as launching
from flambeau.codegen.builder import Function, Value, kernel, module
from flambeau.codegen.jit import VECTORISED, compile_kernel
from flambeau.codegen.launch import Phase

CHUNK = 16384
BLOCK = 1024
ELEMENT = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}


def _element(dtype: DType) -> tuple[str, int]:
    """(LLVM type, how many of them make an element)"""
    if dtype.is_complex:
        return {8: "float", 16: "double", 4: "half"}[dtype.itemsize], 2
    return ELEMENT.get(dtype.name, f"i{8 * dtype.itemsize}"), 1


def _truth(f: Function, type: str, parts: int, x: Value, i: Value) -> Value:
    """Whether element i is not zero, as an i1."""
    if parts == 1:
        return f.load(type, x, i).differs(0)
    a, b = f.load(type, x, i * 2).differs(0), f.load(type, x, i * 2 + 1).differs(0)
    return f.emit("i1", f"or i1 {a.name}, {b.name}")


@cache
def _counting(type: str, parts: int) -> tuple[int, int]:
    f = kernel()
    n = f.load("i64", f.pointer(f.parameter(0)), 0)
    counts, x = f.buffer(0), f.buffer(1)
    with f.loop(f["begin"], f["end"]) as chunk:
        first = chunk * CHUNK
        count = f.variable("i64", 0)
        with f.loop(first, f.minimum(first + CHUNK, n)) as i:
            count.add(f.convert(_truth(f, type, parts, x, i), "i64", "zext"))
        f.store(count.get(), counts, chunk)
    g = kernel()
    chunks = g.load("i64", g.pointer(g.parameter(0)), 1)
    counts = g.buffer(0)
    total = g.variable("i64", 0)
    with g.loop(0, chunks) as i:
        own = g.load("i64", counts, i)
        g.store(total.get(), counts, i)
        total.add(own)
    g.store(total.get(), counts, chunks)
    return compile_kernel(module(f), pipeline=VECTORISED), compile_kernel(module(g), pipeline=VECTORISED)


@cache
def _writing(type: str, parts: int, ndim: int) -> int:
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
        first = chunk * CHUNK
        last = f.minimum(first + CHUNK, n)
        with f.loop(first, last, BLOCK) as block:
            count = f.variable("i64")
            count.set(0)
            with f.loop(block, f.minimum(block + BLOCK, last)) as i:
                # written always, kept only when true: no branch to mispredict
                f.store(i, found, count.get())
                count.add(f.convert(_truth(f, type, parts, x, i), "i64", "zext"))
            with f.loop(0, count.get()) as j:
                rest = f.load("i64", found, j)
                place = at.get() + j
                for d in reversed(range(ndim)):
                    if d == 0:
                        f.store(rest, out, place)
                    else:
                        f.store(rest.unsigned_rem(sizes[d]), out, total * d + place)
                        rest = rest.unsigned_div(sizes[d])
            at.add(count.get())
    return compile_kernel(module(f), pipeline=VECTORISED)


def counting_plan(layout: Layout, counts: Layout):
    """launch(None, x) -> int64 tensor: where each chunk's positions start, then their number. x is contiguous."""
    chunks = -(-layout.numel // CHUNK)
    count, add = _counting(*_element(layout.dtype))
    constants = [layout.numel, chunks]
    return launching.plan(
        [Phase(count, chunks, 4, constants), Phase(add, 1, 1, constants)],
        [counts],
        [layout.dtype.itemsize],
        release=layout.numel > 1 << 20,
    )


def writing_plan(layout: Layout, out: Layout, ndim: int):
    """launch(None, x, starts) -> (number, ndim) int64 positions, each dimension's in one piece."""
    chunks = -(-layout.numel // CHUNK)
    return launching.plan(
        [
            Phase(
                _writing(*_element(layout.dtype), ndim),
                chunks,
                4,
                [layout.numel, out.shape[0], *(layout.shape[:ndim] if ndim > 1 else (layout.numel,))],
            )
        ],
        [out],
        [layout.dtype.itemsize, 8],
        release=layout.numel > 1 << 20,
    )
