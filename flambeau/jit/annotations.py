"""torch.jit.annotations: what scripted functions are annotated with, and the compiler's types by name.

`BroadcastingList2[int]` says of a parameter that a number stands for a list of two. Stands on dispatcher.schema_types.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035 - under these names programs import them

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
