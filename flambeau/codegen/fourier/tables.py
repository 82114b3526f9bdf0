"""Numbers that Fourier transforms look up: the radices of a length, roots of unity for its passes, chirps for other lengths.

A table lives as long as a plan that uses it. Stands on roots; used by program and rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from flambeau.codegen.fourier.radix import FIRST, MOST_ALONG, NARROW, PRIMES, WIDE
from flambeau.codegen.fourier.roots import roots
from flambeau.codegen.fourier.steps import FINE

_tables: WeakValueDictionary[tuple, np.ndarray] = WeakValueDictionary()


@cache
def radices(n: int) -> tuple[int, ...] | None:
    """The radices whose product is n, in the order of their passes; None if n has a prime factor that is none of PRIMES."""
    counts = {}
    for p in PRIMES:
        counts[p] = 0
        while n % p == 0:
            n //= p
            counts[p] += 1
    if n > 1:
        return None
    eights, rest = divmod(counts[2], 3)
    if rest == 1 and eights:
        eights, rest = eights - 1, 4
    powers = [8] * eights + [4] * (rest // 2) + [2] * (rest % 2)
    primes = [p for p in reversed(PRIMES) for _ in range(counts[p]) if p > 2]
    return tuple(powers + primes if eights else primes + powers) or (1,)


@cache
def chirp_length(n: int) -> int:
    """The length of the transforms by which one of n points is computed as a convolution: at least 2 n - 1, of small radices."""
    return min(odd << max(3, math.ceil(math.log2((2 * n - 1) / odd))) for odd in (1, 3, 5, 9, 15, 25))


def split(n: int) -> tuple[int, int]:
    """The two factors of n that are nearest to each other, the larger one first."""
    smaller = next(d for d in range(math.isqrt(n), 0, -1) if n % d == 0)
    return n // smaller, smaller


def _kept(key: tuple, item: str, direction: int, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The table of a key, as pairs of `item`s; conjugated backward."""
    key = (*key, item, direction)
    found = _tables.get(key)
    if found is None:
        values = make()
        values = values if direction > 0 else values.conj()
        found = np.ascontiguousarray(values, np.complex64 if item == "float" else np.complex128)
        _tables[key] = found
    return found


def pass_table(radix: int, m: int, form: str, item: str, direction: int) -> np.ndarray:
    """The factors of a pass: w^(p j) for p < m and 0 < j < radix, w = exp(-2 pi i / (radix m))."""

    def make() -> np.ndarray:
        exponents = np.outer(np.arange(m), np.arange(1, radix))
        return roots(exponents.T if form == FIRST else exponents, radix * m)

    return _kept(("pass", radix, m, form == FIRST), item, direction, make)


def crossing_table(rows: int, columns: int, item: str, direction: int) -> np.ndarray:
    """For each row b, numbers whose products are exp(-2 pi i b c / (rows columns)) for column c: see fourier_steps.crossed."""

    def make() -> np.ndarray:
        fine, coarse = np.arange(FINE), np.arange(0, columns, FINE)
        return roots(np.arange(rows)[:, None] * np.concatenate((fine, coarse)), rows * columns)

    return _kept(("crossing", rows, columns), item, direction, make)


def chirp_table(n: int, item: str, direction: int) -> np.ndarray:
    """exp(-pi i k^2 / n)."""
    return _kept(("chirp", n), item, direction, lambda: roots(np.arange(n) ** 2, 2 * n))


def chirp_spectrum(n: int, size: int, item: str, direction: int) -> np.ndarray:
    """The transform of `size` points of the chirp's conjugate, from -(n - 1) to n - 1 around 0."""

    def make() -> np.ndarray:
        chirp = np.zeros(size, np.complex128)
        chirp[:n] = roots(-(np.arange(n) ** 2), 2 * n)
        chirp[size - n + 1 :] = chirp[n - 1 : 0 : -1]
        return np.fft.fft(chirp)

    # of the conjugated chirp, which is symmetric, it is the conjugate
    return _kept(("spectrum", n, size), item, direction, make)


def folding_table(n: int, item: str, direction: int, back: bool) -> np.ndarray:
    """The factors between real numbers' transform of n points and the complex one of n / 2: -i w^k, or i w^k for the way back."""

    def make() -> np.ndarray:
        return direction * (1j if back else -1j) * roots(np.arange(n // 2 + 1), n)

    return _kept(("folding", n, back), item, direction, make)  # only the root is conjugated backward


def forms(n: int, width: int, lanes: int) -> list[tuple[int, int, int, str]]:
    """(radix, m, positions before it, form) of each pass of `width` transforms of n points side by side."""
    made, before = [], 1
    for radix in radices(n) or ():
        m = n // (before * radix)
        first = before * width == 1 and m >= lanes and radix <= MOST_ALONG
        form = WIDE if before * width >= lanes else FIRST if first else NARROW
        made.append((radix, m, before, form))
        before *= radix
    return made


def nbytes(tables: list[Any]) -> int:
    """Bytes of some tables."""
    return sum(table.nbytes for table in tables)
