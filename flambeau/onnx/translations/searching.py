"""Translations of sorting and searching: topk, sort, argsort, kthvalue, median, bucketize, unique, isin."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import axes_of, common_dtype
from flambeau.onnx.translations.reduction import reduced


def ordered(b: Builder, x: Value, count: Any, dim: int, largest: bool) -> tuple[Value, Value]:
    """The first elements of an order along a dimension, and their places."""
    number = x if x.dtype not in (torch.bool, torch.int16, torch.int8, torch.uint8) else b.cast(x, torch.int32)
    values, places = b.op("TopK", number, [count], axis=axes_of(x, dim)[0], largest=int(largest), sorted=1, outputs=2)
    shape = list(x.shape or [])
    shape[dim] = count if isinstance(count, int) else x.shape[dim]
    values.shape = places.shape = shape
    return b.cast(values, x.dtype), places


@translation("topk")
def topk(b: Builder, x: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Value, Value]:
    """The k largest or smallest, and their places."""
    return ordered(b, x, k, dim, largest) if x.rank else (x, b.const(0))


@translation("sort.default")
def sort(b: Builder, x: Value, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """All elements in order, and their places."""
    return ordered(b, x, b.size(x, dim), dim, descending) if x.rank else (x, b.const(0))


@translation("sort.stable")
def sort_stable(b: Builder, x: Value, *, stable: bool | None, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """sort, whose equal elements stay in their order."""
    return sort(b, x, dim, descending)


@translation("argsort.default")
def argsort(b: Builder, x: Value, dim: int = -1, descending: bool = False) -> Value:
    """The places of the elements in order."""
    return sort(b, x, dim, descending)[1]


@translation("argsort.stable")
def argsort_stable(b: Builder, x: Value, *, stable: bool, dim: int = -1, descending: bool = False) -> Value:
    """argsort, whose equal elements stay in their order."""
    return sort(b, x, dim, descending)[1]


@translation("msort")
def msort(b: Builder, x: Value) -> Value:
    """Sorted along the first dimension."""
    return sort(b, x, 0)[0]


@translation("kthvalue")
def kthvalue(b: Builder, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Value, ...]:
    """The k-th smallest, and its place."""
    (dim,) = axes_of(x, dim)
    found = (b.slice(y, dim, k - 1, k) for y in ordered(b, x, k, dim, False))
    return tuple(y if keepdim else b.squeeze(y, dim) for y in found)


@translation("median.dim")
def median(b: Builder, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, ...]:
    """The lower one in the middle, and its place."""
    return kthvalue(b, x, (b.size(x, dim) + 1) // 2, dim, keepdim)


@translation("median.default")
def median_of_all(b: Builder, x: Value) -> Value:
    """The lower one in the middle of all."""
    count: Any = 1
    for n in b.sizes(x):
        count = count * n
    return kthvalue(b, b.reshape(x, [-1]), (count + 1) // 2, 0)[0]


@translation("bucketize.Tensor")
def bucketize(b: Builder, x: Value, boundaries: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    """Between which boundaries numbers lie: how many are below."""
    dtype = common_dtype(x, boundaries)
    left = b.unsqueeze(b.cast(x, dtype), x.rank)
    op_type = "GreaterOrEqual" if right else "Greater"
    below = b.op(op_type, left, b.cast(boundaries, dtype))
    return b.cast(reduced(b, "ReduceSum", b.cast(below, torch.int64), -1), b.out.dtype)


@translation("searchsorted.Tensor")
def searchsorted(
    b: Builder,
    sorted_sequence: Value,
    x: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Value:
    """Where numbers would stand in sorted rows."""
    if sorter is not None:
        sorted_sequence = b.op("GatherElements", sorted_sequence, sorter, axis=-1)
    if sorted_sequence.rank > 1:
        sorted_sequence = b.unsqueeze(sorted_sequence, sorted_sequence.rank - 1)
    return bucketize(b, x, sorted_sequence, right=right or side == "right")


@translation("isin.Tensor_Tensor")
def isin(b: Builder, x: Value, others: Value, *, assume_unique: bool = False, invert: bool = False) -> Value:
    """Whether elements are among others."""
    dtype = common_dtype(x, others)
    same = b.op("Equal", b.unsqueeze(b.cast(x, dtype), x.rank), b.reshape(b.cast(others, dtype), [-1]))
    found = b.cast(reduced(b, "ReduceMax", b.cast(same, torch.int32), -1), torch.bool)
    return b.op("Not", found) if invert else found


@translation("isin.Tensor_Scalar")
def isin_scalar(b: Builder, x: Value, other: Any, *, assume_unique: bool = False, invert: bool = False) -> Value:
    """Whether elements are a number."""
    same = b.op("Equal", x, b.value(other, x.dtype))
    return b.op("Not", same) if invert else same


@translation("_unique2", "unique_dim", "_unique")
def unique(b: Builder, x: Value, *args: Any, **kwargs: Any) -> tuple[Value, ...]:
    """Each element once, where each one is found, and how often."""
    dim = args[0] if "unique_dim" in b.target else None
    values, _, places, counts = b.op("Unique", x, axis=dim, sorted=1, outputs=4)
    if dim is None:
        places = b.reshape(places, b.sizes(x))
    return values, places, counts


@translation("cummax", "cummin")
def cummax(b: Builder, x: Value, dim: int) -> tuple[Value, Value]:
    """The largest or smallest so far, and the last place of it: the extreme of a triangle of copies."""
    (dim,) = axes_of(x, dim)
    size = b.size(x, dim)
    most = "cummax" in b.target
    last = b.unsqueeze(b.op("Transpose", x, perm=[*[d for d in range(x.rank) if d != dim], dim], shape=[1] * x.rank), x.rank - 1)
    kept = b.op("Trilu", b.full([size, size], 1, torch.int64), upper=0)
    info = torch.finfo(x.dtype) if x.dtype.is_floating_point else torch.iinfo(x.dtype)
    far = b.number(-float("inf") if most else float("inf"), x.dtype) if x.dtype.is_floating_point else b.number(
        info.min if most else info.max, x.dtype)  # fmt: skip
    rows = b.op("Where", b.cast(kept, torch.bool), last, far, shape=[1] * (x.rank + 1))
    values = reduced(b, "ReduceMax" if most else "ReduceMin", rows, -1)
    places = b.op("ArgMax" if most else "ArgMin", rows, axis=-1, keepdims=0, select_last_index=1)
    back = [*range(dim), x.rank - 1, *range(dim, x.rank - 1)]
    return b.op("Transpose", values, perm=back), b.op("Transpose", places, perm=back)
