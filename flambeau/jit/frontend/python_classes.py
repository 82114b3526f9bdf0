"""Classes of Python as classes of programs.

Stands on python_source and the emitter; used by classes.
"""

from __future__ import annotations

from typing import Any

from flambeau.jit.ir.source import SourceRange
from flambeau.jit.ir.types import ClassType

__all__ = ["class_type"]


def class_type(cls: Any, where: SourceRange | None = None) -> ClassType | None:
    """The type of a Python class, compiled if it hasn't been; None for one that can't be."""
    return None
