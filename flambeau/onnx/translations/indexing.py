"""Translations of indexing by tensors: gather, scatter, index, index_put, embedding, nonzero, one_hot."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import SymbolicDim, Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import axes_of, unsupported
from flambeau.onnx.translations.reduction import reduced


def long(b: Builder, index: Value) -> Value:
    """Places as int64."""
    return b.cast(index, torch.int64)


@translation("gather")
def gather(b: Builder, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """Elements by places along a dimension."""
    if not x.rank:
        return b.op("Expand", x, b.sizes(index)) if index.rank else x
    return b.op("GatherElements", x, long(b, index), axis=axes_of(x, dim)[0])


@translation("take_along_dim")
def take_along_dim(b: Builder, x: Value, indices: Value, dim: int | None = None) -> Value:
    """gather whose operands are expanded."""
    if dim is None:
        return gather(b, b.reshape(x, [-1]), 0, b.reshape(indices, [-1]))
    (dim,) = axes_of(x, dim)
    sizes = [m if _is_one(n) else n for n, m in zip(b.sizes(indices), b.sizes(x))]
    sizes[dim] = b.size(indices, dim)
    wide = [n if _is_one(m) else m for n, m in zip(sizes, b.sizes(x))]
    wide[dim] = b.size(x, dim)
    return gather(b, b.op("Expand", x, wide, shape=x.shape), dim, b.op("Expand", indices, sizes, shape=indices.shape))


def _is_one(n: Any) -> bool:
    return not isinstance(n, Size) and n == 1


@translation("take")
def take(b: Builder, x: Value, index: Value) -> Value:
    """Elements by their places in the flattened tensor."""
    return b.op("Gather", b.reshape(x, [-1]), long(b, index))


@translation("index_select")
def index_select(b: Builder, x: Value, dim: int, index: Value) -> Value:
    """Parts by places along a dimension."""
    return b.op("Gather", x, long(b, index) if index.rank else b.unsqueeze(index, 0), axis=axes_of(x, dim)[0])


# ---------------------------------------------------------------- writing

_REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}


def _scattered(b: Builder, x: Value, dim: int, index: Value, src: Value, reduction: str | None = None) -> Value:
    src = b.cast(src, x.dtype)
    if not x.rank:
        made = _scattered(b, b.reshape(x, [1]), 0, b.reshape(index, [-1]), b.reshape(src, [-1]), reduction)
        return b.reshape(made, [])
    if src.shape is not None and index.shape is not None and list(src.shape) != list(index.shape):
        for d in range(src.rank):
            if src.shape[d] != index.shape[d]:  # only so much of the source is read
                src = b.slice(src, d, 0, b.size(index, d))
    return b.op("ScatterElements", x, long(b, index), src, axis=axes_of(x, dim)[0], reduction=reduction)


@translation("scatter.src", "scatter.reduce")
def scatter(b: Builder, x: Value, dim: int, index: Value, src: Value, *, reduce: str | None = None) -> Value:
    """Elements written to places."""
    return _scattered(b, x, dim, index, src, None if reduce is None else _REDUCTIONS[reduce])


@translation("scatter.value", "scatter.value_reduce")
def scatter_value(b: Builder, x: Value, dim: int, index: Value, value: Any, *, reduce: str | None = None) -> Value:
    """A number written to places."""
    src = b.op("Expand", b.value(value, x.dtype), b.sizes(index), shape=index.shape) if index.rank else b.value(value, x.dtype)
    return _scattered(b, x, dim, index, src, None if reduce is None else _REDUCTIONS[reduce])


@translation("scatter_add")
def scatter_add(b: Builder, x: Value, dim: int, index: Value, src: Value) -> Value:
    """Elements added at places."""
    return _scattered(b, x, dim, index, src, "add")


@translation("scatter_reduce.two")
def scatter_reduce(b: Builder, x: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True) -> Value:
    """Elements that meet at places, added, multiplied, or the largest or smallest of them."""
    if reduce == "mean":
        ones = b.op("Expand", b.number(1, x.dtype), b.sizes(index), shape=index.shape)
        if include_self:
            total, start = _scattered(b, x, dim, index, src, "add"), b.full(b.sizes(x), 1, x.dtype)
            return b.op("Div", total, _scattered(b, start, dim, index, ones, "add"))
        zeros = b.full(b.sizes(x), 0, x.dtype)
        total, count = _scattered(b, zeros, dim, index, src, "add"), _scattered(b, zeros, dim, index, ones, "add")
        return b.op("Where", b.op("Greater", count, 0), b.op("Div", total, b.op("Max", count, 1)), x)
    if not include_self:
        info = torch.finfo(x.dtype) if x.dtype.is_floating_point else torch.iinfo(x.dtype)
        start = {"sum": 0, "prod": 1, "amax": info.min, "amin": info.max}[reduce]
        x = scatter_value(b, x, dim, index, start)
    return _scattered(b, x, dim, index, src, _REDUCTIONS[reduce])


def _along(b: Builder, x: Value, dim: int, index: Value) -> Value:
    """Places along a dimension, for every element of the other dimensions."""
    (dim,) = axes_of(x, dim)
    index = long(b, index)
    column = b.reshape(index, [-1 if d == dim else 1 for d in range(x.rank)])
    sizes = b.sizes(x)
    sizes[dim] = b.size(index, 0) if index.rank else 1
    shape = list(x.shape or [])
    shape[dim] = index.shape[0] if index.rank else 1
    return b.op("Expand", column, sizes, shape=shape)


@translation("index_copy")
def index_copy(b: Builder, x: Value, dim: int, index: Value, source: Value) -> Value:
    """Parts written to places along a dimension."""
    return _scattered(b, x, dim, _along(b, x, dim, index), source)


@translation("index_add")
def index_add(b: Builder, x: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1) -> Value:
    """Parts added at places along a dimension."""
    source = source if alpha == 1 else b.op("Mul", source, alpha)
    return _scattered(b, x, dim, _along(b, x, dim, index), source, "add")


@translation("index_fill")
def index_fill(b: Builder, x: Value, dim: int, index: Value, value: Any) -> Value:
    """A number written along a dimension."""
    return scatter_value(b, x, dim, _along(b, x, dim, index), value)


# ---------------------------------------------------------------- x[tensors]


def _placed(b: Builder, x: Value, indices: list[Any]) -> tuple[Value, Value, list[int], int]:
    """x with the indexed dimensions first, the places as rows, the order of the dimensions, and the rank of the places.

    A mask stands for the places where it holds.
    """
    tensors: list[Any] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            found = b.op("NonZero", b.cast(index, torch.bool), shape=(index.rank, SymbolicDim(None)))
            tensors += [b.squeeze(part, 0) for part in _rows(b, found, index.rank)]
        else:
            tensors.append(index if index is None else long(b, index))
    tensors += [None] * (x.rank - len(tensors))
    taken = [d for d, index in enumerate(tensors) if index is not None]
    order = [*taken, *[d for d in range(x.rank) if d not in taken]]
    rank = max(tensors[d].rank for d in taken)
    sizes: list[Any] = [1] * rank
    for d in taken:
        for i, n in enumerate(b.sizes(tensors[d]), rank - tensors[d].rank):
            if not _is_one(n):
                sizes[i] = n
    places = []
    for d in taken:
        index = tensors[d]
        known = isinstance(b.size(x, d), int) and index.constant is not None
        if known:
            index = b.const(index.constant % b.size(x, d))
        if len(taken) > 1 and (index.rank != rank or any(not _same(n, m) for n, m in zip(b.sizes(index), sizes))):
            index = b.op("Expand", index, sizes, shape=[n if isinstance(n, int) else SymbolicDim(None) for n in sizes])
        places.append(b.unsqueeze(index, rank))
    shape = [n if isinstance(n, int) else SymbolicDim(None) for n in sizes]
    rows = places[0] if len(places) == 1 else b.op("Concat", *places, axis=-1, shape=[*shape, len(places)])
    return b.transpose(x, order), rows, order, rank


def _same(n: Any, m: Any) -> bool:
    return n is m or (isinstance(n, int) and isinstance(m, int) and n == m)


def _rows(b: Builder, x: Value, count: int) -> tuple[Value, ...]:
    if count == 1:
        return (x,)
    made = b.op("Split", x, axis=0, num_outputs=count, outputs=count)
    for part in made:
        part.shape = [1, SymbolicDim(None)]
    return made


@translation("index.Tensor", "_unsafe_index.Tensor")
def index(b: Builder, x: Value, indices: list[Any]) -> Value:
    """x[tensors]: the places' shape stands where the indexed dimensions were, in front if they weren't neighbours."""
    taken = [d for d, i in enumerate(indices) if i is not None]
    if len(taken) == 1 and indices[taken[0]].dtype not in (torch.bool, torch.uint8):
        return b.op("Gather", x, long(b, indices[taken[0]]), axis=taken[0])
    moved, rows, _, rank = _placed(b, x, indices)
    made = b.op("GatherND", moved, rows)
    count = sum(1 if i.dtype not in (torch.bool, torch.uint8) else i.rank for i in indices if i is not None)
    first = _front(x, indices)
    if not first:
        return made
    rest = x.rank - count
    return b.transpose(made, [*range(rank, rank + first), *range(rank), *range(rank + first, rank + rest)])


def _front(x: Value, indices: list[Any]) -> int:
    """How many dimensions stand before the places in x[indices]."""
    taken = [d for d, i in enumerate(indices) if i is not None]
    return taken[0] if taken[-1] - taken[0] == len(taken) - 1 else 0


@translation("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(b: Builder, x: Value, indices: list[Any], values: Value, accumulate: bool = False, *rest: Any) -> Value:
    """x with x[tensors] written."""
    values = b.cast(values, x.dtype)
    only = [i for i in indices if i is not None]
    if len(only) == 1 and only[0].dtype == torch.bool and not accumulate and not values.rank:
        at = next(d for d, i in enumerate(indices) if i is not None)
        mask = b.reshape(only[0], [*b.sizes(only[0]), *[1] * (x.rank - at - only[0].rank)])
        return b.op("Where", mask, values, x)
    moved, rows, order, rank = _placed(b, x, indices)
    count = rows.shape[-1]
    rest_sizes = [b.size(x, d) for d in order[count:]]
    place_sizes = [b.size(rows, d) for d in range(rank)]
    first = _front(x, indices)
    sizes = [*rest_sizes[:first], *place_sizes, *rest_sizes[first:]]
    values = b.op("Expand", values, sizes, shape=[SymbolicDim(None)] * len(sizes)) if sizes else values
    if first:
        values = b.transpose(values, [*range(first, first + rank), *range(first), *range(first + rank, len(sizes))])
    made = b.op("ScatterND", moved, rows, values, reduction="add" if accumulate else None, shape=moved.shape)
    return b.transpose(made, [order.index(d) for d in range(x.rank)])


@translation("masked_scatter")
def masked_scatter(b: Builder, x: Value, mask: Value, source: Value) -> Value:
    """The elements of a source, one after another, where a mask holds."""
    mask = b.op("Expand", mask, b.sizes(x), shape=x.shape)
    places = b.transpose(b.op("NonZero", mask, shape=(x.rank, SymbolicDim(None))), [1, 0])
    count = b.op("Shape", places, start=0, end=1, shape=(1,))
    values = b.op("Slice", b.reshape(source, [-1]), [0], count, [0])
    return b.op("ScatterND", x, places, values)


@translation("masked_select")
def masked_select(b: Builder, x: Value, mask: Value) -> Value:
    """The elements where a mask holds."""
    wide = b.op("Expand", x, b.op("Shape", mask))
    wide_mask = b.op("Expand", mask, b.op("Shape", x))
    return b.op("Compress", b.reshape(wide, [-1]), b.reshape(wide_mask, [-1]), axis=0)


@translation("nonzero", "argwhere")
def nonzero(b: Builder, x: Value) -> Value:
    """The places of elements that aren't 0, as rows."""
    return b.transpose(b.op("NonZero", x, shape=(x.rank, SymbolicDim(None))), [1, 0])


@translation("nonzero_numpy", "where.default")
def nonzero_numpy(b: Builder, x: Value) -> tuple[Value, ...]:
    """The places of elements that aren't 0, by dimension."""
    found = b.op("NonZero", x, shape=(x.rank, SymbolicDim(None)))
    return tuple(b.squeeze(part, 0) for part in _rows(b, found, x.rank))


# ---------------------------------------------------------------- tables


@translation("embedding")
def embedding(b: Builder, weight: Value, indices: Value, *args: Any) -> Value:
    """Rows of a table."""
    return b.op("Gather", weight, indices)


@translation("embedding_bag", "embedding_bag.padding_idx", "_embedding_bag")
def embedding_bag(
    b: Builder,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, ...]:
    """Sums, means or maxima of bags of rows: each row knows its bag, the number of offsets that it isn't before."""
    if mode == 2 or (padding_idx is not None and padding_idx >= 0):
        raise unsupported(b, "with mode='max' or padding_idx; use nn.Embedding and a reduction")
    rows = b.op("Gather", weight, indices, shape=[*indices.shape, weight.shape[-1]])
    if per_sample_weights is not None:
        rows = b.op("Mul", rows, b.unsqueeze(per_sample_weights, 1))
    starts = long(b, offsets)
    if include_last_offset:
        starts = b.slice(starts, 0, 0, -1)
    count = b.op("Shape", starts, shape=(1,))
    numbers = b.range(0, b.size(indices, 0))
    within = b.op("GreaterOrEqual", b.unsqueeze(numbers, 1), b.unsqueeze(starts, 0))
    bag = b.op("Sub", reduced(b, "ReduceSum", b.cast(within, torch.int64), 1), 1)
    zeros = b.op("Expand", b.number(0, weight.dtype), b.op("Concat", count, [b.size(weight, 1)], axis=0), shape=(1, 1))
    total = b.op("ScatterND", zeros, b.unsqueeze(bag, 1), rows, reduction="add")
    if mode == 1:
        ones = b.op("Expand", b.number(1, weight.dtype), [b.size(indices, 0)], shape=(1,))
        none = b.op("Expand", b.number(0, weight.dtype), count, shape=(1,))
        sizes = b.op("ScatterND", none, b.unsqueeze(bag, 1), ones, reduction="add", shape=(1,))
        total = b.op("Div", total, b.unsqueeze(b.op("Max", sizes, 1), 1))
    return total, bag, None, None


@translation("one_hot")
def one_hot(b: Builder, x: Value, num_classes: int = -1) -> Value:
    """1 at the place that a number says, else 0."""
    if num_classes < 0:
        depth = b.op("Add", b.op("ReduceMax", x, keepdims=0), 1)
    else:
        depth = b.const(num_classes)
    return b.op("OneHot", x, depth, [0, 1], axis=-1)
