"""Functions as objects of their own that do what another does. Stands on the standard library."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

__all__ = ["twin"]


def twin(function: Any, code: CodeType | None = None, scope: dict[str, Any] | None = None) -> Any:
    """A function with the name, defaults and attributes of another; code, scope: in place of the other's own."""
    own = function.__code__ if code is None else code
    made = FunctionType(
        own, function.__globals__ if scope is None else scope, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    if function.__dict__:
        made.__dict__.update(function.__dict__)
    return made
