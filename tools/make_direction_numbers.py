"""Write flambeau/quasirandom/direction_numbers.npz from the table of Joe and Kuo.

    python tools/make_direction_numbers.py new-joe-kuo-6.21201      the text file of https://web.maths.unsw.edu.au/~fkuo/sobol/
                                                                    (or scipy's _sobol_direction_numbers.npz, which has the same)

A polynomial is a number whose bits are its coefficients. The k-th initial number of a dimension is odd and has k bits, so without
its last bit it is kept in k - 1: "numbers" holds those of all dimensions one after the other, in one row of bits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

TABLE = Path(__file__).resolve().parent.parent / "flambeau" / "quasirandom" / "direction_numbers.npz"


def read(path: Path) -> tuple[list[int], list[list[int]]]:
    """(polynomials, initial numbers) of all dimensions."""
    if path.suffix == ".npz":
        with np.load(path) as table:
            polynomials = table["poly"].tolist()
            return polynomials, [row[: max(1, p.bit_length() - 1)] for p, row in zip(polynomials, table["vinit"].tolist())]
    polynomials, numbers = [1], [[1]]
    for line in path.read_text().splitlines()[1:]:
        _, degree, inner, *initial = map(int, line.split())
        polynomials.append((1 << degree) | (inner << 1) | 1)
        numbers.append(initial)
    return polynomials, numbers


def main() -> None:
    polynomials, numbers = read(Path(sys.argv[1]))
    bits = [(n >> (k - j - 1)) & 1 for row in numbers for k, n in enumerate(row, 1) for j in range(k - 1)]
    np.savez_compressed(TABLE, polynomials=np.array(polynomials, np.uint32), numbers=np.packbits(np.array(bits, np.uint8)))
    print(f"{TABLE}: {len(polynomials)} dimensions, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
