"""make_tensor: random tensors for tests. Stands on the tensor API."""

from __future__ import annotations

import math
import warnings
from typing import Any

import flambeau as torch
from flambeau.base.dtype import FLOAT8


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of values drawn uniformly from [low, high) (floats: [-9, 9); integers: -9 to 9, unsigned 0 to 9; bool: both).

    noncontiguous: with gaps in its last dimension; exclude_zero: zeros become the smallest positive value.
    Raises ValueError for empty ranges and for requires_grad on integers.
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    floating = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not floating:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}")
    gaps = noncontiguous and math.prod(shape) > 1
    if gaps:
        shape = (*shape[:-1], 2 * shape[-1])
    if dtype is torch.bool:
        default, lowest, highest = (0, 2), 0, 2
    elif floating:
        info = torch.finfo(dtype)
        default, lowest, highest = (-9, 9), info.min, info.max
    else:
        info = torch.iinfo(dtype)
        default, lowest, highest = ((0 if not dtype.is_signed else -9, 10), info.min, info.max + (dtype is not torch.int64))
    low, high = default[0] if low is None else low, default[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low == high and floating:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 "
            "and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
        result = torch.full(shape, low, dtype=dtype, device=device)
    else:
        if low >= high:
            raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
        low, high = max(low, lowest), min(high, highest)
        if low >= high:
            raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
        if dtype.is_complex:
            result = torch.empty(shape, dtype=dtype, device=device)
            _draw(torch.view_as_real(result), low, high)
        elif dtype in FLOAT8:
            result = _draw(torch.empty(shape, device=device), low, high).to(dtype)
        elif floating:
            result = _draw(torch.empty(shape, dtype=dtype, device=device), low, high)
        else:
            result = torch.randint(math.ceil(low), math.ceil(high), shape, dtype=dtype, device=device)
    if gaps:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = torch.finfo(dtype).tiny if floating else 1
    if requires_grad:
        result.requires_grad_(True)
    return result


def _draw(made: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Uniform numbers of [low, high), also where these are further apart than the dtype has numbers."""
    if high - low >= torch.finfo(made.dtype).max:
        return made.uniform_(low / 2, high / 2).mul_(2)
    return made.uniform_(low, high)
