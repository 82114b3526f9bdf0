"""torch.quasirandom: points that fill the unit cube evenly, by Sobol's sequence.

Stands on direction_numbers and the tensor API. A point is the exclusive or of the direction numbers at the set bits of the Gray
code of its place in the sequence (Antonov and Saleev, 1979), so all points of a draw are made at once, bit by bit.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.quasirandom.direction_numbers import BITS, DIMENSIONS, direction_numbers

__all__ = ["SobolEngine"]


class SobolEngine:
    """Draws the points of a Sobol sequence in [0, 1), of one dimension up to 21,201, one after the other.

    scramble: shift and mix the digits by random bits (Owen, "Scrambling Sobol and Niederreiter-Xing points", J. of Complexity 14,
    1998; Matousek's linear form), from `seed`, or from the global generator. ValueError for other dimensions.
    """

    MAXBIT = BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        cpu = torch.device("cpu")
        self.sobolstate = torch.from_numpy(direction_numbers(dimension)).to(cpu)
        self.shift = torch.zeros(dimension, device=cpu, dtype=torch.long)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Any = None, dtype: torch.dtype | None = None) -> torch.Tensor:
        """The next n points: (n, dimension), of the default dtype unless told otherwise."""
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if self.num_generated == 0:
            made = self._first_point.to(dtype)
            if n != 1:
                made = torch.cat((made, self._next(n - 1, dtype)), dim=-2)
        else:
            made = self._next(n, dtype)
        self.num_generated += n
        if out is None:
            return made
        return out.resize_as_(made).copy_(made)

    def draw_base2(self, m: int, out: Any = None, dtype: torch.dtype | None = None) -> torch.Tensor:
        """The next 2**m points. ValueError where the number of points drawn so far would be no power of two then."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1) != 0:
            raise ValueError(
                "The balance properties of Sobol' points require "
                f"n to be a power of 2. {self.num_generated} points have been "
                f"previously generated, then: n={self.num_generated}+2**{m}={total}. "
                "If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Begin the sequence again. Returns the engine."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next n points. Returns the engine."""
        steps = n - 1 if self.num_generated == 0 else n
        if steps > 0:
            self.quasi = self._points(torch.tensor([self._place() + steps]))[0]
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        told = [f"dimension={self.dimension}"]
        if self.scramble:
            told += ["scramble=True"]
        if self.seed is not None:
            told += [f"seed={self.seed}"]
        return f"{type(self).__name__}({', '.join(told)})"

    def _place(self) -> int:
        """The place in the sequence of the point in `quasi`."""
        return max(self.num_generated - 1, 0)

    def _next(self, n: int, dtype: torch.dtype) -> torch.Tensor:
        """The n points behind the one in `quasi`, which the last of them becomes."""
        if dtype not in (torch.float32, torch.float64):
            raise NotImplementedError(f"\"_sobol_engine_draw\" not implemented for '{dtype.scalar_name}'")
        first = self._place() + 1
        points = self._points(torch.arange(first, first + n))
        if n > 0:
            self.quasi = points[-1].clone()
        return (points.to(torch.float64) * 2.0**-self.MAXBIT).to(dtype)

    def _points(self, places: torch.Tensor) -> torch.Tensor:
        """The points at these places, (count, dimension) of int64, counted from the one in `quasi`."""
        place = self._place()
        gray = (places ^ (places >> 1)) ^ (place ^ (place >> 1))
        points = self.quasi.expand(len(places), self.dimension)
        for bit in range(max(gray.tolist(), default=0).bit_length()):
            points = points ^ (-((gray >> bit) & 1).unsqueeze(1) & self.sobolstate[:, bit])
        return points

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = torch.Generator()
            generator.manual_seed(self.seed)
        cpu, bits = torch.device("cpu"), self.MAXBIT
        powers = torch.pow(2, torch.arange(0, bits, device=cpu))
        self.shift = torch.mv(torch.randint(2, (self.dimension, bits), device=cpu, generator=generator), powers)
        lower = torch.randint(2, (self.dimension, bits, bits), device=cpu, generator=generator).tril()
        lower.diagonal(0, -2, -1).fill_(1)
        rows = (lower * powers.flip(0)).sum(-1)  # row p as a number, its first column the highest bit
        mixed = torch.zeros_like(self.sobolstate)
        for p in range(bits):  # digit p of a number becomes the parity of the digits that row p chooses
            mixed |= _parity(self.sobolstate & rows[:, p : p + 1]) << (bits - 1 - p)
        self.sobolstate = mixed


def _parity(x: torch.Tensor) -> torch.Tensor:
    """Whether an odd number of the lowest 32 bits is set, 0 or 1."""
    for shift in (16, 8, 4, 2, 1):
        x = x ^ (x >> shift)
    return x & 1
