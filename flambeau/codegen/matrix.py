"""Operands of the contraction template: where a matrix lies, and its address in a kernel.

Stands on gemm_micro.py; used by gemm.py and gemm_dot.py.
"""

from __future__ import annotations

from typing import NamedTuple

from flambeau.codegen.builder import Value
from flambeau.codegen.gemm_micro import Kernel

SERIAL_WORK = 48 * 1024  # multiply-adds below which waking another thread costs more than it saves

#: What a product's kernels are told of their operands: the inner batch, slots, first elements and strides, and the factors.
OPERANDS = tuple("""
    batch1 a_slot a_offset a0 a1 a_row a_step b_slot b_offset b0 b1 b_step b_column
    c_slot c_offset c0 c1 c_row c_column d_slot d_offset d0 d1 d_row d_column alpha beta""".split())


class Matrix(NamedTuple):
    """An operand: its buffer slot, strides in elements along (outer batch, inner batch, rows, columns), and first element."""

    slot: int
    strides: tuple[int, int, int, int]
    offset: int = 0

    @property
    def transposed(self) -> Matrix:
        s = self.strides
        return Matrix(self.slot, (s[0], s[1], s[3], s[2]), self.offset)

    @property
    def words(self) -> tuple[int, ...]:
        return (self.slot, self.offset, *self.strides)

    def moved(self, axis: int, steps: int) -> Matrix:
        """The same matrix from `steps` further along an axis (0 outer batch, 1 inner batch, 2 rows, 3 columns)."""
        return self._replace(offset=self.offset + self.strides[axis] * steps)


def base_address(f: Kernel, c: dict[str, Value], letter: str, item: str, outer: Value, inner: Value) -> Value:
    return f.at(
        item, f.slot(c[letter + "_slot"]), c[letter + "_offset"] + outer * c[letter + "0"] + inner * c[letter + "1"]
    )
