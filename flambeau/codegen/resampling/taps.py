"""Kernels of weighted taps: sums of a plane's elements at given places, each with a weight, and both gradients.

out[n, c, p] = sum over k of weights[k, n, p] * planes[n, c, indices[k, n, p]]; an index that is no element of the plane (-1, say)
counts nothing. What this form gives for two of planes, weights and out's gradient is the gradient of the third, so that these
three kernels serve every order. Stands on kernel and interpolate; used by ops.nn.grid_sample.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.strip_mine import gather

CONSTANTS = ("taps", "batch", "channels", "size", "places", "blocks")


def _start(c: Constants, tap: Value, n: Value) -> Value:
    """Where the indices and weights of a tap and a sample begin."""
    return (tap * c["batch"] + n) * c["places"]


class _Places:
    """A vector of places: which of them exist, and which indices are elements."""

    def __init__(self, f: Kernel, kind: Kind, c: Constants, indices: Value, p: Value):
        self.f, self.kind, self.c, self.indices, self.p = f, kind, c, indices, p
        self.exist = f.mask(c["places"] - p, kind.lanes)
        self.limit = f.splat(f.convert(c["size"], "i32", "trunc"), kind.lanes)

    def load(self, array: Value, at: Value) -> Value:
        place = self.f.at(self.kind.compute, array, at + self.p)
        return self.f.masked_load(self.kind.accumulator, place, self.exist, BYTES[self.kind.compute])

    def store(self, value: Value, array: Value, at: Value) -> None:
        place = self.f.at(self.kind.compute, array, at + self.p)
        self.f.masked_store(value, place, self.exist, BYTES[self.kind.compute])

    def elements(self, start: Value) -> tuple[Value, Value]:
        """(indices, which of them are read)"""
        f, lanes = self.f, self.kind.lanes
        index = f.masked_load(vector("i32", lanes), f.at("i32", self.indices, start + self.p), self.exist, 4)
        inside = index.unsigned_below(self.limit)
        return index, f.emit(inside.type, f"and {inside.type} {inside.name}, {self.exist.name}")


@compiled(INDEXED)
def sum_kernel(kind: Kind) -> str:
    """The range is planes. Slots: out (N, C, P), planes (N, C, S), weights and indices (K, N, P; int32)."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, planes, weights, indices = (f.buffer(i) for i in range(4))
    total = f.variable(kind.accumulator)
    with f.loop(f["begin"], f["end"]) as row:
        n, plane = row.unsigned_div(c["channels"]), f.at(kind.compute, planes, row * c["size"])
        with f.loop(0, c["places"], kind.lanes) as p:
            places = _Places(f, kind, c, indices, p)
            total.set(0)
            with f.loop(0, c["taps"]) as tap:
                start = _start(c, tap, n)
                index, inside = places.elements(start)
                element = gather(f, kind.compute, plane, index, inside, kind.lanes)
                total.set(f.fma(element, places.load(weights, start), total.get()))
            places.store(total.get(), out, row * c["places"])
    return module(f)


@compiled(INDEXED)
def planes_kernel(kind: Kind) -> str:
    """The range is planes. Slots: gradient of the planes, gradient of out, weights, indices."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, gradient, weights, indices = (f.buffer(i) for i in range(4))
    zero = f.value(0.0, kind.compute)
    with f.loop(f["begin"], f["end"]) as row:
        n, plane = row.unsigned_div(c["channels"]), f.at(kind.compute, out, row * c["size"])
        own = f.at(kind.compute, gradient, row * c["places"])
        with f.loop(0, c["size"]) as at:
            f.store(zero, plane, at)
        with f.loop(0, c["taps"]) as tap:
            start = _start(c, tap, n)
            with f.loop(0, c["places"]) as p:
                index = f.convert(f.load("i32", indices, start + p), "i64", "sext")
                with f.when(index.unsigned_below(c["size"])):
                    share = f.load(kind.compute, own, p) * f.load(kind.compute, weights, start + p)
                    f.store(f.load(kind.compute, plane, index) + share, plane, index)
    return module(f)


@compiled(INDEXED)
def weights_kernel(kind: Kind) -> str:
    """The range is blocks of places of the samples. Slots: gradient of the weights, gradient of out, planes, indices."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, gradient, planes, indices = (f.buffer(i) for i in range(4))
    total = f.variable(kind.accumulator)
    with f.loop(f["begin"], f["end"]) as unit:
        n = unit.unsigned_div(c["blocks"])
        places = _Places(f, kind, c, indices, unit.unsigned_rem(c["blocks"]) * kind.lanes)
        with f.loop(0, c["taps"]) as tap:
            start = _start(c, tap, n)
            index, inside = places.elements(start)
            total.set(0)
            with f.loop(0, c["channels"]) as channel:
                row = n * c["channels"] + channel
                element = gather(f, kind.compute, f.at(kind.compute, planes, row * c["size"]), index, inside, kind.lanes)
                total.set(f.fma(element, places.load(gradient, row * c["places"]), total.get()))
            places.store(total.get(), out, start)
    return module(f)
