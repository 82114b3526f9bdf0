"""Kinds of dtypes, and the classes of Python's numbers that they are. Part of torch._prims_common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau._prims_common.promotion import computation_dtype

__all__ = [
    "can_safe_cast_to", "corresponding_complex_dtype", "corresponding_real_dtype", "dtype_or_default", "dtype_to_type",
    "dtype_to_type_ctor", "get_computation_dtype", "get_dtype", "get_higher_type", "is_boolean_dtype", "is_complex_dtype",
    "is_float_dtype", "is_grad_dtype", "is_integer_dtype", "is_low_precision_dtype", "is_weakly_lesser_type", "number_type",
    "type_to_dtype",
]  # fmt: skip

_COMPLEX_OF = {
    torch.float16: torch.complex32, torch.bfloat16: torch.complex64, torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}  # fmt: skip
_REAL_OF = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
_KINDS = (bool, int, float, complex)
get_computation_dtype = computation_dtype


def is_boolean_dtype(dtype: torch.dtype) -> bool:
    """Whether it is torch.bool."""
    return dtype is torch.bool


def is_float_dtype(dtype: torch.dtype) -> bool:
    """Whether it is a floating point type."""
    return dtype.is_floating_point


def is_complex_dtype(dtype: torch.dtype) -> bool:
    """Whether it is a complex type."""
    return dtype.is_complex


def is_integer_dtype(dtype: torch.dtype) -> bool:
    """Whether it is a type of whole numbers; torch.bool is none."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def is_low_precision_dtype(dtype: torch.dtype) -> bool:
    """Whether it is float16, bfloat16 or complex32."""
    return computation_dtype(dtype) is not dtype


def is_grad_dtype(dtype: torch.dtype) -> bool:
    """Whether tensors of it may require grad."""
    return dtype.is_floating_point or dtype.is_complex


def corresponding_real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type of the parts of a complex type. Raises KeyError for another."""
    return _REAL_OF[dtype]


def corresponding_complex_dtype(dtype: torch.dtype) -> torch.dtype:
    """The complex type that holds a floating point type. Raises KeyError for another."""
    return _COMPLEX_OF[dtype]


def dtype_to_type(dtype: torch.dtype) -> type:
    """The class of Python's numbers for it: bool, int, float or complex."""
    if not isinstance(dtype, torch.dtype):
        raise AssertionError(f"Expected torch.dtype, got {type(dtype)}")
    if dtype is torch.bool:
        return bool
    return complex if dtype.is_complex else float if dtype.is_floating_point else int


def type_to_dtype(typ: type) -> torch.dtype:
    """The dtype of a class of Python's numbers. Raises ValueError for another class."""
    if typ is bool:
        return torch.bool
    if typ is int:
        return torch.int64
    if typ is float:
        return torch.get_default_dtype()
    if typ is complex:
        return corresponding_complex_dtype(torch.get_default_dtype())
    raise ValueError(f"Invalid type {typ}!")


def get_dtype(x: Any) -> torch.dtype:
    """The dtype of a tensor or a number."""
    return x.dtype if isinstance(x, torch.Tensor) else type_to_dtype(type(x))


def get_higher_type(a: type, b: type) -> type:
    """The later of two in the order bool, int, float, complex."""
    if a not in _KINDS or b not in _KINDS:
        raise RuntimeError(f"Expected builtin {_KINDS}, found {a}, {b}")
    return max(a, b, key=_KINDS.index)


def is_weakly_lesser_type(a: type, b: type) -> bool:
    """Whether a comes no later than b in the order bool, int, float, complex."""
    return get_higher_type(a, b) is b


def can_safe_cast_to(*, cast_to: torch.dtype, cast_from: torch.dtype) -> bool:
    """Whether the kind of numbers stays or widens."""
    return is_weakly_lesser_type(dtype_to_type(cast_from), dtype_to_type(cast_to))


def dtype_or_default(dtype: torch.dtype | None) -> torch.dtype:
    """The dtype, or the default one for None."""
    return torch.get_default_dtype() if dtype is None else dtype


def dtype_to_type_ctor(dtype: torch.dtype) -> Callable[[Any], Any]:
    """What makes such a number of another one; symbolic numbers stay symbolic."""
    made = dtype_to_type(dtype)
    return {int: torch.sym_int, float: torch.sym_float}.get(made, made)


def number_type(x: Any) -> type:
    """The class of Python's numbers that a number is of, be it symbolic."""
    return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}.get(type(x), type(x))
