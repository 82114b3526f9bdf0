"""Translations of joining and splitting: cat, stack, split, chunk, unbind, repetitions, meshgrid."""

from __future__ import annotations

from typing import Any

from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import axes_of, sized


@translation("cat", "concat", "concatenate")
def cat(b: Builder, tensors: list[Value], dim: int = 0) -> Value:
    """Tensors one after another; empty vectors don't count."""
    kept = [b.cast(x, b.out.dtype) for x in tensors if not (x.rank == 1 and x.shape == [0] and b.out.dim() != 1)]
    return kept[0] if len(kept) == 1 else b.op("Concat", *kept, axis=dim)


@translation("stack")
def stack(b: Builder, tensors: list[Value], dim: int = 0) -> Value:
    """Tensors along a new dimension."""
    dim %= tensors[0].rank + 1
    return b.op("Concat", *[b.unsqueeze(b.cast(x, b.out.dtype), dim) for x in tensors], axis=dim)


@translation("hstack", "vstack", "dstack", "row_stack", "column_stack")
def stacked(b: Builder, tensors: list[Value]) -> Value:
    """Tensors side by side, below each other, or behind each other."""
    name = b.target.split(".")[1]
    rank = {"hstack": 1, "dstack": 3}.get(name, 2)
    made = []
    for x in tensors:
        if name == "column_stack" and x.rank < 2:
            x = b.reshape(x, [-1, 1])
        elif x.rank < rank:
            x = b.reshape(x, [1, -1, 1] if rank == 3 and x.rank < 2 else [*([1] * (rank - x.rank - (rank == 3))), *b.sizes(x),
                                                                           *([1] * (rank == 3))])  # fmt: skip
        made.append(x)
    dim = {"vstack": 0, "row_stack": 0, "dstack": 2, "column_stack": 1}.get(name, int(made[0].rank > 1))
    return cat(b, made, dim)


# ---------------------------------------------------------------- splitting


def parted(b: Builder, x: Value, lengths: list[Any], dim: int) -> tuple[Value, ...]:
    """Parts of given lengths along a dimension."""
    if len(lengths) == 1:
        return (x,)
    made = b.op("Split", x, list(lengths), axis=dim, outputs=len(lengths))
    for part, n in zip(made, lengths):
        part.shape = list(x.shape or [])
        part.shape[dim] = n if isinstance(n, int) else x.shape[dim]
    return made


@translation("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor")
def split(b: Builder, x: Value, split_size: Any, dim: int = 0) -> tuple[Value, ...]:
    """Parts of one size; the last may be smaller."""
    (dim,) = axes_of(x, dim)
    count = len(b.out)
    return parted(b, x, [*[split_size] * (count - 1), b.size(x, dim) - split_size * (count - 1)], dim)


@translation("split_with_sizes", "split.sizes", "split_with_sizes_copy", "unsafe_split_with_sizes")
def split_with_sizes(b: Builder, x: Value, split_sizes: list[Any], dim: int = 0) -> tuple[Value, ...]:
    """Parts of given sizes."""
    return parted(b, x, split_sizes, *axes_of(x, dim))


@translation("chunk", "unsafe_chunk")
def chunk(b: Builder, x: Value, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    """So many parts, the last of which may be smaller."""
    (dim,) = axes_of(x, dim)
    size = b.size(x, dim)
    count = len(b.out)
    each = -(-size // chunks)
    return parted(b, x, [*[each] * (count - 1), size - each * (count - 1)], dim)


@translation("tensor_split.indices", "tensor_split.sections")
def tensor_split(b: Builder, x: Value, where: Any, dim: int = 0) -> tuple[Value, ...]:
    """Parts between indices, or so many of nearly one size."""
    (dim,) = axes_of(x, dim)
    if isinstance(where, int):
        (size,) = sized(b, x, dim)
        return parted(b, x, [size // where + (i < size % where) for i in range(where)], dim)
    ends = [*where, b.size(x, dim)]
    return tuple(b.slice(x, dim, start, end) for start, end in zip([0, *where], ends))


@translation("unbind", "unbind_copy")
def unbind(b: Builder, x: Value, dim: int = 0) -> tuple[Value, ...]:
    """The tensors along a dimension, without it."""
    (dim,) = axes_of(x, dim)
    (size,) = sized(b, x, dim)
    return tuple(b.squeeze(part, dim) for part in parted(b, x, [1] * size, dim))


# ---------------------------------------------------------------- repeating


@translation("repeat_interleave.self_int")
def repeat_interleave(b: Builder, x: Value, repeats: Any, dim: int | None = None, *, output_size: Any = None) -> Value:
    """Each element several times."""
    if dim is None:
        x, dim = b.reshape(x, [-1]), 0
    (dim,) = axes_of(x, dim)
    sizes = b.sizes(x)
    wide = b.op("Expand", b.unsqueeze(x, dim + 1), [*[1] * (dim + 1), repeats, *[1] * (x.rank - dim - 1)])
    return b.reshape(wide, [*sizes[:dim], sizes[dim] * repeats, *sizes[dim + 1 :]])


@translation("meshgrid")
def meshgrid(b: Builder, tensors: list[Value], *, indexing: str = "ij") -> tuple[Value, ...]:
    """Coordinates of a grid."""
    order = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        order[:2] = [1, 0]
    sizes = [b.size(tensors[i], 0) if tensors[i].rank else 1 for i in order]
    return tuple(
        b.op("Expand", b.reshape(x, [-1 if i == order[j] else 1 for j in range(len(order))]), sizes)
        for i, x in enumerate(tensors)
    )


@translation("cartesian_prod")
def cartesian_prod(b: Builder, tensors: list[Value]) -> Value:
    """All rows of one element of each."""
    if len(tensors) == 1:
        return tensors[0]
    columns = [b.reshape(x, [-1, 1]) for x in meshgrid(b, tensors)]
    return b.op("Concat", *columns, axis=1)
