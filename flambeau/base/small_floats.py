"""Formats that NumPy lacks, bfloat16, the float8 family and complex32: their layout of bits, and arrays to and from values.

A float8 element is a sign bit, an exponent and a mantissa (OCP 8-bit Floating Point Specification 1.0; the "fnuz" forms have one
zero and one NaN, as in Noune et al., "8-bit Numerical Formats for Deep Neural Networks", 2022); float8_e8m0fnu is an exponent
alone; a complex32 element is two of float16. Values are rounded to nearest, ties to even. Stands on base.dtype. Tensors are made
and printed by these functions; kernels convert by codegen.small_floats, from the same table.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from flambeau.base.dtype import (
    FLOAT8,
    bfloat16,
    complex32,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
)
from flambeau.base.dtype import dtype as DType


@dataclass(frozen=True)
class Float8:
    """Where the bits of an element lie, without its sign: `mantissa` bits behind an exponent whose zero is `bias`.

    largest: the code of the largest finite value. beyond: the code of what is too large for it (`largest` saturates). nan: the
    code of NaN. infinite: whether the code above `largest` is infinity. signed_zero: whether -0 exists; without it the code 0x80
    is NaN.
    """

    mantissa: int
    bias: int
    largest: int
    beyond: int
    nan: int
    infinite: bool = False
    signed_zero: bool = True

    @property
    def smallest_normal(self) -> float:
        """The least value with a full mantissa."""
        return 2.0 ** (1 - self.bias)

    @property
    def step(self) -> float:
        """The distance of the values below `smallest_normal`."""
        return 2.0 ** (1 - self.bias - self.mantissa)


#: The formats that have a mantissa; float8_e8m0fnu has none.
FORMATS: dict[DType, Float8] = {
    float8_e4m3fn: Float8(3, 7, largest=0x7E, beyond=0x7E, nan=0x7F),
    float8_e5m2: Float8(2, 15, largest=0x7B, beyond=0x7C, nan=0x7F, infinite=True),
    float8_e4m3fnuz: Float8(3, 8, largest=0x7F, beyond=0x80, nan=0x80, signed_zero=False),
    float8_e5m2fnuz: Float8(2, 16, largest=0x7F, beyond=0x80, nan=0x80, signed_zero=False),
}
#: The dtypes whose arrays hold bits that NumPy can't read.
AS_BITS = frozenset((*FLOAT8, bfloat16, complex32))


def from_bits(bits: np.ndarray, dtype: DType) -> np.ndarray:
    """The values, float32 or complex64, of an array of bits (uint16 of bfloat16, uint8 of float8, uint32 of complex32)."""
    if dtype is complex32:
        parts = np.ascontiguousarray(bits).view(np.float16).astype(np.float32)
        return parts.view(np.complex64).reshape(bits.shape)
    if dtype is bfloat16:
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return _values_of(dtype)[bits]


@functools.cache
def _values_of(dtype: DType) -> np.ndarray:
    """The values of the 256 codes."""
    codes = np.arange(256)
    if dtype is float8_e8m0fnu:
        values = np.ldexp(1.0, codes - 127)
        values[255] = np.nan
        return values.astype(np.float32)
    form = FORMATS[dtype]
    size = codes & 0x7F
    exponent, mantissa = size >> form.mantissa, size & ((1 << form.mantissa) - 1)
    normal = np.ldexp(1.0 + mantissa / (1 << form.mantissa), exponent - form.bias)
    values = np.where(exponent == 0, mantissa * form.step, normal)
    values[size > form.largest] = np.nan
    if form.infinite:
        values[size == form.largest + 1] = np.inf
    values = np.where(codes & 0x80, -values, values)
    if not form.signed_zero:
        values[0x80] = np.nan
    return values.astype(np.float32)


def to_bits(values: Any, dtype: DType) -> np.ndarray:
    """The bits of float values (of complex32: complex ones), rounded to nearest even."""
    if dtype is complex32:
        numbers = np.asarray(values, np.complex64)
        with np.errstate(over="ignore"):
            halves = np.ascontiguousarray(numbers).view(np.float32).astype(np.float16)
        return halves.view(np.uint32).reshape(numbers.shape)
    array = np.asarray(values, np.float32, order="C")
    bits = array.view(np.uint32)
    if dtype is bfloat16:
        wide = bits.astype(np.uint64)
        rounded = ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(array), np.uint16(0x7FC0), rounded)
    size = (bits & 0x7FFFFFFF).astype(np.int64)
    if dtype is float8_e8m0fnu:
        exponent, rest = size >> 23, size & 0x7FFFFF
        up = (rest > 0x400000) | ((rest == 0x400000) & (exponent > 0))
        return np.where(size >= 0x7F800000, 0xFF, exponent + up).astype(np.uint8)
    form = FORMATS[dtype]
    cut = 23 - form.mantissa
    with np.errstate(over="ignore", invalid="ignore"):
        small = np.rint(np.abs(array) / np.float32(form.step))
    normal = ((size + ((size >> cut) & 1) + (1 << (cut - 1)) - 1) >> cut) - ((127 - form.bias) << form.mantissa)
    code = np.where(np.abs(array) < form.smallest_normal, np.nan_to_num(small, posinf=0), normal).astype(np.int64)
    code = np.where(code > form.largest, form.beyond, code)
    code = np.where(np.isnan(array), form.nan, code)
    sign = (bits >> 24) & 0x80
    return (code | (sign if form.signed_zero else np.where(code == 0, 0, sign))).astype(np.uint8)
