"""Counts in bins: histc, histogram, histogramdd and bincount.

All are one kernel (codegen.ordering.counting) over points and the edges of their bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau.base import scalar_range
from flambeau.base.dtype import bool_, float32, float64, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.codegen.ordering import counting
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.core.autograd.inplace import owned
from flambeau.core.autograd.undefined import recorded
from flambeau.core.operator import return_types
from flambeau.core.operator.arguments import no_combination
from flambeau.core.operator.define import composite
from flambeau.core.operator.facets import described, record_of
from flambeau.core.operator.out_argument import deliver
from flambeau.core.operator.out_rules import OUT_ONLY, UNRECORDED, Out, check_early, worded
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.indexing.gather_plans import plans


def _count(
    points: Tensor,
    bins: tuple[int, ...],
    way: str | None,
    edges: Sequence[Tensor] = (),
    weights: Tensor | None = None,
    ends: tuple[float, ...] = (),
    dtype: DType | None = None,
    in_order: bool = False,
) -> Tensor:
    """The counts (or sums of weights) in all bins, in one row of `dtype` (default: that of the points)."""
    layout = points._layout
    dtype = dtype or layout.dtype
    given = [points, *edges] if weights is None else [points, *edges, weights]
    key = ("counting", bins, way, dtype, in_order, planned_threads(), weights is None, *[x._layout for x in given])
    launch = plans.get(key)
    if launch is None:
        out = Layout.contiguous((math.prod(bins),), dtype, layout.device)
        launch = plans[key] = counting.counting_plan(
            out, layout, bins, way, [e._layout for e in edges], None if weights is None else weights._layout, in_order
        )
    return launch(None, *given, *ends)


def _extent(values: Tensor) -> tuple[float, float]:
    """The smallest and the largest value, as Python numbers."""
    low, high = NAMESPACE["aminmax"](values)
    return low.item(), high.item()


# ---------------------------------------------------------------- bincount


@composite()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2, ... occurs in a vector of non-negative integers; with `weights`, the sum of theirs.

    input: (n,); weights: (n,), summed in float32 if that is their dtype, else in float64. Returns (max(input) + 1,), at least
    (minlength,), int64 without weights. Raises RuntimeError for negative numbers.
    """
    layout = input._layout
    if layout.dtype.is_floating_point or layout.dtype.is_complex or layout.dtype is bool_:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{layout.dtype.scalar_name}'")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    values = input.detach()
    if not known(values):
        raise needs_values(values, "bincount")
    low, high = map(int, _extent(values)) if layout.ndim == 1 and layout.numel else (0, -1)
    if layout.ndim != 1 or low < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and tuple(weights._layout.shape) != tuple(layout.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if not layout.numel:
        return NAMESPACE["zeros"]((minlength,), dtype=int64, device=layout.device)
    bins = (max(high + 1, minlength),)
    where = contiguous(values.to(int64))
    if weights is None:
        return _count(where, bins, None, dtype=int64)
    dtype = float32 if weights._layout.dtype is float32 else float64
    counts = _count(where, bins, None, weights=contiguous(weights.detach().to(dtype)), dtype=dtype, in_order=True)
    return recorded("aten::bincount", counts, (input, weights))


# ---------------------------------------------------------------- histograms


def _refuse_bins(bins: int, dim: int = 0) -> None:
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}")


_HISTC_DTYPE = worded(
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {own} and hist {other}"
)


@composite(out=Out(dtype=_HISTC_DTYPE, graph=UNRECORDED, refuses_first=True))
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts of the elements in `bins` equal bins from min to max (both 0: of the data), (bins,) of the input's dtype; what
    lies outside, and NaN, is left out. Raises RuntimeError for no bins, and for ends that are not finite.
    """
    layout = input._layout
    dtype = layout.dtype
    if dtype.is_complex:
        kernel = "aminmax_cpu" if min == max and layout.numel else "histogram_cpu"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")
    _refuse_bins(bins)
    scalar_range.check(float(min), dtype)
    scalar_range.check(float(max), dtype)
    if not dtype.is_floating_point:
        kernel = "linspace_cpu" if dtype is bool_ else "histogram_cpu"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")
    values = contiguous(input.detach()).reshape(-1)
    low, high = float(min), float(max)
    if low == high and layout.numel and known(input):
        low, high = _extent(values)
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    return _count(values, (bins,), "equal", ends=(low, high))


def _edges(points: Tensor, values: Tensor | None, bins: int, ends: Sequence[float] | None, dim: int) -> Tensor:
    """The edges of equal bins, from one end of a range (default: of the values) to the other, of the points' dtype."""
    _refuse_bins(bins, dim)
    if ends is not None:
        low, high = float(ends[0]), float(ends[1])
    else:
        low, high = (0.0, 1.0) if values is None or not known(values) else _extent(values)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension {dim}'s range [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {dim}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return NAMESPACE["linspace"](low, high, bins + 1, dtype=points._layout.dtype, device=points._layout.device)


def _given_edges(edges: Tensor, dtype: DType, dim: int) -> Tensor:
    """Edges as the caller gave them; RuntimeError for another dtype, more dimensions or none at all."""
    layout = edges._layout
    if layout.dtype is not dtype:
        raise RuntimeError(
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with "
            f"dtype {dtype.c_name} and bins for dimension {dim} with dtype {layout.dtype.c_name}"
        )
    if layout.ndim != 1:
        raise RuntimeError(
            f"torch.histogramdd: bins tensor should have one dimension, but got {layout.ndim} dimensions in the "
            f"bins tensor for dimension {dim}"
        )
    if not layout.numel:
        raise RuntimeError(
            "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor "
            f"for dimension {dim}"
        )
    _refuse_bins(layout.numel - 1, dim)
    return contiguous(edges.detach())


def _histogram(
    points: Tensor,
    shape: tuple[int, ...],
    bins: Sequence[Any],
    ends: Sequence[float] | None,
    weight: Tensor | None,
    density: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """(counts, edges) of points of `shape`, (*, dims); bins: numbers of equal bins, or edges, for each coordinate."""
    layout = points._layout
    dtype, dims = layout.dtype, shape[-1]
    if dtype not in (float32, float64):
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{dtype.scalar_name}'")
    if ends is not None and len(ends) != 2 * dims:
        raise RuntimeError(
            f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} elements, but got {len(ends)}"
        )
    plain = contiguous(tensor_from(points._storage, points._offset, layout))
    rows = tensor_from(plain._storage, plain._offset, Layout.contiguous((math.prod(shape[:-1]), dims), dtype, layout.device))
    way = "searched" if any(isinstance(b, Tensor) for b in bins) else "near"
    if way == "searched":
        edges = tuple(_given_edges(b, dtype, d) for d, b in enumerate(bins))
    else:
        columns = [None] * dims if not layout.numel else [plain] if dims == 1 else rows.unbind(1)
        edges = tuple(
            [_edges(points, columns[d], int(b), None if ends is None else ends[2 * d : 2 * d + 2], d) for d, b in enumerate(bins)]
        )
    if weight is not None:
        if weight._layout.dtype is not dtype:
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the "
                f"same dtype, but got input({dtype.c_name}), and weight({weight._layout.dtype.c_name})"
            )
        if tuple(weight._layout.shape) != shape[:-1]:
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided it should have the same shape as the input "
                f"tensor excluding its innermost dimension, but got input with shape {list(shape)} and "
                f"weight with shape {list(weight._layout.shape)}"
            )
        weight = contiguous(weight.detach()).reshape(-1)
    sizes = tuple([e._layout.numel - 1 for e in edges])
    if not dims or not all(sizes):
        counts = NAMESPACE["zeros"](sizes, dtype=dtype, device=layout.device)
    else:
        counts = _count(rows, sizes, way, edges, weight)
        counts = counts if dims == 1 else owned(counts.reshape(sizes))
    if density:
        counts = counts / counts.sum()
        for d, e in enumerate(edges):
            counts = counts / e.diff().reshape([-1 if other == d else 1 for other in range(dims)])
    return counts, edges


@described(out=Out(graph=OUT_ONLY))
@composite()
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Any:
    """Counts (or sums of weights, or densities) of the elements between bin edges: a named tuple (hist, bin_edges).

    bins: a number of equal bins over `range` (default: of the data), or a tensor of ascending edges; weight: of the shape of
    input. Both results have the input's dtype, float32 or float64. Raises RuntimeError for a range that is not finite or
    descends, and for edges or weights of another dtype or shape.
    """
    if not isinstance(bins, (Tensor, int)) or isinstance(bins, bool) or (isinstance(bins, Tensor) and range is not None):
        raise no_combination("histogram", (input, bins), {} if range is None else {"range": range})
    if out is not None:
        check_early(record_of("histogram"), out, lambda: (input, bins))
    counts, edges = _histogram(input, (*input._layout.shape, 1), [bins], range, weight, density)
    made = return_types.histogram((counts, edges[0]))
    if out is None:
        return recorded("aten::histogram", made, (input, bins, weight))
    for name, tensor in zip(("hist", "bin_edges"), out if isinstance(out, (tuple, list)) else ()):
        if isinstance(tensor, Tensor) and tensor._layout.dtype is not input._layout.dtype:
            raise RuntimeError(
                f"torch.histogram: input tensor and {name} tensor should have the same dtype, but got input "
                f"{input._layout.dtype.c_name} and {name} {tensor._layout.dtype.c_name}"
            )
    return deliver(out, made, record_of("histogram"), (input,))


@composite(method=False)
def histogramdd(
    input: Tensor, bins: Any, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """Counts of points in a grid of bins: a named tuple (hist, bin_edges), a tuple of edges per coordinate.

    input: (*, dims), float32 or float64; bins: a number of equal bins, one number per coordinate, or a tensor of edges per
    coordinate; range: both ends for each coordinate, one after the other; weight: (*). hist has as many dimensions as a point.
    """
    ndim = input._layout.ndim
    if not ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    dims = input._layout.shape[-1]
    given = [bins] * dims if isinstance(bins, int) else list(bins)
    if any(isinstance(b, Tensor) for b in given):
        for at, b in enumerate(given):
            if not isinstance(b, Tensor):
                raise TypeError(f"expected Tensor as element {at} in argument 1, but got {type(b).__name__}")
        if len(given) != dims:
            raise RuntimeError(
                f"torch.histogramdd: expected {dims} sequences of bin edges for a {dims}-dimensional histogram "
                f"but got {len(given)}"
            )
    elif len(given) != dims:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    counts, edges = _histogram(input, tuple(input._layout.shape), given, range, weight, density)
    step = "tensors" if isinstance(given[0], Tensor) else "cts"
    recorded(f"aten::_histogramdd_from_bin_{step}", counts, (input, *given, weight))
    if step == "cts":
        recorded("aten::_histogramdd_bin_edges", edges, (input, weight))
    return return_types.histogramdd((counts, edges))
