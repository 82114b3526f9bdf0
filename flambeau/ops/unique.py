"""Distinct values and counts: unique, unique_consecutive, bincount, histc, histogram.

unique sorts (codegen.sorting) and looks where neighbours differ; histograms search their edges and add up. Written in
other operators.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from flambeau.base.dtype import bool_, float32, float64, int64
from flambeau.base.geometry import wrap_dim
from flambeau.core import returns
from flambeau.core.declare import composite
from flambeau.core.derive import NAMESPACE
from flambeau.core.tensor import Tensor
from flambeau.core.variants import deliver
from flambeau.ops.copy import contiguous
from flambeau.ops.positions import positions
from flambeau.ops.sort import sort_along


def _row(input: Tensor) -> Tensor:
    return contiguous(input.detach()).reshape(-1)


def _runs(changed: Tensor) -> tuple[Tensor, Tensor]:
    """(where each run starts, how long it is), from whether each element differs from the one before it."""
    starts = positions(changed, flat=True)
    n = starts._layout.numel
    if not n:
        return starts, starts.clone()
    ends = NAMESPACE["cat"]((starts.narrow(0, 1, n - 1), NAMESPACE["full"]((1,), changed._layout.numel, dtype=int64)))
    return starts, ends - starts


def _changes(rows: Tensor) -> Tensor:
    """Whether each row (or element of a vector) differs from the one before it; the first does."""
    n = rows._layout.shape[0]
    changed = NAMESPACE["ones"]((n,), dtype=bool_)
    if n > 1:
        differs = rows.narrow(0, 1, n - 1) != rows.narrow(0, 0, n - 1)
        changed.narrow(0, 1, n - 1).copy_(differs if differs._layout.ndim == 1 else differs.any(1))
    return changed


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
    starts, counts = _runs(_changes(ordered))
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


def _slices(input: Tensor, at: int) -> Tensor:
    """The slices along a dimension as rows of a matrix."""
    size = math.prod([n for d, n in enumerate(input._layout.shape) if d != at])
    if not size:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return contiguous(input.detach().movedim(at, 0)).reshape(input._layout.shape[at], size)


def _unique_slices(input: Tensor, dim: int, return_inverse: bool, return_counts: bool) -> Any:
    at = wrap_dim(dim, input._layout.ndim)
    rows = _slices(input, at)
    order = NAMESPACE["arange"](rows._layout.shape[0])
    for column in reversed(range(rows._layout.shape[1])):  # sorts are stable, so the first column decides in the end
        order = order.index_select(0, sort_along(rows.select(1, column).index_select(0, order), 0, False)[1])
    starts, counts = _runs(_changes(rows.index_select(0, order)))
    values = input.detach().index_select(at, order.index_select(0, starts))
    inverse = NAMESPACE["empty_like"](order).scatter_(0, order, _numbered(counts)) if return_inverse else None
    return _answer(values, inverse, counts if return_counts else None)


@composite()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of every run of equal neighbours (slices along `dim`), and on request each element's run and the
    runs' lengths."""
    if dim is None:
        row = _row(input)
        starts, counts = _runs(_changes(row))
        inverse = _numbered(counts).reshape(input._layout.shape) if return_inverse else None
        return _answer(row.index_select(0, starts), inverse, counts if return_counts else None)
    at = wrap_dim(dim, input._layout.ndim)
    starts, counts = _runs(_changes(_slices(input, at)))
    values = input.detach().index_select(at, starts)
    return _answer(values, _numbered(counts) if return_inverse else None, counts if return_counts else None)


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


def _edges(values: Tensor, bins: int, range: Sequence[float] | None, dtype: Any) -> Tensor:
    low, high = (float(range[0]), float(range[1])) if range is not None else (
        (float(values.min().item()), float(values.max().item())) if values._layout.numel else (0.0, 1.0))
    if low > high:
        raise RuntimeError("torch.histogram(): min should not exceed max, but got min " f"{low:g} max {high:g}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return NAMESPACE["linspace"](low, high, bins + 1, dtype=dtype)


def _bins(values: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """(the bin of each value, whether it lies within the edges): bins hold their lower edge, the last one both."""
    n = edges._layout.numel - 1
    bin_ = NAMESPACE["searchsorted"](edges, values, right=True) - 1
    return bin_.clamp(0, n - 1), (values >= edges[0]) & (values <= edges[n])


def _counted(bin_: Tensor, inside: Tensor, weight: Tensor | None, n: int) -> Tensor:
    """The number (or the weight) in each of n bins, in float64; what isn't `inside` counts for nothing."""
    each = inside.to(float64) if weight is None else NAMESPACE["where"](inside, _row(weight).to(float64), 0.0)
    return NAMESPACE["zeros"]((n,), dtype=float64).index_add_(0, bin_, each)


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
    values = _row(input)
    edges = contiguous(bins.detach()) if isinstance(bins, Tensor) else _edges(values, int(bins), range, dtype)
    bin_, inside = _bins(values, edges)
    counts = _counted(bin_, inside, weight, edges._layout.numel - 1)
    if density:
        counts = counts / (counts.sum() * edges.to(float64).diff())
    made = returns.histogram((counts.to(dtype), edges))
    return made if out is None else deliver(out, made, "histogram")


@composite()
def histogramdd(input: Tensor, bins: Any, *, range: Sequence[float] | None = None, weight: Tensor | None = None,
                density: bool = False) -> Any:
    """Counts of points (the last dimension of `input`) in a grid: a named tuple (hist, bin_edges), a tuple of edges
    per dimension."""
    dtype = input._layout.dtype
    dims = input._layout.shape[-1]
    points = input.detach().reshape(-1, dims)
    given = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(given) != dims:
        raise RuntimeError(f"torch.histogramdd(): expected {dims} sequences of bins, but got {len(given)}")
    edges = [
        contiguous(b.detach())
        if isinstance(b, Tensor)
        else _edges(points.select(1, d), int(b), None if range is None else range[2 * d : 2 * d + 2], dtype)
        for d, b in enumerate(given)
    ]
    shape = tuple(e._layout.numel - 1 for e in edges)
    inside = NAMESPACE["ones"]((points._layout.shape[0],), dtype=bool_)
    place = NAMESPACE["zeros"]((points._layout.shape[0],), dtype=int64)
    for d, e in enumerate(edges):
        bin_, within = _bins(contiguous(points.select(1, d)), e)
        place, inside = place * shape[d] + bin_, inside & within
    counts = _counted(place, inside, weight, math.prod(shape)).reshape(shape)
    if density:
        counts = counts / counts.sum()
        for d, e in enumerate(edges):
            counts = counts / e.to(float64).diff().reshape([-1 if other == d else 1 for other in builtins.range(dims)])
    return returns.histogramdd((counts.to(dtype), tuple(edges)))


@composite(method=False)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, one tensor for each dimension of `shape`, of flat positions."""
    if indices._layout.dtype.is_floating_point or indices._layout.dtype.is_complex or indices._layout.dtype is bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices._layout.dtype}")
    sizes = (int(shape),) if not isinstance(shape, (tuple, list)) else tuple(int(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    indices = indices.to(int64)
    step, found = 1, []
    for n in reversed(sizes):
        found.append(indices.div(step, rounding_mode="floor") % n)
        step *= n
    return tuple(reversed(found))
