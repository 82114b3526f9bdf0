"""The Mersenne Twister as a kernel: the next words of MT19937 into scratch, for kernels that transform them; and one of those.

Source: M. Matsumoto and T. Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998). The state is base.rng's: 624 words and a position.
Stands on builder; used by core.operator.sampling and codegen.sampling.rejection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.codegen.builder import Function, Value, kernel, module
from flambeau.codegen.jit import compiled
from flambeau.codegen.llvm import LIGHT

WORDS, SHIFT = 624, 397
UPPER, LOWER, MATRIX = 0x80000000, 0x7FFFFFFF, 0x9908B0DF


LANES = 16  # words that are worked on at once; no word within so few is made of another one's new value


def _in_vectors(f: Function, begin: Any, end: Any, write: Callable[[Value, str], None]) -> None:
    """write(i, type) for vectors of words from `begin` on, then for the single words that are left."""
    begin, end = f.i64(begin), f.i64(end)
    whole = begin + ((end - begin) & -LANES)
    with f.loop(begin, whole, LANES) as i:
        write(i, f"<{LANES} x i32>")
    with f.loop(whole, end) as i:
        write(i, "i32")


def _mixed(f: Function, high: Value, low: Value) -> Value:
    """The twist of words from the upper bit of one and the lower bits of the next."""
    y = (high & (UPPER - (1 << 32))) | (low & LOWER)
    odd = f.value(0, y.type) - (low & 1)
    return (y >> 1) ^ (odd & (MATRIX - (1 << 32)))


def twist(f: Function, key: Value) -> None:
    """Make the next 624 words of the state."""

    def from_words(shift: int) -> Callable[[Value, str], None]:
        def write(k: Value, type: str) -> None:
            other, own, following = (f.load(type, key, i, align=4) for i in (k + shift, k, k + 1))
            f.store(other ^ _mixed(f, own, following), key, k, align=4)

        return write

    _in_vectors(f, 0, WORDS - SHIFT, from_words(SHIFT))
    _in_vectors(f, WORDS - SHIFT, WORDS - 1, from_words(SHIFT - WORDS))
    other, own, following = (f.load("i32", key, i) for i in (SHIFT - 1, WORDS - 1, 0))
    f.store(other ^ _mixed(f, own, following), key, WORDS - 1)


def temper(y: Value) -> Value:
    """A word of the stream of one of the state, or a vector of them."""
    y = y ^ (y >> 11)
    y = y ^ ((y << 7) & (0x9D2C5680 - (1 << 32)))
    y = y ^ ((y << 15) & (0xEFC60000 - (1 << 32)))
    return y ^ (y >> 18)


def draw(f: Function, key: Value, out: Value, count: Value) -> None:
    """The next `count` words of the stream."""
    place = f.at("i32", key, WORDS)
    position = f.variable("i64", f.convert(f.load("i32", place), "i64", "sext"))
    done = f.variable("i64", 0)
    with f.repeat(lambda: done.get() < count):
        with f.when(position.get() >= WORDS):
            twist(f, key)
            position.set(0)
        start, first = position.get(), done.get()
        size = f.minimum(f.i64(WORDS) - start, count - first)

        def write(j: Value, type: str) -> None:
            f.store(temper(f.load(type, key, start + j, align=4)), out, first + j, align=4)

        _in_vectors(f, 0, size, write)
        position.set(start + size)
        done.set(first + size)
    f.store(f.convert(position.get(), "i32", "trunc"), place)


@compiled(LIGHT)
def twister_kernel() -> str:
    """Kernel over one unit: constants (count, slot); scalar `slot` holds the address of the state; words go to scratch."""
    f = kernel()
    constants = f.pointer(f.parameter(0))
    count, slot = f.load("i64", constants, 0), f.load("i64", constants, 1)
    out, key = f.pointer(f.parameter(1)), f.pointer(f.load("i64", f["p"], slot + 4))
    draw(f, key, out, count)
    return module(f)


@compiled()
def permutation_kernel(type: str) -> str:
    """Kernel over one unit: constants (n); 0 ... n - 1 (i64 or i32) into slot 0 in the order that n - 1 words in scratch give it.

    Source: R. Durstenfeld, "Algorithm 235: Random permutation", CACM 7 (1964), from the front.
    """
    f = kernel()
    n = f.load("i64", f.pointer(f.parameter(0)), 0)
    words, out = f.pointer(f.parameter(1)), f.pointer(f.parameter(4))
    with f.loop(0, n) as i:
        f.store(i if type == "i64" else f.convert(i, type, "trunc"), out, i)
    with f.loop(0, n - 1) as i:
        word = f.convert(f.load("i32", words, i), "i64", "zext")
        other = i + word.unsigned_rem(n - i)
        mine, theirs = f.load(type, out, i), f.load(type, out, other)
        f.store(theirs, out, i)
        f.store(mine, out, other)
    return module(f)
