"""The rules of Python's import that importers of packages follow: names that are relative to a package, and their errors."""

from __future__ import annotations

from typing import Any

__all__ = ["calculated_package", "checked_name", "resolved_name"]


def resolved_name(name: str, package: str, level: int) -> str:
    """The absolute name of one that is relative to a package. ImportError where it leads out of the package."""
    parts = package.rsplit(".", level - 1)
    if len(parts) < level:
        raise ImportError("attempted relative import beyond top-level package")
    return f"{parts[0]}.{name}" if name else parts[0]


def checked_name(name: Any, package: Any, level: int) -> None:
    """TypeError, ImportError or ValueError for arguments of an import that are wrong."""
    if not isinstance(name, str):
        raise TypeError(f"module name must be str, not {type(name)}")
    if level < 0:
        raise ValueError("level must be >= 0")
    if level > 0:
        if not isinstance(package, str):
            raise TypeError("__package__ not set to a string")
        if not package:
            raise ImportError("attempted relative import with no known parent package")
    if not name and level == 0:
        raise ValueError("Empty module name")


def calculated_package(globals: dict[str, Any]) -> str:
    """The package that a module with these globals is in."""
    package = globals.get("__package__")
    if package is not None:
        return package
    name = globals["__name__"]
    return name if "__path__" in globals else name.rpartition(".")[0]
