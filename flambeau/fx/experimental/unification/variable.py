"""Variables of patterns. Used by unification.core."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Var", "isvar", "var", "variables", "vars"]

_numbers = itertools.count(1)
_global_logic_variables: set[Any] = set()


class Var:
    """A variable: equal to another of the same name."""

    def __init__(self, *token: Hashable) -> None:
        self.token = token[0] if token else f"_{next(_numbers)}"

    def __str__(self) -> str:
        return f"~{self.token}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.token == other.token  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.token))


def var() -> Var:
    """A new variable."""
    return Var()


def vars() -> list[Var]:
    """[a new variable]."""
    return [var()]


def isvar(v: Any) -> bool:
    """Whether a value is a variable, or was declared one by `variables`."""
    if isinstance(v, Var):
        return True
    try:
        return v in _global_logic_variables
    except TypeError:  # not hashable
        return False


@contextmanager
def variables(*variables: Any) -> Iterator[None]:
    """Let these values be variables until the end of the block."""
    before = _global_logic_variables.copy()
    _global_logic_variables.update(variables)
    try:
        yield
    finally:
        _global_logic_variables.clear()
        _global_logic_variables.update(before)
