"""torch.jit.annotations: what scripted functions are annotated with, and the compiler's types by name.

`BroadcastingList2[int]` says of a parameter that a number stands for a list of two. Stands on dispatcher.schema_types.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, Dict, List, Optional, Tuple, Union, get_args, get_origin  # noqa: UP035 - under these names programs import them

from flambeau.dispatcher.schema_types import (
    AnyType,
    BoolType,
    ComplexType,
    DeviceObjType,
    DictType,
    FloatType,
    FutureType,
    IntType,
    ListType,
    NoneType,
    NumberType,
    OptionalType,
    StringType,
    TensorType,
    TupleType,
)
from flambeau.futures import Future

__all__ = [
    "Any", "AnyType", "BoolType", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "ComplexType", "DeviceObjType",
    "Dict", "DictType", "FloatType", "Future", "FutureType", "IntType", "List", "ListType", "NoneType", "NumberType", "Optional",
    "OptionalType", "StringType", "TensorType", "Tuple", "TupleType", "Union",
]  # fmt: skip


class BroadcastingListCls:
    """Annotation of a list of fixed length for which a single value may be given."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1, BroadcastingList2, BroadcastingList3 = (BroadcastingListCls() for _ in range(3))


def get_callable_argument_names(fn: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters that take arguments by position and by name; none if others need to be given."""
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return []
    return [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]


def is_optional(ann: Any) -> bool:
    """Whether an annotation is Optional[T]: a union of None and one other type."""
    if ann is Optional:
        raise RuntimeError("Attempted to use Optional without a contained type. Please add a contained type, e.g. Optional[int]")
    parts = get_args(ann)
    is_union = get_origin(ann) is Union or type(ann).__name__ == "UnionType"
    return is_union and len(parts) == 2 and type(None) in parts


def check_empty_containers(obj: Any) -> None:
    """Warn of an empty list, dict or tuple, whose type isn't told by what is in it."""
    if obj in ([], {}, ()):
        warnings.warn(
            "The inner type of a container is lost when calling torch.jit.isinstance in eager mode. For example, List[int] would "
            "become list and therefore falsely return True for List[float] or List[str].",
            stacklevel=2,
        )
