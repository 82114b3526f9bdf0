"""The table of translations: by the name of an operator of aten, or of one overload, the function that writes its nodes.

A translation gets a Builder and the arguments of the operator, tensors as Values, sizes that are known when the model runs as
Sizes, and gives a Value, a tuple of them, or None for what a model has no use of.
Used by `_translate` and filled by translations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["TRANSLATIONS", "find", "translation"]

_F = TypeVar("_F", bound=Callable[..., Any])

#: By the name behind "aten.", or "domain::name" for other operators, with or without the overload: "max", "max.dim".
TRANSLATIONS: dict[str, Callable[..., Any]] = {}


def translation(*names: str) -> Callable[[_F], _F]:
    """Decorate the translation of operators."""

    def keep(function: _F) -> _F:
        for name in names:
            if name in TRANSLATIONS:
                raise ValueError(f"{name} has a translation")
            TRANSLATIONS[name] = function
        return function

    return keep


def find(namespace: str, name: str, overload: str) -> Callable[..., Any] | None:
    """The translation of an operator, None without one. An operator in place has that of the one that makes a new tensor."""
    prefix = "" if namespace == "aten" else f"{namespace}::"
    names = [name]
    if name.endswith("_") and not name.endswith("__"):
        names.append(name[:-1])
    for each in names:
        found = TRANSLATIONS.get(f"{prefix}{each}.{overload}") or TRANSLATIONS.get(prefix + each)
        if found is not None:
            return found
    return None
