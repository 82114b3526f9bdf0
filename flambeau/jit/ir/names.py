"""Qualified names: what a Python function or class is called in a program, `__torch__.module.Class`.

Stands on the standard library; used wherever a program names something of Python's.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from flambeau.base.naming import PACKAGE

__all__ = ["function_name_of", "mangled", "qualified_name_of"]


def qualified_name_of(obj: Any) -> str:
    """The name of a function or class with its module: `__torch__.M` in the main program, `__torch__.package.module.M` else.

    Raises RuntimeError for what has no name or module.
    """
    name = getattr(obj, "_jit_override_qualname", None)
    if name is not None:
        return str(name)
    name = getattr(obj, "__name__", None)
    if name is None:
        raise RuntimeError(f"Could not get name of python class object {obj}")
    if name == "<lambda>":
        name = "_lambda"
    module = getattr(obj, "__module__", None)
    if module is None:
        raise RuntimeError(f"Could not get qualified name for class '{name}': __module__ can't be None.")
    if module == PACKAGE or module.startswith(PACKAGE + "."):
        module = "torch" + module[len(PACKAGE) :]
    if module == "__main__":
        module = "__torch__"
    else:
        module = "__torch__." + module
    if "." in name:
        raise RuntimeError(f"Could not get qualified name for class '{name}': '{name}' is not a valid identifier")
    return f"{module}.{name}"


_given: dict[str, int] = {}
_mangled = itertools.count()


def mangled(name: str) -> str:
    """The name, or, if a type has it already, the name with a part that no other has."""
    if _given.setdefault(name, 0) == 0:
        _given[name] = 1
        return name
    module, _, short = name.rpartition(".")
    return f"{module}.___torch_mangle_{next(_mangled)}.{short}"


def function_name_of(function: Any) -> str:
    """The last part of the name of a function, as an identifier."""
    return re.sub(r"\W", "_", getattr(function, "__name__", type(function).__name__))
