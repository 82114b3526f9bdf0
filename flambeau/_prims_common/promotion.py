"""How the dtypes of arguments make the dtype of computation and of the result.

Stands on base.dtype's rule; used by references.
"""

from __future__ import annotations

import enum
from typing import Any

import flambeau as torch
from flambeau.base.dtype import DIMENSIONED, NUMBER, ZERO_DIM, number_dtype, result_dtype
from flambeau.base.naming import public_module

__all__ = [
    "ELEMENTWISE_TYPE_PROMOTION_KIND", "NUMBERS", "REDUCTION_OUTPUT_TYPE_KIND", "RETURN_TYPE",
    "computation_dtype",
    "elementwise_dtypes", "get_acc_type", "get_higher_dtype", "reduction_dtypes",
]  # fmt: skip

_COMPUTED_IN = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
_ACCUMULATED_IN = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}  # fmt: skip
NUMBERS = (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)


class ELEMENTWISE_TYPE_PROMOTION_KIND(enum.Enum):
    """What an elementwise operator makes of its arguments' common dtype.

    DEFAULT: results have it, and half types are computed in float32; NO_OPMATH: computed in it whatever it is; INT_TO_FLOAT:
    whole numbers become the default floating dtype; ALWAYS_BOOL: results are truth values; COMPLEX_TO_FLOAT: results of
    complex arguments have the dtype of their parts; BOOL_TO_LONG: truth values become int64.
    """

    DEFAULT, NO_OPMATH, INT_TO_FLOAT, ALWAYS_BOOL, COMPLEX_TO_FLOAT, BOOL_TO_LONG = [(number,) for number in range(6)]


class REDUCTION_OUTPUT_TYPE_KIND(enum.Enum):
    """What a reduction's result is of: the argument's dtype, that of its parts, what it was computed in, or truth values."""

    SAME, COMPLEX_TO_FLOAT, KEEP_PROMOTED_TYPE, ALWAYS_BOOL = [(number,) for number in range(4)]


class RETURN_TYPE(enum.Enum):
    """What a primitive operator gives: a fresh tensor, a view of its argument, its argument written to, or nothing."""

    NEW, VIEW, INPLACE, NONE = [(number,) for number in range(4)]


for _kind in (ELEMENTWISE_TYPE_PROMOTION_KIND, REDUCTION_OUTPUT_TYPE_KIND, RETURN_TYPE):
    _kind.__module__ = public_module("_prims_common")


def computation_dtype(dtype: torch.dtype) -> torch.dtype:
    """What is computed in for it: float32 for the half types, complex64 for complex32, else itself."""
    return _COMPUTED_IN.get(dtype, dtype)


def elementwise_dtypes(*_args: Any, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND) -> tuple[torch.dtype, torch.dtype]:
    """(computation, result) for tensors and numbers; None is left out. ValueError for anything else.

    Tensors with dimensions come before those without, those before numbers: a later one only counts by its kind.
    """
    kinds = ELEMENTWISE_TYPE_PROMOTION_KIND
    ranks = []
    for x in _args:
        if isinstance(x, torch.Tensor):
            ranks.append((x.dtype, DIMENSIONED if x.dim() else ZERO_DIM))
        elif isinstance(x, NUMBERS):
            ranks.append((number_dtype(x), NUMBER))
        elif x is not None:
            raise ValueError(f"Unexpected type {type(x)} when computing elementwise type promotion!")
    common = result_dtype(ranks)
    if type_promotion_kind is kinds.NO_OPMATH:
        return common, common
    if type_promotion_kind is kinds.INT_TO_FLOAT and not (common.is_floating_point or common.is_complex):
        common = torch.get_default_dtype()
    if type_promotion_kind is kinds.BOOL_TO_LONG and common is torch.bool:
        common = torch.int64
    computation = computation_dtype(common)
    if type_promotion_kind is kinds.ALWAYS_BOOL:
        return computation, torch.bool
    if type_promotion_kind is kinds.COMPLEX_TO_FLOAT and common.is_complex:
        return computation, common.to_real()
    return computation, common


def reduction_dtypes(
    arg: Any, output_dtype_kind: REDUCTION_OUTPUT_TYPE_KIND, dtype: torch.dtype | None = None
) -> tuple[torch.dtype, torch.dtype | None]:
    """(computation, result) of a reduction of a tensor that is asked for a dtype, or for none; no result's dtype where it is what
    the computation gives.
    """
    kinds = REDUCTION_OUTPUT_TYPE_KIND
    own = arg.dtype if dtype is None else dtype
    computation = computation_dtype(own)
    if output_dtype_kind is kinds.KEEP_PROMOTED_TYPE:
        return computation, None
    if output_dtype_kind is kinds.ALWAYS_BOOL:
        return computation, torch.bool
    if output_dtype_kind is kinds.COMPLEX_TO_FLOAT and own.is_complex:
        return computation, own.to_real()
    return computation, own


def get_acc_type(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """What sums of it are kept in: twice the precision on the CPU, else what is computed in."""
    return _ACCUMULATED_IN.get(dtype, dtype) if device.type == "cpu" else computation_dtype(dtype)


def get_higher_dtype(a: Any, b: Any) -> torch.dtype | None:
    """The dtype that two dtypes, tensors or numbers have in common; the other one's for None."""
    found: list[torch.dtype | None] = []
    for name, x in (("a", a), ("b", b)):
        if isinstance(x, torch.Tensor):
            found.append(x.dtype)
        elif isinstance(x, NUMBERS):
            found.append(number_dtype(x))
        elif x is None or isinstance(x, torch.dtype):
            found.append(x)
        else:
            raise AssertionError(f"{name} must be None, torch.dtype, TensorLike, or Number, got {type(x)}")
    first, second = found
    return second if first is None else first if second is None else torch.promote_types(first, second)
