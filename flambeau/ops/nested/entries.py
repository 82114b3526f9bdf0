"""What a nested tensor of either layout does to its values alone: tells facts of their memory, converts them, fills them.

Stands on ops.nested.tensor; used by ops.nested.jagged and ops.nested.strided, which say for their class what deviates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.tensor.tensor import Tensor

FACTS = ("storage", "untyped_storage", "is_pinned", "is_shared", "is_inference", "get_device", "is_conj", "is_neg")
CONVERSIONS = (
    *("to", "float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool"),
    *("cpu", "cuda", "pin_memory", "type_as", "share_memory_"),
)


def tell(rule: Callable[..., Any], *names: str) -> None:
    """Rules by which a nested tensor answers as its values do."""

    def of(method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, *args, **kwargs: method(x._entries, *args, **kwargs)

    for name in names:
        rule(name)(of(getattr(Tensor, name)))


def convert(cls: type, rule: Callable[..., Any], *names: str) -> None:
    """Rules by which the values are converted and the rows stay; either of a tensor and its example may be nested."""

    def of(method: Callable[..., Any]) -> Callable[..., Any]:
        def converted(x: Any, *args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], cls):
                args = (args[0]._entries, *args[1:])  # type: ignore[attr-defined]
            if not isinstance(x, cls):
                return method(x, *args, **kwargs)
            made = method(x._entries, *args, **kwargs)  # type: ignore[attr-defined]
            return x if made is x._entries else x.like(made)  # type: ignore[attr-defined]

        return converted

    for name in names:
        rule(name)(of(getattr(Tensor, name)))


def write(rule: Callable[..., Any], *names: str) -> None:
    """Rules by which the values are written in place."""

    def of(method: Callable[..., Any]) -> Callable[..., Any]:
        def written(x: Any, *args: Any, **kwargs: Any) -> Any:
            method(x._entries, *args, **kwargs)
            return x

        return written

    for name in names:
        rule(name)(of(getattr(Tensor, name)))
