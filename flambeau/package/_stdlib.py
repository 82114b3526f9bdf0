"""Which modules are of Python's standard library."""

from __future__ import annotations

import sys

__all__ = ["is_stdlib_module"]


def is_stdlib_module(module: str) -> bool:
    """Whether a module, or the package that it is in, is of the standard library of the Python that runs."""
    return module.partition(".")[0] in sys.stdlib_module_names
