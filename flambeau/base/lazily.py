"""Rooms whose modules are loaded when they are first used: what few programs need costs others no time at the start."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def submodules(package: str) -> Callable[[str], Any]:
    """The __getattr__ of a package whose attributes are its modules."""
    def load(name: str) -> Any:
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
    return load
