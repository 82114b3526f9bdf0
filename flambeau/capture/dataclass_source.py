"""The text of methods that dataclasses wrote and compiled, which is in no file: guessed from the code's names.

A guess is believed as every source is, if it compiles to the same instructions. Standard library only; used by source.py.
"""

from __future__ import annotations

import ast
from types import CodeType

__all__ = ["guesses"]

_AFTER = "__post_init__"
_BUILTINS = "__dataclass_builtins_object__"


def guesses(code: CodeType) -> list[ast.FunctionDef]:
    """Trees that a method of a dataclass may have been made of."""
    if code.co_name == "__eq__":
        return _comparisons(code)
    made = _initializer(code)
    return [] if made is None else [made]


def _comparisons(code: CodeType) -> list[ast.FunctionDef]:
    """The trees of `__eq__`: by tuples of fields until CPython 3.12, one field after the other since."""
    names = [name for name in code.co_names if name not in ("__class__", "NotImplemented")]
    own, others = ("".join(f"{of}.{name}," for name in names) for of in ("self", "other"))
    each = " and ".join(f"self.{name}==other.{name}" for name in names) or "True"
    same = " if self is other:\n  return True\n"
    bodies = [
        f" if other.__class__ is self.__class__:\n  return ({own})==({others})\n return NotImplemented",
        f"{same} if other.__class__ is self.__class__:\n  return {each}\n return NotImplemented",
    ]
    return [_placed(ast.parse(f"def __eq__(self, other):\n{body}"), code) for body in bodies]


def _placed(module: ast.Module, code: CodeType) -> ast.FunctionDef:
    return ast.increment_lineno(module.body[0], code.co_firstlineno - 1)  # type: ignore[return-value]


def _initializer(code: CodeType) -> ast.FunctionDef | None:
    """The tree of a dataclass's `__init__`; None where the code doesn't look like one."""
    if code.co_name != "__init__" or not code.co_argcount or code.co_kwonlyargcount + code.co_argcount != code.co_nlocals:
        return None
    this, *given = code.co_varnames
    frozen = _BUILTINS in code.co_freevars
    stored = [name for name in (code.co_consts if frozen else code.co_names) if isinstance(name, str) and name != _AFTER]
    factory = next((name for name in code.co_freevars if name.endswith(("_HAS_DEFAULT_FACTORY", "_HAS_DEFAULT_FACTORY__"))), "")
    defaults = {name.removeprefix("__dataclass").removeprefix("_dflt_").removesuffix("__"): name for name in code.co_freevars}
    lines = []
    for name in stored:
        value = name
        if name in defaults:
            value = f"{defaults[name]}() if {name} is {factory} else {name}" if name in given else f"{defaults[name]}()"
        elif name not in given:
            return None
        lines.append(f'{_BUILTINS}.__setattr__({this},"{name}",{value})' if frozen else f"{this}.{name}={value}")
    if _AFTER in code.co_names:
        lines.append(f"{this}.{_AFTER}({','.join(name for name in given if name not in stored)})")
    positional, named = code.co_varnames[: code.co_argcount], code.co_varnames[code.co_argcount :]
    arguments = ",".join([*positional, *(["*", *named] if named else [])])
    try:
        module = ast.parse(f"def __init__({arguments}):\n " + "\n ".join(lines or ["pass"]))
    except SyntaxError:
        return None
    return _placed(module, code)
