"""Kernels that draw categories: running shares of weights, and the categories in which uniform samples fall.

Both work on scratch memory: two words of the twister for each sample first, then the running shares. Used by
core.operator.sampling.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, kernel, module
from flambeau.codegen.jit import compiled
from flambeau.codegen.llvm import COMBINED


@compiled(COMBINED)
def shares_kernel(type: str) -> str:
    """Over rows: constants (categories, first byte); running sums of slot 1 in its own type, divided by the last, which is 1."""
    f = kernel()
    constants = f.pointer(f.parameter(0))
    categories, first = f.load("i64", constants, 0), f.load("i64", constants, 1)
    shares, weights = f.pointer(f.parameter(1) + first), f.buffer(1)
    with f.loop(f["begin"], f["end"]) as row:
        start = row * categories
        own, out = f.at(type, weights, start), f.at(type, shares, start)
        total = f.variable(type, 0)
        with f.loop(0, categories) as i:
            total.add(f.load(type, own, i))
            f.store(total.get(), out, i)
        sum = total.get()
        with f.loop(0, categories - 1) as i:
            f.store(f.load(type, out, i) / sum, out, i)
        f.store(f.value(1, type), out, categories - 1)
    return module(f)


@compiled(COMBINED)
def choice_kernel(type: str) -> str:
    """Over samples: constants (categories, first byte of the shares, samples of a row); the categories into slot 0."""
    f = kernel()
    constants = f.pointer(f.parameter(0))
    categories, first, samples = (f.load("i64", constants, i) for i in range(3))
    words = f.pointer(f.parameter(1))
    shares, out = f.pointer(f.parameter(1) + first), f.buffer(0)

    def word(i: Value) -> Value:
        return f.convert(f.load("i32", words, i), "i64", "zext")

    with f.loop(f["begin"], f["end"]) as i:
        bits = ((word(i * 2) << 32) | word(i * 2 + 1)) & ((1 << 53) - 1)
        unit = f.convert(bits, "double", "uitofp") * 2.0**-53
        row = f.at(type, shares, i.unsigned_div(samples) * categories)
        left, right = f.variable("i64", 0), f.variable("i64", categories)
        with f.repeat(lambda: left.get() < right.get()):
            middle = (left.get() + right.get()) >> 1
            share = f.load(type, row, middle)
            below = (share if type == "double" else f.convert(share, "double", "fpext")) < unit
            left.set(f.select(below, middle + 1, left.get()))
            right.set(f.select(below, right.get(), middle))
        f.store(left.get(), out, i)
    return module(f)
