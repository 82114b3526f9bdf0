"""torch._C.ScriptList and ScriptDict: lists and dicts of one type of items, which programs are handed themselves, not copies of.

Stands on the types and on ir.inference; torch.jit.script makes them of lists and dicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

from flambeau.base.naming import PACKAGE
from flambeau.dispatcher.schema_types import DictType, ListType, Refused, TensorType, Type
from flambeau.jit.execution.exceptions import Error
from flambeau.jit.ir.inference import inferred_type

__all__ = ["ScriptDict", "ScriptList", "container"]


def container(obj: list[Any] | dict[Any, Any]) -> ScriptList | ScriptDict:
    """A list or dict that programs change in place. torch.jit.Error where its items are of several types."""
    if isinstance(obj, (ScriptList, ScriptDict)):
        return obj
    default: Type = ListType(TensorType()) if isinstance(obj, list) else DictType(TensorType(), TensorType())
    found = inferred_type(obj) if obj else None
    if found is not None and not found.success():
        what = "list" if isinstance(obj, list) else "dictionary"
        raise Error(f"Unable to infer type of {what}: {found.reason()}")
    kind = default if found is None else found.type()
    return ScriptList(kind, obj) if isinstance(obj, list) else ScriptDict(kind, obj)


def _taken(kind: Type, value: Any) -> Any:
    try:
        return kind.take(value)
    except Refused as reason:
        raise TypeError(str(reason)) from None


class ScriptList(list):  # type: ignore[type-arg]
    """A list whose items are of one type: TypeError for others."""

    __module__ = PACKAGE

    def __init__(self, kind: ListType, items: Iterable[Any] = ()) -> None:
        self.kind = kind
        super().__init__(_taken(kind.element, x) for x in items)

    def append(self, value: Any) -> None:
        """One more item at the end."""
        super().append(_taken(self.kind.element, value))

    def insert(self, index: SupportsIndex, value: Any) -> None:
        """One more item in front of that of an index."""
        super().insert(index, _taken(self.kind.element, value))

    def extend(self, values: Iterable[Any]) -> None:
        """More items at the end."""
        super().extend(_taken(self.kind.element, value) for value in values)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            super().__setitem__(index, [_taken(self.kind.element, x) for x in value])
        else:
            super().__setitem__(index, _taken(self.kind.element, value))

    def __reduce__(self) -> Any:
        return list, (list(self),)


class ScriptDict(dict):  # type: ignore[type-arg]
    """A dict whose keys and values are of one type each: TypeError for others."""

    __module__ = PACKAGE

    def __init__(self, kind: DictType, items: dict[Any, Any]) -> None:
        self.kind = kind
        super().__init__()
        for key, value in items.items():
            self[key] = value

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_taken(self.kind.key, key), _taken(self.kind.value, value))

    def __reduce__(self) -> Any:
        return dict, (dict(self),)
