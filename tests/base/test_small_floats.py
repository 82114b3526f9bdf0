"""Arrays of bfloat16 and float8 bits: every code's value, rounding, and what has no code."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flambeau.base.dtype import FLOAT8, bfloat16, by_name, finfo
from flambeau.base.small_floats import from_bits, to_bits

CODES = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize("dtype", sorted(FLOAT8, key=str), ids=str)
def test_every_value_is_its_own_rounding(dtype) -> None:
    values = from_bits(CODES, dtype)
    back = to_bits(values, dtype)
    is_number = ~np.isnan(values)
    assert (back[is_number] == CODES[is_number]).all()
    assert np.isnan(from_bits(back, dtype)[~is_number]).all()
    finite = values[np.isfinite(values)]
    assert finite.max() == finfo(dtype).max and finite.min() == finfo(dtype).min


@pytest.mark.parametrize("dtype", sorted(FLOAT8 - {by_name("float8_e8m0fnu")}, key=str), ids=str)
def test_between_two_values_the_nearest_is_taken_and_of_two_the_even_code(dtype) -> None:
    values = from_bits(CODES[:0x7C], dtype).astype(np.float64)  # from zero up, through the subnormal ones
    middle = (values[1:] + values[:-1]) / 2
    even = np.where(CODES[:0x7B] % 2 == 0, CODES[:0x7B], CODES[1:0x7C])
    assert (to_bits(middle, dtype) == even).all()
    assert (to_bits(np.nextafter(middle.astype(np.float32), np.float32(0)), dtype) == CODES[:0x7B]).all()
    assert (to_bits(np.nextafter(middle.astype(np.float32), np.float32(np.inf)), dtype) == CODES[1:0x7C]).all()


@pytest.mark.parametrize(
    ("name", "codes"),
    [  # of 1e30, -1e30, infinity, -infinity, NaN, -0, -1e-30
        ("float8_e4m3fn", [0x7E, 0xFE, 0x7E, 0xFE, 0x7F, 0x80, 0x80]),
        ("float8_e5m2", [0x7C, 0xFC, 0x7C, 0xFC, 0x7F, 0x80, 0x80]),
        ("float8_e4m3fnuz", [0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00]),
        ("float8_e5m2fnuz", [0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00]),
        ("float8_e8m0fnu", [0xE3, 0xE3, 0xFF, 0xFF, 0xFF, 0x00, 0x1B]),
    ],
)
def test_numbers_out_of_range(name: str, codes: list[int]) -> None:
    given = [1e30, -1e30, math.inf, -math.inf, math.nan, -0.0, -1e-30]
    assert to_bits(given, by_name(name)).tolist() == codes


def test_bfloat16_rounds_to_even_and_keeps_nan() -> None:
    bits = to_bits([1.0, 1.00390625, 1.01171875, math.nan, -math.inf], bfloat16)
    assert bits.tolist() == [0x3F80, 0x3F80, 0x3F82, 0x7FC0, 0xFF80]
    assert from_bits(bits[:3], bfloat16).tolist() == [1.0, 1.0, 1.015625]
