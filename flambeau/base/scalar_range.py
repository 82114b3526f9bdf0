"""Which Python numbers are elements of a dtype: PyTorch refuses to write one that would overflow.

Stands on base.dtype; used where a number is made an element (fills, masked fills, padding, ranges).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import FLOAT8, bool_, finfo, float8_e5m2, float8_e8m0fnu, float64, iinfo, int64
from flambeau.base.dtype import dtype as DType

NAMES = {
    "int32": "int", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    **{dtype.name: f"c10::{dtype.scalar_name}" for dtype in FLOAT8},
}  # fmt: skip


@functools.cache
def _limits(dtype: DType) -> tuple[float, float]:
    """(least, greatest) element of a real dtype."""
    limits = finfo(dtype) if dtype.is_floating_point else iinfo(dtype)
    return 0 if dtype is float8_e8m0fnu else limits.min, limits.max  # which has no zero, but takes its least number for it


def fits(value: Any, dtype: DType) -> bool:
    """Whether an int, float, bool or complex number can be an element of a dtype.

    As in PyTorch every number can be a bool, infinity and NaN only floating-point numbers (infinity only of a dtype that has
    it), and an unsigned integer wraps around once below zero.
    """
    if isinstance(value, complex):
        return dtype is bool_ or (
            fits(value.real, dtype.to_real()) and fits(value.imag, dtype.to_real())
            if dtype.is_complex
            else value.imag == 0 and fits(value.real, dtype)
        )
    if dtype is bool_ or isinstance(value, bool):
        return True
    if dtype.is_complex:
        dtype = dtype.to_real()
    if isinstance(value, float) and not math.isfinite(value):
        return dtype.is_floating_point and (math.isnan(value) or dtype not in FLOAT8 or dtype is float8_e5m2)
    least, greatest = _limits(dtype)
    if isinstance(value, int) and not least:
        least = -greatest
    return least <= value <= greatest


def always_fits(kind: type, dtype: DType) -> bool:
    """Whether every number of a class can be an element, or so nearly all of them that it isn't asked where time matters."""
    return (
        dtype is bool_
        or kind is bool
        or (dtype.is_floating_point and dtype.itemsize > 2 and kind is not complex)
        or (kind is int and dtype is int64)
        or (dtype.is_complex and dtype.to_real() is float64)
    )


def c_name(dtype: DType) -> str:
    """What errors about elements call a dtype."""
    return NAMES.get(dtype.name, dtype.name + "_t")


def check(value: Any, dtype: DType) -> None:
    """RuntimeError unless a number can be an element of a dtype; OverflowError for an int that 64 bits don't hold."""
    if value.__class__ is int and not -1 << 63 <= value < 1 << 64:
        raise OverflowError("int too big to convert" if value > 0 else "can't convert negative int to unsigned")
    if not fits(value, dtype):
        raise RuntimeError(f"value cannot be converted to type {c_name(dtype)} without overflow")


def refusing(launch: Callable, places: Sequence[tuple[int, DType]]) -> Callable:
    """A launcher that refuses, as `check` does, numbers that are no elements of a dtype: (position in its arguments, dtype)."""
    limits = [(at, dtype, *_limits(dtype)) for at, dtype in places]

    def checked(*arguments: Any) -> Any:
        for at, dtype, least, greatest in limits:
            value = arguments[at]
            if value.__class__ is complex or not least <= value <= greatest:
                check(value, dtype)
        return launch(*arguments)

    return checked


def as_element(value: Any, dtype: DType) -> Any:
    """A number as kernels take it that write elements of `dtype`: real where those are, and an int of 64 bits with a sign.
    Raises as `check` does.
    """
    check(value, dtype)
    if value.__class__ is complex and not dtype.is_complex:
        return value != 0 if dtype is bool_ else value.real
    if value.__class__ is int and value >= 1 << 63:
        return True if dtype is bool_ else float(value) if dtype.is_floating_point or dtype.is_complex else value - (1 << 64)
    return value
