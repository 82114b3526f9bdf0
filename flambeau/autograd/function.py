"""`flambeau.autograd.function`: operators whose forward and backward the user writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.autograd.function import BackwardCFunction, Function, FunctionCtx, once_differentiable

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]


class InplaceFunction(Function):
    """A Function that may work in place; kept for programs that subclass it."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """PyTorch's Function over nested containers; programs only test for it."""


def _nested_map(condition: Callable[[Any], bool], fn: Callable[[Any], Any], condition_msg: str | None = None) -> Any:
    """A function that applies `fn` where `condition` holds: to its argument, or in the tuples, lists and dicts of it.

    ValueError for what is neither, nor None.
    """

    def mapped(obj: Any) -> Any:
        if condition(obj):
            return fn(obj)
        if obj is None:
            return None
        if isinstance(obj, (list, tuple)):
            items = [mapped(x) for x in obj]
            return type(obj)(*items) if hasattr(obj, "_fields") else type(obj)(items)
        if isinstance(obj, dict):
            return {key: mapped(x) for key, x in obj.items()}
        accepted = f". Accepted types: {condition_msg}, or lists/tuples of them" if condition_msg else ""
        kind = type(obj)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        raise ValueError(f"Auto nesting doesn't know how to process an input object of type {name}{accepted}")

    return mapped
