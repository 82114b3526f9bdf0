"""Methods of Tensor beside the functions that do the same: objects of their own, as PyTorch's are, so that programs and modes
tell `torch.Tensor.add` from `torch.add`. Stands on the standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["METHODS", "OPERATORS_AS", "same"]

#: The functions that methods do the same as, by method.
METHODS: dict[Callable, Callable] = {}

#: The methods that Python's operators are to classes and modes of `__torch_function__`; the others come under their own names.
OPERATORS_AS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__pow__": "pow", "__mod__": "remainder", "__neg__": "neg", "__abs__": "abs", "__ne__": "ne", "__gt__": "gt",
    "__ge__": "ge", "__lt__": "lt", "__le__": "le", "__matmul__": "matmul",
}  # fmt: skip


def same(method: Any, function: Any) -> bool:
    """Whether a method of Tensor is a function, or does the same."""
    return METHODS.get(method, method) is function
