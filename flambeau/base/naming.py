"""What this process calls the package: flambeau, or torch where it was loaded under that name (flambeau_torch).

Classes and functions bear the names that PyTorch gives them, below the package's: so they print, and so pickles find them.
Most do by where they are defined; the others say so. Stands on nothing; used wherever a name is given that doesn't follow
from the file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
PACKAGE = __name__.partition(".")[0]


def public_module(name: str) -> str:
    """What this process calls the module that programs know as `torch.<name>`."""
    return f"{PACKAGE}.{name}" if name else PACKAGE


def named(name: str) -> Callable[[T], T]:
    """Decorate a function that stands in its file under another name than programs know it by."""

    def mark(thing: T) -> T:
        thing.__name__ = thing.__qualname__ = name  # type: ignore[attr-defined]
        return thing

    return mark


def called(module: str, name: str) -> Callable[[T], T]:
    """Decorate a function or class that programs and pickles know as `torch.<module>.<name>`."""

    def mark(thing: T) -> T:
        _homes[thing] = thing.__module__, thing.__qualname__  # type: ignore[attr-defined, index]
        thing.__module__, thing.__qualname__ = public_module(module), name  # type: ignore[attr-defined]
        return thing

    return mark


_homes: dict[Any, tuple[str, str]] = {}


def findable(thing: T) -> T:
    """A thing that was `called`, for a pickle, which looks for it by its name: under that of the place where it is defined, if
    another package's module stands where it would be looked for."""
    module = sys.modules.get(thing.__module__)
    if module is not None and getattr(module, thing.__qualname__, thing) is not thing:  # type: ignore[attr-defined]
        thing.__module__, thing.__qualname__ = _homes[thing]  # type: ignore[attr-defined]
    return thing


def adopt(module: dict[str, Any], names: Iterable[str]) -> None:
    """A module gathers functions and classes from files beside it: they are called by its name. `module` is its globals().

    What is public in the package's own namespace keeps that name.
    """
    own, everything = module["__name__"], vars(sys.modules[PACKAGE])
    for name in names:
        thing = module[name]
        home = getattr(thing, "__module__", None) or ""
        if home.startswith(f"{PACKAGE}.") or (home == PACKAGE and everything.get(thing.__name__) is not thing):
            thing.__module__, thing.__qualname__ = own, name
