"""How a loss is reduced: the deprecated arguments size_average and reduce in terms of `reduction`."""

from __future__ import annotations

import warnings


def get_enum(reduction: str) -> int:
    """0 for "none", 1 for "mean", 2 for "sum"; ValueError otherwise."""
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
        return 1
    try:
        return ("none", "mean", "sum").index(reduction)
    except ValueError:
        raise ValueError(f"{reduction} is not a valid value for reduction") from None


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction that the two old flags (None means True) stand for."""
    average = size_average is None or size_average
    if reduce is not None and not reduce:
        reduction = "none"
    else:
        reduction = "mean" if average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.", stacklevel=3
        )
    return reduction


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """`get_enum` of `legacy_get_string`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
