"""Classes whose instances are fitted by their attributes. Stands on unification.core."""

from __future__ import annotations

from typing import Any

from flambeau.fx.experimental.unification.core import PARTS, reify, unify

__all__ = ["reify_object", "unifiable", "unify_object"]


def _attributes(o: Any) -> dict[str, Any]:
    if hasattr(o, "__slots__"):
        return {name: getattr(o, name) for name in o.__slots__}
    return dict(o.__dict__)


def _remade(o: Any, attributes: dict[str, Any]) -> Any:
    made = object.__new__(type(o))
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def unifiable(cls: type) -> type:
    """Decorator: unify and reify go into the attributes of the class's instances."""
    PARTS[cls] = (_attributes, _remade)
    return cls


def reify_object(o: Any, s: dict[Any, Any]) -> Any:
    """An object with the variables among its attributes replaced."""
    return _remade(o, reify(_attributes(o), s))


def unify_object(u: Any, v: Any, s: dict[Any, Any]) -> Any:
    """unify of two objects by their attributes; False for different classes."""
    return unify(_attributes(u), _attributes(v), s) if type(u) is type(v) else False
