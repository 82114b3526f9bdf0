"""Whether the values of two programs are of the same types, as those of a program and of its archive's must be.

Stands on saving, which knows where attributes lie; used by torch._C._ivalue_tags_match.
"""

from __future__ import annotations

from typing import Any

from flambeau.jit.archive.saving import attributes_of
from flambeau.jit.ir.types import ClassType

__all__ = ["tags_match"]


def tags_match(a: Any, b: Any) -> bool:
    """Whether two values are of the same types, all the way down; names of classes may differ."""
    kind, other = getattr(a, "script_type", None), getattr(b, "script_type", None)
    if isinstance(kind, ClassType) and isinstance(other, ClassType):
        mine, theirs = attributes_of(a, kind), attributes_of(b, other)
        return len(mine) == len(theirs) and all(
            name == also and tags_match(x, y) for (name, x, _), (also, y, _) in zip(mine, theirs)
        )
    if isinstance(a, (list, tuple)) and isinstance(b, type(a)):
        return len(a) == len(b) and all(map(tags_match, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(map(tags_match, a.keys(), b.keys())) and all(map(tags_match, a.values(), b.values()))
    return type(a) is type(b) or a is b
