"""Distinct values and counts: unique, unique_consecutive, bincount, histc, histogram.

unique sorts (codegen.sorting) and looks where neighbours differ. `unique(dim=...)`, histogram and histogramdd use
NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau.base.dtype import bool_, float32, float64, int64
from flambeau.base.layout import Layout
from flambeau.core import returns
from flambeau.core.create import array_of, copy_array, from_array, from_bfloat16
from flambeau.core.declare import composite
from flambeau.core.derive import NAMESPACE
from flambeau.core.tensor import Tensor, empty_layout, wrap_dim
from flambeau.ops.copy import contiguous
from flambeau.ops.positions import positions
from flambeau.ops.sort import sort_along


def _row(input: Tensor) -> Tensor:
    return contiguous(input.detach()).reshape(-1)


def _runs(row: Tensor) -> tuple[Tensor, Tensor]:
    """(where each run of equal neighbours starts, how long it is)"""
    n = row._layout.numel
    if not n:
        empty = empty_layout(Layout.contiguous((0,), int64, row._layout.device))
        return empty, empty.clone()
    changed = NAMESPACE["ones"]((n,), dtype=bool_)
    if n > 1:
        changed.narrow(0, 1, n - 1).copy_(row.narrow(0, 1, n - 1) != row.narrow(0, 0, n - 1))
    starts = positions(changed, flat=True)
    ends = NAMESPACE["cat"]((starts.narrow(0, 1, starts._layout.numel - 1), NAMESPACE["full"]((1,), n, dtype=int64)))
    return starts, ends - starts


def _numbered(counts: Tensor) -> Tensor:
    """The number of its run for every element."""
    return NAMESPACE["repeat_interleave"](counts)


def _answer(values: Tensor, inverse: Tensor | None, counts: Tensor | None) -> Any:
    found = (values, *[x for x in (inverse, counts) if x is not None])
    return found if len(found) > 1 else values


@composite(method=False)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in ascending order (with `dim`: distinct slices), and on request for each element the
    position of its value,
    and how often each occurs."""
    if dim is not None:
        return _unique_slices(input, dim, return_inverse, return_counts)
    row = _row(input)
    ordered, order = sort_along(row, -1, False)
    starts, counts = _runs(ordered)
    inverse = None
    if return_inverse:
        inverse = (
            NAMESPACE["empty"]((row._layout.numel,), dtype=int64)
            .scatter_(0, order, _numbered(counts))
            .reshape(input._layout.shape)
        )
    return _answer(ordered.index_select(0, starts), inverse, counts if return_counts else None)


def _unique_method(self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
                   dim: int | None = None) -> Any:
    """torch.unique of this tensor."""
    return NAMESPACE["unique"](self, sorted, return_inverse, return_counts, dim)


Tensor.unique = _unique_method  # type: ignore[attr-defined]


def _unique_slices(input: Tensor, dim: int, return_inverse: bool, return_counts: bool) -> Any:
    at = wrap_dim(dim, input._layout.ndim)
    n = input._layout.shape[at]
    moved = contiguous(input.detach().movedim(at, 0))
    if 0 in input._layout.shape and any(s == 0 for d, s in enumerate(input._layout.shape) if d != at):
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    rows = _comparable(moved).reshape(n, -1)
    order = np.lexsort(rows.T[::-1]) if n and rows.shape[1] else np.arange(n)
    rows = rows[order]
    changed = np.ones(n, bool)
    if n > 1:
        changed[1:] = (rows[1:] != rows[:-1]).any(1)
    starts = np.flatnonzero(changed)
    values = input.detach().index_select(at, copy_array(order[starts].astype(np.int64)))
    inverse = np.empty(n, np.int64)
    inverse[order] = np.cumsum(changed) - 1
    counts = np.diff(np.append(starts, n)).astype(np.int64)
    return _answer(
        values, from_array(inverse) if return_inverse else None, copy_array(counts) if return_counts else None
    )


def _comparable(tensor: Tensor) -> np.ndarray:
    array = array_of(tensor)
    return from_bfloat16(array) if tensor._layout.dtype.name == "bfloat16" else array


@composite()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of every run of equal neighbours (slices along `dim`), and on request each element's run and the
    runs' lengths."""
    if dim is None:
        row = _row(input)
        starts, counts = _runs(row)
        inverse = _numbered(counts).reshape(input._layout.shape) if return_inverse else None
        return _answer(row.index_select(0, starts), inverse, counts if return_counts else None)
    at = wrap_dim(dim, input._layout.ndim)
    n = input._layout.shape[at]
    rows = _comparable(contiguous(input.detach().movedim(at, 0))).reshape(n, -1)
    changed = np.ones(n, bool)
    if n > 1:
        changed[1:] = (rows[1:] != rows[:-1]).any(1)
    starts = np.flatnonzero(changed).astype(np.int64)
    counts = np.diff(np.append(starts, n)).astype(np.int64)
    values = input.detach().index_select(at, copy_array(starts))
    return _answer(values, from_array((np.cumsum(changed) - 1).astype(np.int64)) if return_inverse else None,
                   copy_array(counts) if return_counts else None)


# ---------------------------------------------------------------- counts


@composite(out=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2, ... occurs in a vector of non-negative integers; with `weights`, the sum of theirs."""
    layout = input._layout
    if layout.dtype.is_floating_point or layout.dtype.is_complex or layout.dtype.name == "bool":
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{layout.dtype.scalar_name}'")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if layout.ndim != 1 or (layout.numel and int(input.min().item()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and tuple(weights._layout.shape) != tuple(layout.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    size = max(int(input.max().item()) + 1 if layout.numel else 0, minlength)
    where = input.detach().to(int64)
    if weights is None:
        return NAMESPACE["zeros"]((size,), dtype=int64).index_add_(
            0, where, NAMESPACE["ones"]((1,), dtype=int64).expand(layout.numel)
        )
    values = weights.detach()
    values = values if values._layout.dtype is float32 else values.to(float64)
    return NAMESPACE["zeros"]((size,), dtype=values._layout.dtype).index_add_(0, where, values)


@composite(out=True)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts of the elements in `bins` equal bins from min to max (both 0: of the data); what lies outside is left
    out."""
    layout = input._layout
    if not layout.dtype.is_floating_point:
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{layout.dtype.scalar_name}'")
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    values = input.detach()
    low, high = float(min), float(max)
    if low == high and layout.numel:
        low, high = float(values.min().item()), float(values.max().item())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histogram(): range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    if low < high:
        place = ((values - low) * (bins / (high - low))).clamp(0, bins - 1)
    else:       # numbers so large that 1 less and 1 more are the same
        place = NAMESPACE["full_like"](values, bins // 2)
    # what lies outside, and NaN, is counted in a bin of its own
    place = NAMESPACE["where"]((values >= low) & (values <= high), place, bins).to(int64).reshape(-1)
    ones = NAMESPACE["ones"]((1,), dtype=int64).expand(layout.numel)
    counts = NAMESPACE["zeros"]((bins + 1,), dtype=int64).index_add_(0, place, ones)
    return counts.narrow(0, 0, bins).to(layout.dtype)


def _edges(values: np.ndarray, bins: int, range: Sequence[float] | None, dtype: Any) -> Tensor:
    low, high = (float(range[0]), float(range[1])) if range is not None else (
        (float(values.min()), float(values.max())) if values.size else (0.0, 1.0))
    if low > high:
        raise RuntimeError("torch.histogram(): min should not exceed max, but got min " f"{low:g} max {high:g}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return NAMESPACE["linspace"](low, high, bins + 1, dtype=dtype)


@composite()
def histogram(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Any:
    """Counts (or sums of weights, or densities) of the elements between bin edges: a named tuple (hist, bin_edges).

    bins: a number of equal bins over `range` (default: of the data), or a tensor of ascending edges.
    """
    dtype = input._layout.dtype
    values = _comparable(_row(input))
    edges = bins.detach() if isinstance(bins, Tensor) else _edges(values, int(bins), range, dtype)
    bounds = _comparable(contiguous(edges))
    n = len(bounds) - 1
    inside = (values >= bounds[0]) & (values <= bounds[-1])
    place = np.clip(np.searchsorted(bounds, values[inside], side="right") - 1, 0, n - 1)
    weights = None if weight is None else _comparable(_row(weight))[inside]
    counts = np.bincount(place, weights, minlength=n).astype(np.float64)
    if density:
        counts = counts / (counts.sum() * np.diff(bounds.astype(np.float64)))
    made = returns.histogram((copy_array(counts).to(dtype), edges))
    if out is not None:
        for target, value in zip(out, made):
            target.copy_(value)
        return returns.histogram(out)
    return made


@composite()
def histogramdd(input: Tensor, bins: Any, *, range: Sequence[float] | None = None, weight: Tensor | None = None,
                density: bool = False) -> Any:
    """Counts of points (the last dimension of `input`) in a grid: a named tuple (hist, bin_edges), a tuple of edges
    per dimension."""
    dtype = input._layout.dtype
    dims = input._layout.shape[-1]
    points = (
        _comparable(contiguous(input.detach())).reshape(-1, dims)
        if input._layout.numel
        else np.empty((0, dims), np.float64)
    )
    given = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(given) != dims:
        raise RuntimeError(f"torch.histogramdd(): expected {dims} sequences of bins, but got {len(given)}")
    edges = [
        b.detach()
        if isinstance(b, Tensor)
        else _edges(points[:, d], int(b), None if range is None else range[2 * d : 2 * d + 2], dtype)
        for d, b in enumerate(given)
    ]
    bounds = [_comparable(contiguous(e)) for e in edges]
    shape = tuple(len(b) - 1 for b in bounds)
    inside = np.ones(len(points), bool)
    place = np.zeros(len(points), np.int64)
    for d, b in enumerate(bounds):
        column = points[:, d]
        inside &= (column >= b[0]) & (column <= b[-1])
        place = place * shape[d] + np.clip(np.searchsorted(b, column, side="right") - 1, 0, shape[d] - 1)
    weights = None if weight is None else _comparable(_row(weight))[:len(points)][inside]
    counts = np.bincount(place[inside], weights, minlength=int(np.prod(shape))).astype(np.float64).reshape(shape)
    if density:
        with np.errstate(invalid="ignore", divide="ignore"):
            counts = counts / counts.sum()
            for d, b in enumerate(bounds):
                counts = counts / np.diff(b.astype(np.float64)).reshape([-1 if e == d else 1 for e in np.arange(dims)])
    return returns.histogramdd((copy_array(np.ascontiguousarray(counts)).to(dtype), tuple(edges)))


@composite(method=False)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, one tensor for each dimension of `shape`, of flat positions."""
    if indices._layout.dtype.is_floating_point or indices._layout.dtype.is_complex or indices._layout.dtype is bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices._layout.dtype}")
    sizes = (int(shape),) if not isinstance(shape, (tuple, list)) else tuple(int(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    step, found = 1, []
    for n in reversed(sizes):
        found.append(indices.div(step, rounding_mode="floor") % n)
        step *= n
    return tuple(reversed(found))
