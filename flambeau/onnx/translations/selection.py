"""Translations of selecting by numbers: select, slice, narrow, their scatters, triangles, masks of triangles."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import SymbolicDim, Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import INT64_MAX, axes_of, sized


@translation("select.int", "select_copy.int")
def select(b: Builder, x: Value, dim: int, index: Any) -> Value:
    """The part of a tensor at a place along a dimension."""
    (dim,) = axes_of(x, dim)
    return b.op("Gather", x, b.number(index, torch.int64), axis=dim)


@translation("slice.Tensor", "slice_copy.Tensor")
def slice_(b: Builder, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    """A part of a tensor along a dimension."""
    (dim,) = axes_of(x, dim)
    start, end = 0 if start is None else start, INT64_MAX if end is None else end
    if isinstance(start, int) and start == 0 and isinstance(end, int) and end == INT64_MAX and step == 1:
        return x
    return b.slice(x, dim, start, end, step)


@translation("narrow", "narrow_copy")
def narrow(b: Builder, x: Value, dim: int, start: Any, length: Any) -> Value:
    """So many elements from a place on."""
    (dim,) = axes_of(x, dim)
    if isinstance(start, Value):
        start = b.as_size(b.reshape(start, [1]))
    if isinstance(start, int) and start < 0:
        start = b.size(x, dim) + start
    return b.slice(x, dim, start, start + length)


@translation("select_scatter")
def select_scatter(b: Builder, x: Value, src: Value, dim: int, index: Any) -> Value:
    """A tensor with a part written."""
    (dim,) = axes_of(x, dim)
    if isinstance(index, int) and index < 0:
        index = b.size(x, dim) + index
    return slice_scatter(b, x, b.unsqueeze(src, dim), dim, index, index + 1)


@translation("slice_scatter")
def slice_scatter(b: Builder, x: Value, src: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    """A tensor with a part along a dimension written: what is before, the part, what is behind; or by places for a step."""
    (dim,) = axes_of(x, dim)
    start, end = 0 if start is None else start, INT64_MAX if end is None else end
    if step == 1:
        parts = [src]
        if not (isinstance(start, int) and start == 0):
            parts.insert(0, b.slice(x, dim, 0, start))
        size = b.size(x, dim)
        if not (isinstance(end, int) and (end >= size if isinstance(size, int) else end == INT64_MAX)):
            parts.append(b.slice(x, dim, end, INT64_MAX))
        return b.op("Concat", *parts, axis=dim) if len(parts) > 1 else src
    places = b.slice(b.range(0, b.size(x, dim)), 0, start, end, step)
    order = [dim, *[d for d in range(x.rank) if d != dim]]
    back = [order.index(d) for d in range(x.rank)]
    written = b.op("ScatterND", b.transpose(x, order), b.unsqueeze(places, 1), b.transpose(src, order))
    return b.transpose(written, back)


@translation("diagonal_scatter")
def diagonal_scatter(b: Builder, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """A tensor with a diagonal written."""
    dim1, dim2 = axes_of(x, [dim1, dim2])
    rest = [d for d in range(x.rank) if d not in (dim1, dim2)]
    order = [dim1, dim2, *rest]
    rows, columns = sized(b, x, dim1, dim2)
    count = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    places = [[i + max(-offset, 0), i + max(offset, 0)] for i in range(count)]
    values = b.transpose(src, [src.rank - 1, *range(src.rank - 1)])
    written = b.op("ScatterND", b.transpose(x, order), b.const(places), values)
    return b.transpose(written, [order.index(d) for d in range(x.rank)])


# ---------------------------------------------------------------- triangles


def _triangle(name: str, upper: int) -> None:
    def write(b: Builder, x: Value, diagonal: Any = 0) -> Value:
        if x.dtype == torch.bool:  # runtimes have no kernel of truths
            return b.cast(b.op("Trilu", b.cast(x, torch.int64), b.number(diagonal, torch.int64), upper=upper), torch.bool)
        return b.op("Trilu", x, b.number(diagonal, torch.int64), upper=upper)

    translation(name)(write)


_triangle("tril", 0)
_triangle("triu", 1)


@translation("diag_embed")
def diag_embed(b: Builder, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """Rows as diagonals of matrices."""
    size = b.size(x, -1) + abs(offset)
    known = size if isinstance(size, int) else SymbolicDim(None)
    if offset:
        edges = [0] * (2 * x.rank)
        edges[x.rank - 1 if offset > 0 else -1] = abs(offset)
        x = b.op("Pad", x, edges, shape=[*x.shape[:-1], known])
    eye = b.cast(b.op("EyeLike", b.full([size, size], 0, torch.float32), k=offset), x.dtype)
    made = b.op("Mul", b.unsqueeze(x, x.rank - 1), eye)
    dims = axes_of(made, [dim1, dim2])
    rest = iter(range(x.rank - 1))
    perm = [x.rank - 1 if i == dims[0] else x.rank if i == dims[1] else next(rest) for i in range(x.rank + 1)]
    return b.transpose(made, perm)


@translation("diag")
def diag(b: Builder, x: Value, diagonal: int = 0) -> Value:
    """A matrix of a diagonal, or the diagonal of a matrix."""
    from flambeau.onnx.translations.views import diagonal as of_matrix

    return of_matrix(b, x, diagonal) if x.rank == 2 else diag_embed(b, x, diagonal)


@translation("trace")
def trace(b: Builder, x: Value) -> Value:
    """The sum of the diagonal."""
    from flambeau.onnx.translations.views import diagonal as of_matrix

    return b.op("ReduceSum", b.cast(of_matrix(b, x), b.out.dtype), [0], keepdims=0)
