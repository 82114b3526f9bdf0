"""Sums, means, products, truth and counts; the ground of the other reductions.

A reduction is a row program (core.operator.row_program): one pass over memory, cut into chunks for all threads when the
rows are long; plans are kept by layout and dimensions (`Reducer`). float32 accumulates in float64, half precision in
float32, so that long sums stay exact to the last place. ops.reduction.extrema, ops.reduction.variance,
ops.reduction.vector_norm and the losses stand on it.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import asked_for, bool_, float32, float64, int64, uint8
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.core.modes.autocast import single
from flambeau.core.operator.annotations import Planned
from flambeau.core.operator.arguments import is_int
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import CONSTANT, LINEAR
from flambeau.core.operator.out_rules import BEFORE_DTYPE, UNRECORDED, Out, any_dtype, bools
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.row_program import KEEPDIM, KEPT, Rows
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import found
from flambeau.ir import scalar as s
from flambeau.ir.loops import Fold, Loop, Row, folded
from flambeau.ir.scalar import cast, compute_dtype, constant


def wide(dtype: DType) -> DType:
    """The dtype in which sums of `dtype` run: float64 for float32, float32 for half precision, else itself."""
    if dtype is float32:
        return float64
    return s.compute_dtype(dtype)


def reduction_dims(name: str, dim: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions that a `dim` argument names, ascending; None and () name all. TypeError if they are no integers."""
    if dim is None or dim.__class__ is int:
        return geometry.wrap_reduction_dims(dim, ndim)
    if isinstance(dim, (list, tuple)):
        try:
            return geometry.wrap_reduction_dims([d.__index__() for d in dim], ndim)
        except AttributeError:
            pass
    elif hasattr(dim, "__index__"):
        return geometry.wrap_reduction_dims(dim.__index__(), ndim)
    raise TypeError(f"{name}(): argument 'dim' must be tuple of ints, not {type(dim).__name__}")


def one_dim(name: str, dim: Any, ndim: int) -> int:
    """The dimension that a `dim` argument names, counted from the front."""
    if dim.__class__ is not int:
        if not is_int(dim):
            raise TypeError(f"{name}(): argument 'dim' must be int, not {type(dim).__name__}")
        dim = dim.__index__()
    return geometry.wrap_dim(dim, ndim)


def hashable(dim: Any) -> Any:
    return tuple(dim) if dim.__class__ is list else dim


class Reducer:
    """The plans of one reduction under (layout, dim, keepdim, more); `prepare` makes what is missing.

    prepare(input, dim, keepdim, *more) -> a callable `run(input)`.
    """

    def __init__(self, prepare: Callable[..., Callable]):
        self.prepare = prepare
        self.plans: dict[Any, Callable] = register_cache({})

    def specialize(self, input: Tensor, dim: Any, keepdim: Any, *more: Any) -> Any:
        """Run a call whose plan is not known (or whose dims are a list)."""
        key = (input._layout, hashable(dim), keepdim, *more)
        try:
            run = self.plans.get(key)
        except TypeError:
            run = None
            key = None
        if run is None:
            run = self.prepare(input, dim, keepdim, *more)
            if key is not None:
                self.plans[key] = run
        return run


def overloads(title: str, whole: int = 0) -> Callable[[Sequence[Any]], str]:
    """The node name of an operator that PyTorch has twice: over everything, and over a dimension (the second argument)."""
    names = (f"{title}Backward{whole}", f"{title}Backward{1 - whole}")
    return lambda arguments: names[0] if arguments[1] is None else names[1]


def spread(g: Tensor, layout: Layout, dim: Any, keepdim: builtins.bool) -> Tensor:
    """A tensor without (or with size 1 in) the reduced dimensions, as a view in the shape before the reduction."""
    if dim is not None and not keepdim and layout.ndim:
        for d in geometry.wrap_reduction_dims(dim, layout.ndim):
            g = g.unsqueeze(d)
    return g.expand(layout.shape)


def kept(x: Tensor, layout: Layout, dim: Any, keepdim: builtins.bool) -> Tensor:
    """A reduced tensor with size 1 in the reduced dimensions (or none at all: that broadcasts as well)."""
    if not keepdim and dim is not None and layout.ndim:
        for d in geometry.wrap_reduction_dims(dim, layout.ndim):
            x = x.unsqueeze(d)
    return x


def form(keepdim: Any) -> str:
    return KEEPDIM if keepdim else KEPT


def count_of(layout: Layout, dims: Sequence[int]) -> int:
    return math.prod([layout.shape[d] for d in dims])


CACHED_ROW = 1 << 16  # elements of a row that stay in cache between two passes over it


def stays_cached(layout: Layout, dims: Sequence[int]) -> builtins.bool:
    """Whether what is reduced to one result (256 of them where columns are read side by side) is in cache for a second pass."""
    together = 1
    for d in range(layout.ndim):
        if d not in dims and layout.strides[d] == 1:
            together = builtins.min(layout.shape[d], 256)
    return count_of(layout, dims) * together <= CACHED_ROW


# ---------------------------------------------------------------- sum and mean


def _add(a: tuple, b: tuple) -> tuple:
    return tuple(x + y for x, y in zip(a, b))


def adding(name: str, x: Any) -> Fold:
    """The sum of an expression over the row, in its dtype."""
    return Fold((name,), (constant(0, x.dtype),), (x,), _add)


def _sum_stages(elements: tuple, numbers: tuple, dtype: DType, keepdim: Any, skip_nan: builtins.bool) -> tuple:
    x = cast(elements[0], compute_dtype(dtype))
    total = wide(dtype)
    if skip_nan:
        x = s.where(s.isnan(x), 0, x)
    result = folded("sum", total)
    if numbers:
        result = result / cast(numbers[0], total)
    return Loop((adding("sum", cast(x, total)),)), Row(((0, cast(result, compute_dtype(dtype))),))


_SUM = Rows(
    "sum",
    _sum_stages,
    lambda dtypes, dtype, keepdim, skip_nan: [(dtype, form(keepdim))],
    number_dtype=lambda dtypes: float64,
    converts=True,
)


def _sum_dtype(dtype: DType, wanted: DType | None) -> DType:
    return wanted or (dtype if dtype.is_floating_point or dtype.is_complex else int64)


def _prepare_sum(input: Tensor, dim: Any, keepdim: Any, dtype: DType | None, skip_nan: builtins.bool) -> Callable:
    dtype = asked_for(dtype)
    dims = reduction_dims("sum", dim, input._layout.ndim)
    return _SUM.launcher((input,), dims, (), (_sum_dtype(input._layout.dtype, dtype), bool(keepdim), skip_nan))


_sums = Reducer(_prepare_sum)
_sum_plans = _sums.plans


@operator(out=Out(dtype=any_dtype, needs_dim=True), node=overloads("Sum"), jvp=LINEAR)
def sum(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """The sum over `dim` (an integer, several, or None for all).

    Shapes: `keepdim` keeps the dimensions with size 1. Integers and bools sum to int64; `dtype` converts before summing.
    Raises IndexError for a dimension out of range, RuntimeError for one named twice.
    """
    try:
        launch = _sum_plans[input._layout, dim, keepdim, dtype, False]
    except (KeyError, TypeError):
        launch = None
    if launch is None:
        launch = _sums.specialize(input, dim, keepdim, dtype, False)
    return launch(None, input)


@sum.vjp
def _(g, layouts, dim, keepdim):
    return spread(g, layouts[0], dim, keepdim)


@operator(out=Out(dtype=any_dtype, refuses_first=True))
def nansum(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """The sum over `dim` with NaN counted as zero. Shapes and dtypes as of sum; complex numbers are not supported."""
    if input._layout.dtype.is_complex:
        reduction_dims("nansum", dim, input._layout.ndim)
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if dtype is not None and dtype.is_complex and input._layout.dtype.is_floating_point and input._layout.numel:
        reduction_dims("nansum", dim, input._layout.ndim)
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{dtype.scalar_name}'")
    return _sums.specialize(input, dim, keepdim, dtype, input._layout.dtype.is_floating_point)(None, input)


@nansum.vjp
def _(g, layouts, input, dim, keepdim):
    return spread(g, layouts[0], dim, keepdim) * input.isnan().logical_not()


def _prepare_mean(input: Tensor, dim: Any, keepdim: Any, dtype: DType | None) -> Callable:
    dtype = asked_for(dtype)
    layout = input._layout
    result = dtype or layout.dtype
    if not (result.is_floating_point or result.is_complex):
        which = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point or "
            f"complex dtype. Got: {result.scalar_name}"
        )
    dims = reduction_dims("mean", dim, layout.ndim)
    count = float(count_of(layout, dims))
    launch = _SUM.launcher((input,), dims, (count,), (result, bool(keepdim), False))
    return lambda input: launch(None, input, count)


_means = Reducer(_prepare_mean)
_mean_plans = _means.plans


@operator(out=Out(fitted=BEFORE_DTYPE), node=overloads("Mean"), jvp=LINEAR)
def mean(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """The mean over `dim` (an integer, several, or None for all) of floating point or complex numbers.

    Shapes: `keepdim` keeps the dimensions with size 1. Raises RuntimeError for integers (give `dtype`).
    """
    try:
        run = _mean_plans[input._layout, dim, keepdim, dtype]
    except (KeyError, TypeError):
        run = None
    if run is None:
        run = _means.specialize(input, dim, keepdim, dtype)
    return run(input)


@mean.vjp
def _(g, layouts, dim, keepdim):
    layout = layouts[0]
    count = count_of(layout, geometry.wrap_reduction_dims(dim, layout.ndim))
    return spread(g, layout, dim, keepdim) / count


@composite(out=Out(step="nansum", refuses_first=True))
def nanmean(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """The mean over `dim` of the elements that are not NaN."""
    if not (input._layout.dtype.is_floating_point or input._layout.dtype.is_complex):
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {input._layout.dtype.scalar_name}"
        )
    count = sum(input.detach().isnan().logical_not(), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


# ---------------------------------------------------------------- products


def _multiply(a: tuple, b: tuple) -> tuple:
    return (a[0] * b[0],)


def _product_stages(elements: tuple, numbers: tuple, dtype: DType, keepdim: Any) -> tuple:
    x = cast(cast(elements[0], compute_dtype(dtype)), wide(dtype))
    fold = Fold(("product",), (constant(1, x.dtype),), (x,), _multiply)
    return Loop((fold,)), Row(((0, cast(folded("product", x.dtype), compute_dtype(dtype))),))


_PRODUCT = Rows(
    "prod", _product_stages, lambda dtypes, dtype, keepdim: [(dtype, form(keepdim))], kernel="prod_out_cpu", converts=True
)


def _prepare_product(input: Tensor, dim: Any, keepdim: Any, dtype: DType | None) -> Callable:
    dtype = asked_for(dtype)
    dims = (
        tuple(range(input._layout.ndim))
        if dim is None
        else (one_dim("prod", dim, input._layout.ndim),)
        if input._layout.ndim
        else (one_dim("prod", dim, 0),)[:0]
    )
    return _PRODUCT.launcher((input,), dims, (), (_sum_dtype(input._layout.dtype, dtype), bool(keepdim)))


_products = Reducer(_prepare_product)


@operator(out=Out(dtype=any_dtype, needs_dim=True), node=overloads("Prod"), planned=True, autocast=single)
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype=None) -> Planned:
    """The product over `dim` (one integer, or None for all). Integers and bools multiply in int64; `dtype` converts before."""
    return _products.specialize(input, dim, keepdim, dtype)


@prod.vjp
def _(g, out, input, dim, keepdim):
    layout = input._layout
    if not layout.ndim:
        return g
    if dim is None:
        if layout.numel == 0:
            return g.expand(layout.shape)
        return _product_gradient(g, out, input.reshape(-1), 0).reshape(layout.shape)
    d = geometry.wrap_dim(dim, layout.ndim)
    return _product_gradient(kept(g, layout, dim, keepdim), kept(out, layout, dim, keepdim), input, d)


def _product_gradient(g: Tensor, out: Tensor, input: Tensor, dim: int) -> Tensor:
    """g times the product of the others along dim; with a zero among the elements without dividing."""
    if not found(input.detach() == 0):
        return (g * out.conj() if out.is_complex() else g * out) / (input.conj() if input.is_complex() else input)
    size = input._layout.shape[dim]
    one = input.narrow(dim, 0, 1).detach() * 0 + 1
    before = one if size == 1 else NAMESPACE["cat"]([one, input.narrow(dim, 0, size - 1).cumprod(dim)], dim)
    after = one if size == 1 else NAMESPACE["cat"]([input.narrow(dim, 1, size - 1).flip(dim).cumprod(dim).flip(dim), one], dim)
    others = before * after
    return g * (others.conj() if others.is_complex() else others)


# ---------------------------------------------------------------- truth and counts


def _truth_stages(elements: tuple, numbers: tuple, which: str, result: DType, keepdim: Any) -> tuple:
    true = elements[0] != 0
    if which == "count":
        return Loop((adding("count", cast(true, int64)),)), Row(((0, folded("count", int64)),))
    some = which == "any"
    fold = Fold(("truth",), (constant(not some, bool_),), (true,), lambda a, b: (a[0] | b[0] if some else a[0] & b[0],))
    return (Loop((fold,)), Row(((0, cast(folded("truth", bool_), compute_dtype(result))),)))


_TRUTH = Rows("truth", _truth_stages, lambda dtypes, which, result, keepdim: [(result, form(keepdim))], float8=True)


def _prepare_truth(input: Tensor, dim: Any, keepdim: Any, which: str) -> Callable:
    layout = input._layout
    dims = () if isinstance(dim, (tuple, list)) and not dim and which != "count" else reduction_dims(which, dim, layout.ndim)
    result = int64 if which == "count" else uint8 if layout.dtype is uint8 else bool_
    return _TRUTH.launcher((input,), dims, (), (which, result, bool(keepdim)))


_truths = Reducer(_prepare_truth)


@operator(out=Out(dtype=bools("all"), graph=UNRECORDED), planned=True, jvp=CONSTANT)
def all(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Planned:
    """Whether all elements (along `dim`) are nonzero: bool, or uint8 for a uint8 tensor."""
    return _truths.specialize(input, dim, keepdim, "all")


@operator(out=Out(dtype=bools("any"), graph=UNRECORDED), planned=True, jvp=CONSTANT)
def any(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Planned:
    """Whether any element (along `dim`) is nonzero: bool, or uint8 for a uint8 tensor."""
    return _truths.specialize(input, dim, keepdim, "any")


@operator(planned=True, jvp=CONSTANT)
def count_nonzero(input: Tensor, dim: int | Sequence[int] | None = None) -> Planned:
    """The number of nonzero elements over `dim` (an integer, several, or None for all), int64."""
    return _truths.specialize(input, dim, False, "count")
