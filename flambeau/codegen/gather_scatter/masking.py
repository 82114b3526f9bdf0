"""Elements that a mask chooses: all of them in one row, or their places filled from a row.

Where each chunk's chosen elements start was counted before (ordering.compact). Stands on builder and jit; used by
ops.indexing.nonzero.
"""

from __future__ import annotations

from flambeau.base.layout import Layout
from flambeau.codegen.builder import Function, Value, kernel, module
from flambeau.codegen.cpu import features, vector_bytes
from flambeau.codegen.jit import KernelRef, compiled
from flambeau.codegen.ordering.compact import CHUNK
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime.messages import OUTSIDE
from flambeau.codegen.targets import lowered

REGISTER = 64  # bytes of a vector: wider ones are not compressed by one instruction


class _Chunk:
    """The elements of a chunk, and where its chosen ones lie in their row."""

    def __init__(self, f: Function, chunk: Value, starts: Value):
        self.f = f
        self.at = f.variable("i64")
        self.at.set(f.load("i64", starts, chunk))
        # another thread may have changed the mask since it was counted
        self.end = f.load("i64", starts, chunk + 1)
        self.first = chunk * CHUNK
        self.last = f.minimum(self.first + CHUNK, f.load("i64", f.pointer(f.parameter(0)), 0))


@compiled()
def _selecting(size: int) -> str:
    """Over chunks: slots out, values, mask, starts."""
    f = kernel()
    kind, lanes = f"i{8 * size}", min(16, REGISTER // size)
    out, x, mask, starts = (f.buffer(i) for i in range(4))
    with f.loop(f["begin"], f["end"]) as c:
        chunk = _Chunk(f, c, starts)
        begin = f.variable("i64")
        begin.set(chunk.first)
        vector = f"<{lanes} x {kind}>"
        with f.repeat(lambda: (begin.get() + lanes <= chunk.last) & (chunk.at.get() + lanes <= chunk.end)):
            chosen = f.load(f"<{lanes} x i8>", mask, begin.get(), align=1).differs(0)
            bits = f.convert(f.convert(chosen, f"i{lanes}", "bitcast"), "i64", "zext")
            own = f.load(vector, x, begin.get(), align=size)
            dense = f.call(vector, f"llvm.experimental.vector.compress.v{lanes}{kind}", own, chosen, Value(f, vector, "poison"))
            f.store(dense, out, chunk.at.get(), align=size)
            chunk.at.add(f.call("i64", "llvm.ctpop.i64", bits))
            begin.add(lanes)
        with f.loop(begin.get(), chunk.last) as i:
            with f.when(f.load("i8", mask, i).differs(0) & (chunk.at.get() < chunk.end)):
                f.store(f.load(kind, x, i), out, chunk.at.get())
                chunk.at.add(1)
    return module(f)


def _expands(size: int) -> bool:
    """Whether an instruction spreads consecutive elements over the chosen lanes of a vector."""
    return vector_bytes() == REGISTER and (size >= 4 or "avx512_vbmi2" in features())


@compiled()
def _filling(size: int) -> str:
    """Over chunks: slots out, values, mask, source, starts: the values, but the chosen ones from the source."""
    f = kernel()
    kind = f"i{8 * size}"
    out, x, mask, source, starts = (f.buffer(i) for i in range(5))
    with f.loop(f["begin"], f["end"]) as c:
        chunk = _Chunk(f, c, starts)
        begin = f.variable("i64", chunk.first)
        if _expands(size):
            lanes = min(32, REGISTER // size)
            vector, bits = f"<{lanes} x {kind}>", f"i{lanes}"
            with f.repeat(lambda: (begin.get() + lanes <= chunk.last) & (chunk.at.get() + lanes <= chunk.end)):
                chosen = f.load(f"<{lanes} x i8>", mask, begin.get(), align=1).differs(0)
                own = f.load(vector, x, begin.get(), align=size)
                made = f.call(vector, f"llvm.masked.expandload.v{lanes}{kind}", f.at(kind, source, chunk.at.get()), chosen, own)
                f.store(made, out, begin.get(), align=size)
                chunk.at.add(f.convert(f.call(bits, f"llvm.ctpop.{bits}", f.convert(chosen, bits, "bitcast")), "i64", "zext"))
                begin.add(lanes)
        with f.loop(begin.get(), chunk.last) as i:
            chosen = f.load("i8", mask, i).differs(0) & (chunk.at.get() < chunk.end)
            # read always, from within the row: no branch to mispredict
            given = f.load(kind, source, f.maximum(f.minimum(chunk.at.get(), chunk.end - 1), 0))
            f.store(f.select(chosen, given, f.load(kind, x, i)), out, i)
            chunk.at.add(f.convert(chosen, "i64", "zext"))
    return module(f)


def _plan(kernel: KernelRef, out: Layout, values: Layout, mask: Layout, others: list[Layout]):
    """RuntimeError for a mask that isn't of the values' size: another thread has changed one of them since they were compared."""
    numel, inputs = values.numel, [values, mask, *others]
    if mask.numel != numel or not all(layout.is_contiguous for layout in inputs):
        raise RuntimeError(OUTSIDE)
    return lowered(Plan([Phase(kernel, -(-numel // CHUNK), 4, [numel])], [out], inputs, release=numel > 1 << 20))


def selecting_plan(out: Layout, values: Layout, mask: Layout, starts: Layout):
    """launch(None, values, mask, starts) -> the chosen values; all contiguous, elements of at most 8 bytes."""
    return _plan(_selecting(values.dtype.itemsize), out, values, mask, [starts])


def filling_plan(values: Layout, mask: Layout, source: Layout, starts: Layout):
    """launch(out or None, values, mask, source, starts); out may be the values themselves. All contiguous."""
    return _plan(_filling(values.dtype.itemsize), values, values, mask, [source, starts])
