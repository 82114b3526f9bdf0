"""Sums, norms and softmax over the elements of sparse tensors. Stands on conversions."""

from __future__ import annotations

import math
from typing import Any

from flambeau.base import layout as layouts
from flambeau.base.dtype import int64
from flambeau.base.geometry import wrap_dim
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.sparse.conversions import coalesce, to_sparse
from flambeau.ops.sparse.places import added_up, count_of, keys_of, places_of_values
from flambeau.ops.sparse.tensor import SparseCompressed, SparseCoo, SparseTensor, compressed, coo, refused, renamed, rule


def _dims(x: Any, dim: Any) -> list[int]:
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    dims = sorted(wrap_dim(d, x._layout.ndim) for d in given)
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"dim {next(d for d in dims if dims.count(d) > 1)} appears multiple times in the list of dims")
    return dims


@rule("sum")
def sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of all elements, or along dimensions: sparse as long as a sparse dimension is left."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return x._entries.sum(dtype=dtype)
    if isinstance(x, SparseCompressed):
        return _sum_compressed(x, _dims(x, dim), keepdim, dtype)
    own = x._layout.dtype
    if dtype is None and not (own.is_floating_point or own.is_complex):
        dtype = int64  # as of a strided tensor; torch.sparse.sum keeps the dtype
    made = sparse_sum(x, dim, dtype)
    if keepdim:
        for d in _dims(x, dim):
            made = made.unsqueeze(d)
    return made


def sparse_sum(x: Any, dim: Any = None, dtype: Any = None) -> Any:
    """torch.sparse.sum: the sum of all elements, or along dimensions."""
    if not isinstance(x, SparseTensor):
        raise refused("_indices", x)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return coalesce(x)._entries.sum(dtype=dtype)
    if isinstance(x, SparseCompressed):
        raise refused("_indices", x)
    dims, sparse = _dims(x, dim), x._places._layout.shape[0]
    x = coalesce(x)
    entries = x._entries if dtype is None else x._entries.to(dtype)
    inside = [d - sparse + 1 for d in dims if d >= sparse]
    if inside:
        entries = entries.sum(inside)
    left = [d for d in range(sparse) if d not in dims]
    shape = [n for d, n in enumerate(x._layout.shape) if d not in dims]
    if not left:
        return renamed(entries.sum(0), "SparseSumBackward0")
    if len(left) == sparse:
        return renamed(coo(x._places, entries, shape, True), "SparseSumBackward0")
    places = x._places.index_select(0, NAMESPACE["tensor"](left))
    return renamed(coalesce(coo(places, entries, shape)), "SparseSumBackward0")


def _sum_compressed(x: SparseCompressed, dims: list[int], keepdim: bool, dtype: Any) -> Any:
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if x.layout is not layouts.sparse_csr or x._layout.ndim > 2:
        raise refused("sum.dim_IntList", x)
    entries = x._entries if dtype is None else x._entries.to(dtype)
    high, wide = x._layout.shape
    if dims == [0, 1]:
        some = min(1, entries._layout.numel)
        return compressed(
            NAMESPACE["tensor"]([0, some]),
            NAMESPACE["zeros"]((some,), dtype=int64),
            entries.sum().reshape(1)[:some],
            (1, 1),
            x.layout,
        )
    rows, columns = places_of_values(x).unbind(0)
    if dims == [1]:
        sizes = x._bounds.diff().clamp(max=1)
        present = NAMESPACE["nonzero"](sizes).reshape(-1)
        totals = added_up(entries, rows, high).index_select(0, present)
        bounds = NAMESPACE["cat"]([NAMESPACE["zeros"]((1,), dtype=sizes._layout.dtype), sizes.cumsum(0)])
        return compressed(bounds, NAMESPACE["zeros_like"](present), totals, (high, 1), x.layout)
    present, at = NAMESPACE["unique"](columns, return_inverse=True)
    count = present._layout.numel
    return compressed(NAMESPACE["tensor"]([0, count]), present, added_up(entries, at, count), (1, wide), x.layout)


@rule("norm")
def norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The norm of all elements."""
    if not isinstance(x, SparseCoo):
        raise refused("norm.out", x)
    if dim is not None and (not isinstance(dim, (tuple, list)) or (dim and len(_dims(x, dim)) < x._layout.ndim)):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all "
            "dimensions of the input"
        )
    return coalesce(x)._entries.norm(2 if p in ("fro", None) else p, dtype=dtype)


@rule("any")
def any(x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether some element isn't zero."""
    if dim is not None or not isinstance(x, SparseCoo):
        raise refused("any", x)
    return x._entries.any()


# ---------------------------------------------------------------- softmax


def softmax(x: Any, dim: int, dtype: Any = None, logarithm: bool = False) -> Any:
    """Softmax over the elements that are there: what has no value counts as minus infinity."""
    title = "sparse_log_softmax" if logarithm else "sparse_softmax"
    if not isinstance(x, SparseCoo):
        raise refused("_" + title, x)
    x = coalesce(x if dtype is None else x.to(dtype))
    dim, sparse = wrap_dim(dim, x._layout.ndim), x._places._layout.shape[0]
    if not x._entries._layout.shape[0]:
        return x.like(x._entries)
    if dim >= sparse:
        entries = getattr(x._entries, "log_softmax" if logarithm else "softmax")(dim - sparse + 1)
    else:
        others = [d for d in range(sparse) if d != dim]
        shape = [x._layout.shape[d] for d in others]
        lines = keys_of(x._places.index_select(0, NAMESPACE["tensor"](others)), shape) if others else x._places[0] * 0
        entries = _over_lines(x._entries, lines, count_of(shape), logarithm)
    return renamed(x.like(entries), "SparseLogSoftmaxBackward0" if logarithm else "SparseSoftmaxBackward0")


def _over_lines(entries: Tensor, lines: Tensor, count: int, logarithm: bool) -> Tensor:
    """Softmax of the values of each line."""
    shape = (count, *entries._layout.shape[1:])
    at = lines.reshape((-1,) + (1,) * (entries._layout.ndim - 1)).expand(entries._layout.shape)
    lowest = NAMESPACE["full"](shape, -math.inf, dtype=entries._layout.dtype)
    largest = lowest.scatter_reduce(0, at, entries.detach(), "amax").index_select(0, lines)
    largest = NAMESPACE["where"](largest.isinf(), 0, largest)
    shifted = entries - largest
    powers = shifted.exp()
    totals = added_up(powers, lines, count).index_select(0, lines)
    return shifted - totals.log() if logarithm else powers / totals


__all__ = ["norm", "softmax", "sparse_sum", "sum", "to_sparse"]
