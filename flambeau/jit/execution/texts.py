"""Values as text, as programs print them: `str`, `format`, `%`, print.

Used by scalars and by generated code.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.jit.ir.printing import complex_text, float_text

__all__ = ["formatted", "percent_formatted", "show", "text_of"]


def _inner_text(value: Any) -> str:
    """A value as it stands within a text or another value."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, complex):
        return complex_text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_inner_text, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_inner_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_inner_text(k)}: {_inner_text(v)}" for k, v in value.items()) + "}"
    return _object_text(value)


def _object_text(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(value)
    if isinstance(value, enum.Enum):
        from flambeau.jit.ir.names import qualified_name_of

        return f"Enum<{qualified_name_of(type(value))}.{value.name}>"
    return str(value)


def text_of(value: Any) -> str:
    """str(value)."""
    return _inner_text(value)


def formatted(text: str, values: Sequence[Any]) -> str:
    """text.format(*values): every pair of braces takes the next value."""
    parts = text.split("{}")
    if len(parts) - 1 > len(values):
        raise RuntimeError(f"Too few arguments for format string: {text}")
    made = parts[0]
    for part, value in zip(parts[1:], values):
        made += text_of(value) + part
    return made


def percent_formatted(text: str, values: Sequence[Any]) -> str:
    """text % values."""
    if len(values) == 1 and isinstance(values[0], tuple):
        values = values[0]
    count = len(re.findall(r"%[^%]", text.replace("%%", "")))
    if count > len(values):
        raise RuntimeError("Too few arguments for format string")
    if count < len(values):
        raise RuntimeError(f"Too many arguments for format string: {text}")
    return text % tuple(text_of(v) if not isinstance(v, (int, float)) else v for v in values)


def show(*values: Any) -> None:
    """print."""
    print(*map(text_of, values))
