"""out_dtype: an operator whose result is of a wider dtype, computed in that dtype."""

from __future__ import annotations

from typing import Any

import flambeau as torch

__all__ = ["out_dtype"]


def out_dtype(op: Any, output_dtype: Any, *args: Any) -> Any:
    """op(*args) with its tensors in output_dtype, such as an int32 product of int8 matrices."""
    return op(*[x.to(output_dtype) if isinstance(x, torch.Tensor) else x for x in args])
