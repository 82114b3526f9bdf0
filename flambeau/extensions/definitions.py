"""How a family of operators is defined: schemas, each with the function of public operators that answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch

__all__ = ["define"]


def define(namespace: str, operators: dict[str, Callable[..., Any]]) -> list[Any]:
    """Define operators of `torch.ops.<namespace>`, whose gradients are those of what they call; returns what holds them."""
    library = torch.library.Library(namespace, "DEF")
    for schema, answer in operators.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], answer, "CompositeImplicitAutograd")
    return [library]
