"""Methods of Tensor beside the functions that do the same: objects of their own, as PyTorch's are, so that programs and modes tell
`torch.Tensor.add` from `torch.add`. Stands on the standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

__all__ = ["METHODS", "method_of", "same"]

#: The functions that methods do the same as, by method.
METHODS: dict[Callable, Callable] = {}


def method_of(name: str, function: Any, code: CodeType) -> Any:
    """The method `Tensor.<name>` that does what a function does; code: the function's own."""
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__qualname__ = f"Tensor.{name}"
    made.__kwdefaults__, made.__module__, made.__doc__ = function.__kwdefaults__, function.__module__, function.__doc__
    made.__annotations__ = function.__annotations__
    made.__dict__ = function.__dict__       # what is said of the one later is said of both
    METHODS[made] = function
    return made


def same(method: Any, function: Any) -> bool:
    """Whether a method of Tensor is a function, or does the same."""
    return METHODS.get(method, method) is function
