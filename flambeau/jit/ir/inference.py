"""The type that TorchScript gives a Python value, or why it gives none: torch._C._jit_try_infer_type.

Stands on ir.constants and the types of schemas.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.dispatcher.schema_types import DictType, ListType, NoneType, OptionalType, TupleType, Type
from flambeau.jit.ir.constants import type_of_value

__all__ = ["InferredType", "inferred_type"]

_ONLY = (
    "Only tensors and (possibly nested) tuples of tensors, lists, or dicts are supported as inputs or outputs of traced "
    "functions, but instead got value of type {}."
)


class InferredType:
    """A type, or the reason why there is none."""

    def __init__(self, found: Type | str) -> None:
        self._found = found

    def success(self) -> bool:
        """Whether there is a type."""
        return not isinstance(self._found, str)

    def type(self) -> Type:
        """The type. RuntimeError without one."""
        if isinstance(self._found, str):
            raise RuntimeError("Tried to get the type from an InferredType but the type is null.")
        return self._found

    def reason(self) -> str:
        """Why there is none."""
        return self._found if isinstance(self._found, str) else ""


def inferred_type(value: Any) -> InferredType:
    """The type of a value, as an InferredType."""
    return InferredType(_found(value))


def _found(value: Any) -> Type | str:
    if isinstance(value, torch.nn.Module):
        return "Cannot infer concrete type of torch.nn.Module"
    if isinstance(value, tuple):
        kinds = [_found(item) for item in value]
        return next((kind for kind in kinds if isinstance(kind, str)), None) or TupleType(kinds)  # type: ignore[arg-type]
    if isinstance(value, list):
        if not value:
            return "List trace inputs must have elements"
        if isinstance(first := _found(value[0]), str):
            return f"Could not infer type of list element: {first}"
        kind = _common([_found(item) for item in value], "List inputs to traced functions must have consistent element type")
        return kind if isinstance(kind, str) else ListType(kind)
    if isinstance(value, dict):
        if not value:
            return "Dictionary inputs must have entries"
        key = _common([_found(k) for k in value], "Dictionary inputs to traced functions must have consistent type")
        item = _common([_found(v) for v in value.values()], "Dictionary inputs to traced functions must have consistent type")
        return key if isinstance(key, str) else item if isinstance(item, str) else DictType(key, item)
    if isinstance(value, torch.memory_format):
        return _ONLY.format("torch.memory_format")
    return type_of_value(value) or _ONLY.format(type(value).__name__)


def _common(kinds: list[Type | str], words: str) -> Type | str:
    """The type of all items, which may be None besides."""
    for kind in kinds:
        if isinstance(kind, str):
            return kind
    others = [kind for kind in kinds if not isinstance(kind, NoneType)]
    for kind in others:
        if kind != others[0]:
            return f"{words}. Found {others[0]} and {kind}"
    if len(others) == len(kinds) or not others:
        return kinds[0]
    return OptionalType(others[0])  # type: ignore[arg-type]
