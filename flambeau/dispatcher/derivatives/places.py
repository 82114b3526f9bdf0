"""Derivatives of what takes values from chosen places or writes them there, and of views.

Stands on graphs; part of the room derivatives.
"""

from __future__ import annotations

import functools
from typing import Any

from flambeau.core.autograd import engine
from flambeau.dispatcher import graphs
from flambeau.dispatcher.namespaces import ops

__all__: list[str] = []

aten: Any = ops.aten
derivative = functools.partial(graphs.derivative, geometry=("self", "tensors", "values"))


@derivative("index.Tensor", node="IndexBackward0")
def _(g: Any, self: Any, indices: Any) -> Any:
    zeros = aten.new_zeros.default(g, list(self.shape))
    return aten.index_put.default(zeros, list(indices), g, True)


@derivative("index_select", node="IndexSelectBackward0")
def _(g: Any, self: Any, dim: Any, index: Any) -> Any:
    return aten.index_add.default(aten.new_zeros.default(g, list(self.shape)), dim, index, g), None


@derivative("gather", node="GatherBackward0")
def _(g: Any, self: Any, dim: Any, index: Any) -> Any:
    return aten.scatter_add.default(aten.new_zeros.default(g, list(self.shape)), dim, index, g), None


@derivative("cat", node="CatBackward0")
def _(g: Any, tensors: Any, dim: Any, need: Any) -> Any:
    made, at = [], 0
    for x, wanted in zip(tensors, need["tensors"]):
        size = x.shape[dim]
        made.append(aten.slice.Tensor(g, dim, at, at + size) if wanted else None)
        at += size
    return (made,)


@derivative("_unsafe_view", node="UnsafeViewBackward0")
def _(g: Any, self: Any) -> Any:
    return g.reshape(self.shape)


def _selected(g: Any, indices: Any, self: Any, dim: int, keepdim: bool) -> Any:
    """Zeros with the gradient where the values of a reduction came from."""
    if not self._layout.ndim:
        return g
    if not keepdim:
        g, indices = aten.unsqueeze.default(g, dim), aten.unsqueeze.default(indices, dim)
    return aten.scatter.src(aten.new_zeros.default(g, list(self.shape)), dim, indices, g)


@derivative("max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode", "kthvalue", differentiable=1)
def _(g: Any, self: Any, dim: Any, keepdim: Any, out1: Any) -> Any:
    return _selected(g, out1, self, dim, keepdim)


@derivative("sort.default", "topk", differentiable=1)
def _(g: Any, self: Any, dim: Any, out1: Any) -> Any:
    return _selected(g, out1, self, dim, True)


@derivative("sort.stable", node="SortBackward1", differentiable=1)
def _(g: Any, self: Any, dim: Any, out1: Any) -> Any:
    return _selected(g, out1, self, dim, True)


@derivative("index_put")
def _(g: Any, self: Any, indices: Any, values: Any, accumulate: Any, need: Any) -> Any:
    mine = None
    if need["self"]:
        mine = g if accumulate else aten.index_put.default(g, indices, aten.zeros_like.default(values), False)
    return mine, aten.index.Tensor(g, indices) if need["values"] else None


@derivative("stack")
def _(g: Any, tensors: Any, dim: Any, need: Any) -> Any:
    return ([aten.select.int(g, dim, i) if wanted else None for i, wanted in enumerate(need["tensors"])],)


@derivative("block_diag")
def _(g: Any, tensors: Any, need: Any) -> Any:
    made, row, column = [], 0, 0
    for x, wanted in zip(tensors, need["tensors"]):
        rows, columns = (1, 1, *x.shape)[-2:] if x._layout.ndim else (1, 1)
        part = aten.slice.Tensor(aten.slice.Tensor(g, 0, row, row + rows), 1, column, column + columns)
        made.append(part.reshape(x.shape) if wanted else None)
        row, column = row + rows, column + columns
    return (made,)


@derivative("alias")
def _(g: Any) -> Any:
    return g


@derivative("t")
def _(g: Any) -> Any:
    return aten.t.default(g)


@derivative("transpose.int")
def _(g: Any, dim0: Any, dim1: Any) -> Any:
    return aten.transpose.int(g, dim0, dim1)


@derivative("permute")
def _(g: Any, dims: Any) -> Any:
    inverse = sorted(range(len(dims)), key=lambda i: dims[i] % len(dims))
    return aten.permute.default(g, inverse)


@derivative("view.default")
def _(g: Any, self: Any) -> Any:
    return g.reshape(self.shape)


@derivative("expand")
def _(g: Any, self: Any) -> Any:
    return engine.sum_to_shape(g, self.shape)


@derivative("unsqueeze")
def _(g: Any, dim: Any) -> Any:
    return aten.squeeze.dim(g, dim)


def _unsqueezed(g: Any, self: Any, dims: Any) -> Any:
    shape = self.shape
    for d in sorted({x % max(1, len(shape)) for x in dims}):
        if shape and shape[d] == 1:
            g = aten.unsqueeze.default(g, d)
    return g


@derivative("squeeze.default")
def _(g: Any, self: Any) -> Any:
    return _unsqueezed(g, self, range(len(self.shape)))


@derivative("squeeze.dim", node="SqueezeBackward1")
def _(g: Any, self: Any, dim: Any) -> Any:
    return _unsqueezed(g, self, [dim])


@derivative("squeeze.dims", node="SqueezeBackward2")
def _(g: Any, self: Any, dim: Any) -> Any:
    return _unsqueezed(g, self, dim)


@derivative("select.int")
def _(g: Any, self: Any, dim: Any, index: Any) -> Any:
    return aten.select_backward.default(g, list(self.shape), dim, index)


@derivative("slice.Tensor")
def _(g: Any, self: Any, dim: Any, start: Any, end: Any, step: Any) -> Any:
    first, last = 0 if start is None else start, (1 << 63) - 1 if end is None else end
    return aten.slice_backward.default(g, list(self.shape), dim, first, last, step)


@derivative("diagonal.default")
def _(g: Any, self: Any, offset: Any, dim1: Any, dim2: Any) -> Any:
    return aten.diagonal_backward.default(g, list(self.shape), offset, dim1, dim2)


@derivative("unfold")
def _(g: Any, self: Any, dimension: Any, size: Any, step: Any) -> Any:
    return aten.unfold_backward.default(g, list(self.shape), dimension, size, step)


def _filled(gs: Any, sizes: Any) -> list[Any]:
    """Gradients with zeros in the place of those that didn't come."""
    given = next(g for g in gs if g is not None)
    return [aten.new_zeros.default(given, list(size)) if g is None else g for g, size in zip(gs, sizes)]


@derivative("unbind.int")
def _(gs: Any, self: Any, dim: Any) -> Any:
    shape = list(self.shape)
    del shape[dim]
    return aten.stack.default(_filled(gs, [shape] * len(gs)), dim)


@derivative("split.Tensor")
def _(gs: Any, self: Any, split_size: Any, dim: Any) -> Any:
    whole = self.shape[dim]
    return _joined(gs, self, [min(split_size, whole - i * split_size) for i in range(len(gs))], dim)


@derivative("split_with_sizes")
def _(gs: Any, self: Any, split_sizes: Any, dim: Any) -> Any:
    return _joined(gs, self, split_sizes, dim)


def _joined(gs: Any, self: Any, sizes: Any, dim: Any) -> Any:
    shapes = []
    for size in sizes:
        shape = list(self.shape)
        shape[dim] = size
        shapes.append(shape)
    return aten.cat.default(_filled(gs, shapes), dim)
