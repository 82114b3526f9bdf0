"""The methods that `dataclasses` writes for a class, which have no file to be read from: their text, made from the fields.

`__init__`, comparisons, `__repr__` and `__hash__`; what else it writes stays Python. Stands on parsing; used by python_classes.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from flambeau.jit.frontend import tree
from flambeau.jit.frontend.parsing import Parser
from flambeau.jit.ir.source import Source

__all__ = ["definition_of_generated", "is_generated"]

_ORDERS = {"__lt__": ("<", False), "__le__": ("<", True), "__gt__": (">", False), "__ge__": (">", True)}


def is_generated(cls: Any, item: Any) -> bool:
    """Whether a method of a class was written by `dataclasses`."""
    code = getattr(inspect.unwrap(item), "__code__", None)
    return dataclasses.is_dataclass(cls) and code is not None and code.co_filename in ("<string>", dataclasses.__file__)


def definition_of_generated(cls: Any, name: str) -> tuple[tree.Def, dict[str, Any]] | None:
    """(the tree of a generated method, what the names of its annotations mean); None for one that has no counterpart.

    NotImplementedError for a field whose default is made by a function.
    """
    if name == "__init__":
        text, names = _constructor(cls)
    elif name in ("__eq__", "__repr__", "__hash__") or name in _ORDERS:
        text, names = _text(cls, name), {}
    else:
        return None
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    parser = Parser(Source(text, f"dataclass {cls.__qualname__}", 1), 0, name)
    return parser.definition(node, name, cls.__name__, None), names


def _function(signature: str, lines: list[str]) -> str:
    return "\n    ".join([f"def {signature}:", *lines]) + "\n"


def _constructor(cls: Any) -> tuple[str, dict[str, Any]]:
    parameters, names, lines, given = ["self"], {}, [], []
    for field in cls.__dataclass_fields__.values():
        if "ClassVar" in str(field.type):
            continue
        if field.default_factory is not dataclasses.MISSING:
            raise NotImplementedError("Default factory initializers are not supported in TorchScript dataclasses")
        is_passed_on = field._field_type is dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]
        kind = field.type.type if isinstance(field.type, dataclasses.InitVar) else field.type
        if isinstance(kind, str):
            word = kind
        else:
            word = f"_type_of_{field.name}"
            names[word] = kind
        if field.init:
            parameters.append(f"{field.name}: {word}")
            if not is_passed_on:
                lines.append(f"self.{field.name} = {field.name}")
        if is_passed_on:
            given.append(field.name)
    if hasattr(cls, "__post_init__"):
        lines.append(f"self.__post_init__({', '.join(given)})")
    return _function(f"__init__({', '.join(parameters)}) -> None", lines or ["pass"]), names


def _text(cls: Any, name: str) -> str:
    fields = dataclasses.fields(cls)
    if name == "__repr__":
        shown = ", ".join(f"{field.name}=self.{field.name}" for field in fields if field.repr)
        return _function("__repr__(self) -> str", [repr(f"{cls.__name__}({shown})").join(["return ", ""])])
    if name == "__hash__":
        return _function("__hash__(self) -> int", ["raise NotImplementedError('__hash__ of a dataclass')"])
    compared: Callable[[str, str, str], list[str]]
    if name == "__eq__":
        last, compared = "True", _unequal
    else:
        sign, with_equals = _ORDERS[name]
        last, compared = (
            str(with_equals),
            lambda one, other, _: [
                f"if {one} {sign} {other}:",
                "    return True",
                f"if {other} {sign} {one}:",
                "    return False",
            ],
        )
    lines = []
    for field in fields:
        if field.compare:
            one, other = f"_own_{field.name}", f"_other_{field.name}"
            lines += [f"{one} = self.{field.name}", f"{other} = other.{field.name}", *_compared(field, one, other, compared)]
    return _function(f"{name}(self, other: {cls.__name__}) -> bool", [*lines, f"return {last}"])


def _unequal(one: str, other: str, _: str) -> list[str]:
    return [f"if not {one} == {other}:", "    return False"]


def _compared(field: Any, one: str, other: str, compared: Callable[[str, str, str], list[str]]) -> list[str]:
    """The lines that compare a field, which may be optional; None differs from everything else."""
    lines = compared(one, other, field.name)
    if "Optional" not in str(field.type) and "None" not in str(field.type):
        return lines
    return [
        f"if {one} is not None and {other} is not None:",
        *(f"    {line}" for line in lines),
        f"elif {one} is not None or {other} is not None:",
        "    return False",
    ]
