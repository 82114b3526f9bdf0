"""Marks for exporters. Programs know it as torch._export.wrappers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["mark_subclass_constructor_exportable_experimental"]


def mark_subclass_constructor_exportable_experimental(constructor_subclass: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the `__init__` of a class of tensors that an exporter may put into its graphs. RuntimeError for another method."""
    if not getattr(constructor_subclass, "__qualname__", "").endswith("__init__"):
        raise RuntimeError(
            "torch._export.wrappers.mark_constructor_exportable_experimental can only be applied on subclass "
            f"tensor.__init__But, you are adding it on {constructor_subclass.__name__} which is not supported. "
            "If __init__ doesn't exist on your subclass, please add it. Look at DTensor.__init__ "
            "implementation for an example."
        )
    return constructor_subclass
