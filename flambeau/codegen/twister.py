"""The Mersenne Twister as a kernel: the next words of MT19937 into scratch, for kernels that transform them; and one of those.

Source: M. Matsumoto and T. Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998). The state is base.rng's: 624 words and a position.
Stands on builder; used by core.sampling.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.builder import Function, Value, kernel, module
from flambeau.codegen.jit import VECTORISED, compile_kernel

WORDS, SHIFT = 624, 397
UPPER, LOWER, MATRIX = 0x80000000, 0x7FFFFFFF, 0x9908B0DF


def _mixed(f: Function, high: Value, low: Value) -> Value:
    """The twist of one word from the upper bit of one and the lower bits of the next."""
    y = (high & (UPPER - (1 << 32))) | (low & LOWER)
    odd = f.value(0, "i32") - (low & 1)
    return (y >> 1) ^ (odd & (MATRIX - (1 << 32)))


def _twist(f: Function, key: Value) -> None:
    def word(i) -> Value:
        return f.load("i32", key, i)
    with f.loop(0, WORDS - SHIFT) as k:
        f.store(word(k + SHIFT) ^ _mixed(f, word(k), word(k + 1)), key, k)
    with f.loop(WORDS - SHIFT, WORDS - 1) as k:
        f.store(word(k - (WORDS - SHIFT)) ^ _mixed(f, word(k), word(k + 1)), key, k)
    f.store(word(SHIFT - 1) ^ _mixed(f, word(WORDS - 1), word(0)), key, WORDS - 1)


@cache
def twister_kernel() -> int:
    """Kernel over one unit: constants (count, slot); scalar `slot` holds the address of the state; words go to scratch."""
    f = kernel()
    constants = f.pointer(f.parameter(0))
    count, slot = f.load("i64", constants, 0), f.load("i64", constants, 1)
    out, key = f.pointer(f.parameter(1)), f.pointer(f.load("i64", f["p"], slot + 4))
    f.metadata += ["!1 = distinct !{}", '!2 = !{!"llvm.loop.parallel_accesses", !1}', "!3 = distinct !{!3, !2}"]
    place = f.at("i32", key, WORDS)
    position = f.variable("i64", f.convert(f.load("i32", place), "i64", "sext"))
    done = f.variable("i64", 0)
    with f.repeat(lambda: done.get() < count):
        with f.when(position.get() >= WORDS):
            _twist(f, key)
            position.set(0)
        start, first = position.get(), done.get()
        size = f.minimum(f.i64(WORDS) - start, count - first)
        with f.loop(0, size, metadata=", !llvm.loop !3") as j:
            y = f.load("i32", key, start + j, suffix=", !llvm.access.group !1")
            y = y ^ (y >> 11)
            y = y ^ ((y << 7) & (0x9D2C5680 - (1 << 32)))
            y = y ^ ((y << 15) & (0xEFC60000 - (1 << 32)))
            f.store(y ^ (y >> 18), out, first + j, suffix=", !llvm.access.group !1")
        position.set(start + size)
        done.set(first + size)
    f.store(f.convert(position.get(), "i32", "trunc"), place)
    return compile_kernel(module(f), pipeline=VECTORISED)


@cache
def permutation_kernel() -> int:
    """Kernel over one unit: constants (n); 0 ... n - 1 into slot 0 in the order that n - 1 words in scratch give it.

    Source: R. Durstenfeld, "Algorithm 235: Random permutation", CACM 7 (1964), from the front.
    """
    f = kernel()
    n = f.load("i64", f.pointer(f.parameter(0)), 0)
    words, out = f.pointer(f.parameter(1)), f.pointer(f.parameter(4))
    with f.loop(0, n) as i:
        f.store(i, out, i)
    with f.loop(0, n - 1) as i:
        word = f.convert(f.load("i32", words, i), "i64", "zext")
        other = i + word.unsigned_rem(n - i)
        mine, theirs = f.load("i64", out, i), f.load("i64", out, other)
        f.store(theirs, out, i)
        f.store(mine, out, other)
    return compile_kernel(module(f))
