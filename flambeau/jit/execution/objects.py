"""Objects of classes on their way between Python and programs.

Stands on runtime; used by calls and scripts.
"""

from __future__ import annotations

from typing import Any

from flambeau.jit.execution.runtime import ScriptObject
from flambeau.jit.ir.types import ClassType

__all__ = ["python_value", "script_object"]


def script_object(obj: Any, kind: ClassType) -> ScriptObject:
    """An object of a Python class as one of a program's, with the same attributes."""
    made = ScriptObject(kind)
    for name in kind.attributes:
        made.values[name] = getattr(obj, name)
    return made


def python_value(value: Any) -> Any:
    """What a program gives as Python has it: objects of compiled classes are objects of those classes again."""
    if isinstance(value, ScriptObject):
        cls = value.script_type.python_class
        if cls is None:
            return value
        made = cls.__new__(cls)
        for name, each in value.values.items():
            setattr(made, name, python_value(each))
        return made
    if isinstance(value, list):
        return [python_value(each) for each in value]
    if type(value) is tuple:
        return tuple(python_value(each) for each in value)
    if isinstance(value, dict):
        return {key: python_value(each) for key, each in value.items()}
    return value
