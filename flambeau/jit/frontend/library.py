"""What Python functions of this package mean to the compiler that are words of programs: torch.jit.annotate, torch.jit.fork ...

Stands on the package's namespaces; used by python_values.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

__all__ = ["words"]


@functools.cache
def words() -> dict[int, str]:
    """The words by the identity of what Python has for them."""
    import builtins

    import flambeau as torch
    from flambeau import jit

    table: list[tuple[Any, str]] = [
        (jit.annotate, "annotate"),
        (jit.isinstance, "isinstance"),
        (jit.fork, "fork"),
        (jit.wait, "wait"),
        (jit._unwrap_optional, "aten::_unwrap_optional"),
        (jit.is_scripting, "aten::is_scripting"),
        (torch.device, "device"),
        (warnings.warn, "aten::warn"),
        (builtins.AssertionError, "AssertionError"),
    ]
    for name in ("isinstance", "range", "zip", "enumerate", "list", "dict", "tuple", "getattr", "hasattr"):
        table.append((getattr(builtins, name), name))
    for name, symbol in (
        ("min", "prim::min"),
        ("max", "prim::max"),
        ("abs", "prim::abs"),
        ("len", "len"),
        ("sorted", "aten::sorted"),
        ("sum", "aten::sum"),
        ("all", "aten::all"),
        ("any", "aten::any"),
        ("divmod", "aten::divmod"),
        ("round", "aten::round"),
        ("ord", "aten::ord"),
        ("chr", "aten::chr"),
        ("hash", "aten::hash"),
    ):
        table.append((getattr(builtins, name), symbol))
    return {id(obj): word for obj, word in table}
