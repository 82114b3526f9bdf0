"""The direction numbers of Sobol sequences in up to 21,201 dimensions, from the table of Joe and Kuo.

S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections", SIAM J. Sci. Comput. 30 (2008): for
each dimension a primitive polynomial over GF(2) and the first numbers, from which a recurrence makes the others. The table is
their new-joe-kuo-6.21201 (direction_numbers.LICENSE.txt), written by tools/make_direction_numbers.py. Stands on NumPy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

DIMENSIONS = 21201
BITS = 30


def direction_numbers(dimension: int) -> np.ndarray:
    """(dimension, 30) of int64: number j of a dimension, of which bit 29 - j is the last that is set."""
    with np.load(Path(__file__).with_name("direction_numbers.npz")) as table:
        polynomials, packed = table["polynomials"][:dimension].astype(np.int64), table["numbers"]
    degrees = np.maximum(1, np.frexp(polynomials)[1] - 1)
    lengths = degrees * (degrees - 1) // 2  # bits of a dimension's initial numbers: 0 + 1 + ... + (degree - 1)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    bits = np.unpackbits(packed, count=int(starts[-1])).astype(np.int64)
    numbers = np.ones((dimension, BITS), np.int64)
    for degree in np.unique(degrees):
        own = np.flatnonzero(degrees == degree)
        for k in range(1, degree):  # number k has k bits in front of its last one, which is set
            first = starts[own] + k * (k - 1) // 2
            value = np.zeros(len(own), np.int64)
            for j in range(k):
                value = 2 * value + bits[first + j]
            numbers[own, k] = 2 * value + 1
        for j in range(degree, BITS):
            made = numbers[own, j - degree]
            for k in range(degree):
                taken = (polynomials[own] >> (degree - 1 - k)) & 1
                made = made ^ np.where(taken, numbers[own, j - k - 1] << (k + 1), 0)
            numbers[own, j] = made
    numbers[0] = 1  # the first dimension is van der Corput's sequence
    return numbers << np.arange(BITS - 1, -1, -1)
