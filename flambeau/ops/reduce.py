"""Reductions: sums, means, products, extrema and where they are, variances, norms, truth, counts.

Each is a row program (core.rows): one pass over memory, cut into chunks for all threads when the rows are long; plans are kept by
layout and dimensions. float32 accumulates in float64, half precision in float32, so that long sums stay exact to the last place.
Order statistics are in ops.order, running sums in ops.scan.
"""

from __future__ import annotations

import builtins
import math
import warnings
from typing import Any, Callable, Sequence

from flambeau.base import geometry
from flambeau.base.dtype import bool_, float16, float32, float64, int64, uint8
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.core import returns
from flambeau.core.declare import composite, operator
from flambeau.core.derive import NAMESPACE
from flambeau.core.op import Pointwise, call
from flambeau.core.rows import FULL, KEEPDIM, KEPT, Rows
from flambeau.core.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.loops import Fold, Loop, Row, element, folded, position
from flambeau.ir.scalar import cast, compute_dtype, constant

Dims = "int | Sequence[int] | None"


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
        if isinstance(dim, float) or not hasattr(dim, "__index__"):
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

    def learn(self, input: Tensor, dim: Any, keepdim: Any, *more: Any) -> Any:
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


_SUM = Rows("sum", _sum_stages, lambda dtypes, dtype, keepdim, skip_nan: [(dtype, form(keepdim))],
            number_dtype=lambda dtypes: float64)


def _sum_dtype(dtype: DType, wanted: DType | None) -> DType:
    return wanted or (dtype if dtype.is_floating_point or dtype.is_complex else int64)


def _prepare_sum(input: Tensor, dim: Any, keepdim: Any, dtype: DType | None, skip_nan: builtins.bool) -> Callable:
    dims = reduction_dims("sum", dim, input._layout.ndim)
    return _SUM.launcher((input,), dims, (), (_sum_dtype(input._layout.dtype, dtype), bool(keepdim), skip_nan))


_sums = Reducer(_prepare_sum)
_sum_plans = _sums.plans


@operator(out=True, node=overloads("Sum"))
def sum(input: Tensor, dim=None, keepdim=False, *, dtype=None):
    """The sum over `dim` (an integer, several, or None for all).

    Shapes: `keepdim` keeps the dimensions with size 1. Integers and bools sum to int64; `dtype` converts before summing.
    Raises IndexError for a dimension out of range, RuntimeError for one named twice.
    """
    try:
        launch = _sum_plans[input._layout, dim, keepdim, dtype, False]
    except (KeyError, TypeError):
        launch = _sums.learn(input, dim, keepdim, dtype, False)
    return launch(None, input)


@sum.vjp
def _(g, layouts, dim, keepdim):
    return spread(g, layouts[0], dim, keepdim)


@operator(out=True)
def nansum(input: Tensor, dim=None, keepdim=False, *, dtype=None):
    """The sum over `dim` with NaN counted as zero. Shapes and dtypes as of sum; complex numbers are not supported."""
    if input._layout.dtype.is_complex:
        raise RuntimeError("nansum does not support complex inputs")
    return _sums.learn(input, dim, keepdim, dtype, input._layout.dtype.is_floating_point)(None, input)


@nansum.vjp
def _(g, layouts, input, dim, keepdim):
    return spread(g, layouts[0], dim, keepdim) * input.isnan().logical_not()


def _prepare_mean(input: Tensor, dim: Any, keepdim: Any, dtype: DType | None) -> Callable:
    layout = input._layout
    result = dtype or layout.dtype
    if not (result.is_floating_point or result.is_complex):
        which = "Input" if dtype is None else "Optional"
        raise RuntimeError(f"mean(): could not infer output dtype. {which} dtype must be either a floating point or complex dtype. "
                           f"Got: {result.scalar_name}")
    dims = reduction_dims("mean", dim, layout.ndim)
    count = float(count_of(layout, dims))
    launch = _SUM.launcher((input,), dims, (count,), (result, bool(keepdim), False))
    return lambda input: launch(None, input, count)


_means = Reducer(_prepare_mean)
_mean_plans = _means.plans


@operator(out=True, node=overloads("Mean"))
def mean(input: Tensor, dim=None, keepdim=False, *, dtype=None):
    """The mean over `dim` (an integer, several, or None for all) of floating point or complex numbers.

    Shapes: `keepdim` keeps the dimensions with size 1. Raises RuntimeError for integers (give `dtype`).
    """
    try:
        run = _mean_plans[input._layout, dim, keepdim, dtype]
    except (KeyError, TypeError):
        run = _means.learn(input, dim, keepdim, dtype)
    return run(input)


@mean.vjp
def _(g, layouts, dim, keepdim):
    layout = layouts[0]
    count = count_of(layout, geometry.wrap_reduction_dims(dim, layout.ndim))
    return spread(g, layout, dim, keepdim) / count


@composite(out=True)
def nanmean(input: Tensor, dim=None, keepdim=False, *, dtype=None):
    """The mean over `dim` of the elements that are not NaN."""
    if not (input._layout.dtype.is_floating_point or input._layout.dtype.is_complex):
        raise RuntimeError("nanmean(): expected input to have floating point or complex dtype but got "
                           f"{input._layout.dtype.scalar_name}")
    count = sum(input.detach().isnan().logical_not(), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


# ---------------------------------------------------------------- products


def _multiply(a: tuple, b: tuple) -> tuple:
    return (a[0] * b[0],)


def _product_stages(elements: tuple, numbers: tuple, dtype: DType, keepdim: Any) -> tuple:
    x = cast(cast(elements[0], compute_dtype(dtype)), wide(dtype))
    fold = Fold(("product",), (constant(1, x.dtype),), (x,), _multiply)
    return Loop((fold,)), Row(((0, cast(folded("product", x.dtype), compute_dtype(dtype))),))


_PRODUCT = Rows("prod", _product_stages, lambda dtypes, dtype, keepdim: [(dtype, form(keepdim))])


def _prepare_product(input: Tensor, dim: Any, keepdim: Any, dtype: DType | None) -> Callable:
    dims = (tuple(range(input._layout.ndim)) if dim is None else
            (one_dim("prod", dim, input._layout.ndim),) if input._layout.ndim else (one_dim("prod", dim, 0),)[:0])
    return _PRODUCT.launcher((input,), dims, (), (_sum_dtype(input._layout.dtype, dtype), bool(keepdim)))


_products = Reducer(_prepare_product)


@operator(out=True, node=overloads("Prod"))
def prod(input: Tensor, dim=None, keepdim=False, *, dtype=None):
    """The product over `dim` (one integer, or None for all). Integers and bools multiply in int64; `dtype` converts before."""
    return _products.learn(input, dim, keepdim, dtype)(None, input)


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
    if not (input.detach() == 0).any().item():
        return (g * out.conj() if out.is_complex() else g * out) / (input.conj() if input.is_complex() else input)
    size = input._layout.shape[dim]
    one = input.narrow(dim, 0, 1).detach() * 0 + 1
    before = one if size == 1 else NAMESPACE["cat"]([one, input.narrow(dim, 0, size - 1).cumprod(dim)], dim)
    after = one if size == 1 else NAMESPACE["cat"](
        [input.narrow(dim, 1, size - 1).flip(dim).cumprod(dim).flip(dim), one], dim)
    others = before * after
    return g * (others.conj() if others.is_complex() else others)


# ---------------------------------------------------------------- extrema


def _least(dtype: DType) -> Any:
    if dtype is bool_:
        return False
    return -math.inf if dtype.is_floating_point else _integer_bounds(dtype)[0]


def _greatest(dtype: DType) -> Any:
    if dtype is bool_:
        return True
    return math.inf if dtype.is_floating_point else _integer_bounds(dtype)[1]


def _integer_bounds(dtype: DType) -> tuple[int, int]:
    bits = dtype.itemsize * 8
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


def extreme(name: str, x: Any, largest: builtins.bool) -> Fold:
    """The largest or smallest value of an expression over the row; NaN if there is one."""
    if x.dtype is bool_:
        return Fold((name,), (constant(not largest, bool_),), (x,), lambda a, b: (a[0] | b[0] if largest else a[0] & b[0],))
    choose = s.maximum if largest else s.minimum
    return Fold((name,), (constant(_least(x.dtype) if largest else _greatest(x.dtype), x.dtype),), (x,),
                lambda a, b: (choose(a[0], b[0]),))


def extreme_place(x: Any, largest: builtins.bool) -> Fold:
    """("value", "index"): the extreme of an expression over the row and the first place where it is; NaN beats all."""
    dtype = x.dtype

    def combine(a: tuple, b: tuple) -> tuple:
        (u, i), (v, j) = a, b
        if dtype is bool_:
            later = (v & ~u) if largest else (u & ~v)
            same = ~(u ^ v)
        else:
            later = v > u if largest else v < u
            same = u == v
        if dtype.is_floating_point:
            later = later | (s.isnan(v) & ~s.isnan(u))
            same = same | (s.isnan(u) & s.isnan(v))
            later = later & ~(s.isnan(u) & ~s.isnan(v))
        takes = later | (same & (j < i))
        return s.where(takes, v, u), s.where(takes, j, i)
    return Fold(("value", "index"), (constant(_least(dtype) if largest else _greatest(dtype), dtype), constant((1 << 63) - 1, int64)),
                (x, position()), combine)


def _extreme_stages(elements: tuple, numbers: tuple, which: str, keepdim: Any) -> tuple:
    x = elements[0]
    if which == "both":
        folds = (extreme("least", x, False), extreme("greatest", x, True))
        return Loop(folds), Row(((0, folded("least", x.dtype)), (1, folded("greatest", x.dtype))))
    return Loop((extreme("extreme", x, which == "max"),)), Row(((0, folded("extreme", x.dtype)),))


_EXTREME = Rows("extreme", _extreme_stages,
                lambda dtypes, which, keepdim: [(dtypes[0], form(keepdim))] * (2 if which == "both" else 1))


def _place_stages(elements: tuple, numbers: tuple, largest: builtins.bool, keepdim: Any, values: builtins.bool) -> tuple:
    x = elements[0]
    index = (folded("index", int64),)
    stores = (folded("value", x.dtype), *index) if values else index
    return Loop((extreme_place(x, largest),)), Row(tuple(enumerate(stores)))


_PLACE = Rows("argextreme", _place_stages,
              lambda dtypes, largest, keepdim, values: [*([(dtypes[0], form(keepdim))] if values else []), (int64, form(keepdim))],
              ordered=True)


def _check_nonempty(name: str, layout: Layout, dims: Sequence[int]) -> None:
    for d in dims:
        if layout.shape[d] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _check_real(name: str, kernel: str, layout: Layout) -> None:
    if layout.dtype.is_complex:
        raise NotImplementedError(f'"{kernel}" not implemented for \'{layout.dtype.scalar_name}\'')


def _prepare_extreme(input: Tensor, dim: Any, keepdim: Any, name: str) -> Callable:
    layout = input._layout
    _check_real(name, "max_values_cpu" if name == "amax" else "min_values_cpu", layout)
    dims = reduction_dims(name, dim, layout.ndim)
    if layout.numel == 0 and (dim is None or dim == ()):
        raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
                         "the 'dim' argument.")
    _check_nonempty(name, layout, dims)
    return _EXTREME.launcher((input,), dims, (), (name[1:], bool(keepdim)))


_extremes = Reducer(_prepare_extreme)
_extreme_plans = _extremes.plans


@operator(out=True)
def amax(input: Tensor, dim=(), keepdim=False):
    """The largest value over `dim` (an integer, several, or () for all); NaN if there is one.

    The gradient is shared evenly among equal largest values. Raises IndexError where a reduced dimension has size 0.
    """
    try:
        launch = _extreme_plans[input._layout, dim, keepdim, "amax"]
    except (KeyError, TypeError):
        launch = _extremes.learn(input, dim, keepdim, "amax")
    return launch(None, input)


@operator(out=True)
def amin(input: Tensor, dim=(), keepdim=False):
    """The smallest value over `dim` (an integer, several, or () for all); NaN if there is one. See amax."""
    try:
        launch = _extreme_plans[input._layout, dim, keepdim, "amin"]
    except (KeyError, TypeError):
        launch = _extremes.learn(input, dim, keepdim, "amin")
    return launch(None, input)


def shared_gradient(g: Tensor, out: Tensor, input: Tensor, dim: Any, keepdim: Any) -> Tensor:
    """The gradient of an extreme value, shared evenly among the elements that reach it."""
    layout = input._layout
    mask = input.detach() == kept(out.detach(), layout, dim, keepdim)
    every = tuple(range(layout.ndim))
    count = mask.sum(dim if dim not in (None, (), []) else every, True)
    return kept(g, layout, dim, keepdim) / count * mask


@amax.vjp
def _(g, out, input, dim, keepdim):
    return shared_gradient(g, out, input, dim, keepdim)


@amin.vjp
def _(g, out, input, dim, keepdim):
    return shared_gradient(g, out, input, dim, keepdim)


def _prepare_whole(input: Tensor, dim: Any, keepdim: Any, which: str) -> Callable:
    layout = input._layout
    if layout.dtype.is_complex:
        raise NotImplementedError(f'"{which}_all" not implemented for \'{layout.dtype.scalar_name}\'')
    if layout.numel == 0:
        raise RuntimeError(f"{which}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
                           "the 'dim' argument.")
    return _EXTREME.launcher((input,), tuple(range(layout.ndim)), (), (which, False))


_wholes = Reducer(_prepare_whole)


def _prepare_place(input: Tensor, dim: Any, keepdim: Any, name: str) -> Callable:
    layout = input._layout
    _check_real(name, f"{name}_cpu", layout)
    values = name in ("max", "min")
    if not values and layout.dtype is bool_:
        raise RuntimeError(f"{name}(): does not support bool input")
    if dim is None:
        if layout.numel == 0:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        dims = tuple(range(layout.ndim))
    else:
        d = one_dim(name, dim, layout.ndim)
        dims = (d,) if layout.ndim else ()
        _check_nonempty(name, layout, dims)
    launch = _PLACE.launcher((input,), dims, (), (name.endswith("max"), bool(keepdim), values))
    if not values:
        return lambda input: launch(None, input)
    named = getattr(returns, name)
    make = tuple.__new__
    return lambda input: make(named, launch(None, None, input))


_places = Reducer(_prepare_place)
_place_plans = _places.plans


@operator(out=True)
def argmax(input: Tensor, dim=None, keepdim=False):
    """Where the largest value over `dim` is (int64; the first of equals, or the first NaN); None: in the flattened tensor."""
    try:
        run = _place_plans[input._layout, dim, keepdim, "argmax"]
    except (KeyError, TypeError):
        run = _places.learn(input, dim, keepdim, "argmax")
    return run(input)


@operator(out=True)
def argmin(input: Tensor, dim=None, keepdim=False):
    """Where the smallest value over `dim` is (int64; the first of equals, or the first NaN); None: in the flattened tensor."""
    try:
        run = _place_plans[input._layout, dim, keepdim, "argmin"]
    except (KeyError, TypeError):
        run = _places.learn(input, dim, keepdim, "argmin")
    return run(input)


_AT_PLACE = Pointwise("at_place", lambda g, index, place: s.where(index == place, g, 0), ["g", "index", "place"],
                      kind=lambda common: (common, common), undecided=("index", "place"), node="ValueSelectingReduction")


def selected_gradient(g: Tensor, index: Tensor, layout: Layout, dim: Any, keepdim: Any) -> Tensor:
    """g at the places that a reduction over dim picked, zero elsewhere, in the shape of `layout`."""
    if not layout.ndim:
        return g
    d = geometry.wrap_dim(dim, layout.ndim)
    places = NAMESPACE["arange"](layout.shape[d])
    for _ in range(layout.ndim - 1 - d):
        places = places.unsqueeze(-1)
    return call(_AT_PLACE, [kept(g, layout, d, keepdim), kept(index, layout, d, keepdim), places])


def _extreme_of(which: str, input: Tensor, dim: Any, keepdim: Any) -> Any:
    """max or min of everything, or along a dimension with indices."""
    if dim is None:
        return _wholes.learn(input, None, False, which)(None, input)
    return _places.learn(input, dim, keepdim, which)(input)


@operator(out=True, function=False, method=False, node=overloads("Max", whole=1), name="max")
def _max(input: Tensor, dim=None, keepdim=False):
    try:
        run = _place_plans[input._layout, dim, keepdim, "max"]
    except (KeyError, TypeError):
        return _extreme_of("max", input, dim, keepdim)
    return run(input)


@operator(out=True, function=False, method=False, node=overloads("Min", whole=1), name="min")
def _min(input: Tensor, dim=None, keepdim=False):
    try:
        run = _place_plans[input._layout, dim, keepdim, "min"]
    except (KeyError, TypeError):
        return _extreme_of("min", input, dim, keepdim)
    return run(input)


def _extreme_gradient(gs, outs, input, dim, keepdim):
    if dim is None:
        return shared_gradient(gs[0], outs[0], input, None, False)
    return None if gs[0] is None else selected_gradient(gs[0], outs[1], input._layout, dim, keepdim)


_max.vjp(_extreme_gradient)
_min.vjp(_extreme_gradient)


def max(input, dim=None, keepdim=False, *, other=None, axis=None, keepdims=None, out=None):
    """max(input): the largest value. max(input, dim, keepdim): (values, indices) along a dimension; the first of equals.
    max(input, other): the elementwise maximum.

    NaN is larger than everything. The gradient of the first form is shared among equals, that of the second goes to the index.
    Raises RuntimeError or IndexError where there is nothing to choose from.
    """
    if isinstance(dim, Tensor) or other is not None:
        return NAMESPACE["maximum"](input, dim if other is None else other, out=out)
    if axis is not None or keepdims is not None:
        return _max(input, dim if axis is None else axis, keepdim if keepdims is None else keepdims, out=out)
    return _max(input, dim, keepdim, out=out)


def min(input, dim=None, keepdim=False, *, other=None, axis=None, keepdims=None, out=None):
    """min(input): the smallest value. min(input, dim, keepdim): (values, indices) along a dimension; the first of equals.
    min(input, other): the elementwise minimum. See max.
    """
    if isinstance(dim, Tensor) or other is not None:
        return NAMESPACE["minimum"](input, dim if other is None else other, out=out)
    if axis is not None or keepdims is not None:
        return _min(input, dim if axis is None else axis, keepdim if keepdims is None else keepdims, out=out)
    return _min(input, dim, keepdim, out=out)


for _public, _generated in ((max, _max), (min, _min)):
    _generated.__globals__[_public.__name__] = _public      # what an override of __torch_function__ is given
    NAMESPACE[_public.__name__] = _public
    setattr(Tensor, _public.__name__, _public)


@operator(out=True)
def aminmax(input: Tensor, *, dim=None, keepdim=False):
    """(min, max) of everything, or along `dim`."""
    layout = input._layout
    _check_real("aminmax", "aminmax_cpu", layout)
    if dim is None and layout.numel == 0:
        raise RuntimeError("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
    dims = tuple(range(layout.ndim)) if dim is None else (one_dim("aminmax", dim, layout.ndim),)[:layout.ndim or 0]
    if dim is not None:
        for d in dims:
            if layout.shape[d] == 0:
                raise IndexError(f"aminmax(): Expected reduction dim {d} to have non-zero size.")
    return returns.aminmax(_EXTREME((input,), dims, (), ("both", bool(keepdim))))


@aminmax.vjp
def _(gs, outs, input, dim, keepdim):
    parts = [shared_gradient(g, out, input, dim, keepdim) for g, out in zip(gs, outs) if g is not None]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


# ---------------------------------------------------------------- truth and counts


def _truth_stages(elements: tuple, numbers: tuple, which: str, result: DType, keepdim: Any) -> tuple:
    true = elements[0] != 0
    if which == "count":
        return Loop((adding("count", cast(true, int64)),)), Row(((0, folded("count", int64)),))
    return (Loop((extreme("truth", true, which == "any"),)),
            Row(((0, cast(folded("truth", bool_), compute_dtype(result))),)))


_TRUTH = Rows("truth", _truth_stages, lambda dtypes, which, result, keepdim: [(result, form(keepdim))])


def _prepare_truth(input: Tensor, dim: Any, keepdim: Any, which: str) -> Callable:
    layout = input._layout
    dims = () if isinstance(dim, tuple) and not dim and which != "count" else reduction_dims(which, dim, layout.ndim)
    result = int64 if which == "count" else uint8 if layout.dtype is uint8 else bool_
    return _TRUTH.launcher((input,), dims, (), (which, result, bool(keepdim)))


_truths = Reducer(_prepare_truth)


@operator(out=True)
def all(input: Tensor, dim=None, keepdim=False):
    """Whether all elements (along `dim`) are nonzero: bool, or uint8 for a uint8 tensor."""
    return _truths.learn(input, dim, keepdim, "all")(None, input)


@operator(out=True)
def any(input: Tensor, dim=None, keepdim=False):
    """Whether any element (along `dim`) is nonzero: bool, or uint8 for a uint8 tensor."""
    return _truths.learn(input, dim, keepdim, "any")(None, input)


@operator()
def count_nonzero(input: Tensor, dim=None):
    """The number of nonzero elements over `dim` (an integer, several, or None for all), int64."""
    return _truths.learn(input, dim, False, "count")(None, input)


# ---------------------------------------------------------------- variance


def deviations(name: str, x: Any) -> Fold:
    """(count, mean, squares) of an expression, in one pass: `<name>.n`, `<name>.mean`, `<name>.m2` (sum of squared deviations)."""
    real = s.real(x).dtype
    zero = constant(0, real)

    def combine(a: tuple, b: tuple) -> tuple:
        (n1, mean1, m1), (n2, mean2, m2) = a, b
        n = n1 + n2
        delta = mean2 - mean1
        share = n2 / s.where(n == 0, 1, n)
        square = s.square(delta) if not delta.dtype.is_complex else s.square(s.real(delta)) + s.square(s.imag(delta))
        return n, mean1 + delta * share, m1 + m2 + square * n1 * share
    return Fold((f"{name}.n", f"{name}.mean", f"{name}.m2"), (zero, constant(0, x.dtype), zero),
                (constant(1, real), x, zero), combine)


def _variance_stages(elements: tuple, numbers: tuple, root: builtins.bool, mean_too: builtins.bool, keepdim: Any,
                     once: builtins.bool) -> tuple:
    x = elements[0]
    total = wide(x.dtype) if x.dtype is float32 else x.dtype
    x = cast(x, total)
    real = s.real(x).dtype
    count, freedom = (cast(n, real) for n in numbers)
    if once:
        folds: tuple = (Loop((deviations("x", x),)),)
        mean, squares = folded("x.mean", total), folded("x.m2", real)
    else:
        mean = folded("sum", total) / cast(count, total)
        delta = x - mean
        square = delta * delta if not delta.dtype.is_complex else s.square(s.real(delta)) + s.square(s.imag(delta))
        folds = (Loop((adding("sum", x),)), Loop((adding("m2", square),)))
        squares = folded("m2", real)
    variance = squares / freedom
    if root:
        variance = s.sqrt(variance)
    out = s.real(elements[0]).dtype
    stores = [(0, cast(variance, out))]
    if mean_too:
        stores.append((1, cast(mean, elements[0].dtype)))
    return (*folds, Row(tuple(stores)))


_VARIANCE = Rows("variance", _variance_stages,
                 lambda dtypes, root, mean_too, keepdim, once: [
                     (dtypes[0].to_real() if dtypes[0].is_complex else dtypes[0], form(keepdim)),
                     *([(dtypes[0], form(keepdim))] if mean_too else [])],
                 number_dtype=lambda dtypes: float64)
CACHED_ROW = 1 << 16    # elements of a row that stay in cache between two passes over it


def _prepare_variance(input: Tensor, dim: Any, keepdim: Any, correction: Any, name: str) -> Callable:
    layout = input._layout
    if not (layout.dtype.is_floating_point or layout.dtype.is_complex):
        raise RuntimeError("std and var only support floating point and complex dtypes" if "mean" not in name else
                           f"{name} only support floating point and complex dtypes")
    dims = reduction_dims(name, dim, layout.ndim)
    count = count_of(layout, dims)
    freedom = builtins.max(count - correction, 0)
    if freedom <= 0 and layout.numel:
        warnings.warn(f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input "
                      "numel divided by output numel).", UserWarning, stacklevel=5)
    together = 1
    for d in range(layout.ndim):
        if d not in dims and layout.strides[d] == 1:
            together = builtins.min(layout.shape[d], 256)     # columns are read side by side
    once = count * together > CACHED_ROW
    numbers = (float(count), float(freedom))
    launch = _VARIANCE.launcher((input,), dims, numbers, (name.startswith("std"), "mean" in name, bool(keepdim), once))
    if "mean" in name:
        return lambda input: launch(None, None, input, *numbers)
    return lambda input: launch(None, input, *numbers)


_variances = Reducer(_prepare_variance)


def _correction(unbiased: Any, correction: Any) -> Any:
    if unbiased is not None:
        return 1 if unbiased else 0
    return 1 if correction is None else correction


def _statistics(name: str, input: Tensor, dim: Any, unbiased: Any, keepdim: Any, correction: Any) -> Any:
    if dim.__class__ is bool:
        dim, unbiased = None, dim
    if not unbiased.__class__ is bool and unbiased is not None:
        raise TypeError(f"{name}() received an invalid combination of arguments: 'unbiased' must be bool")
    run = _variances.learn(input, dim, keepdim, _correction(unbiased, correction), name)
    return run(input)


@operator(out=True)
def var(input: Tensor, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The variance over `dim`: squared deviations summed, divided by the number of elements less `correction` (1 by default).

    `var(input, unbiased)` and `unbiased=False` (correction 0) are the older forms. Raises RuntimeError for integers.
    """
    return _statistics("var", input, dim, unbiased, keepdim, correction)


@operator(out=True)
def std(input: Tensor, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The standard deviation over `dim`, the root of var."""
    return _statistics("std", input, dim, unbiased, keepdim, correction)


@operator()
def var_mean(input: Tensor, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """(variance, mean) over `dim`; arguments as of var."""
    return _statistics("var_mean", input, dim, unbiased, keepdim, correction)


@operator()
def std_mean(input: Tensor, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """(standard deviation, mean) over `dim`; arguments as of var."""
    return _statistics("std_mean", input, dim, unbiased, keepdim, correction)


def _variance_gradient(g: Tensor, input: Tensor, dim: Any, unbiased: Any, keepdim: Any, correction: Any) -> Tensor:
    layout = input._layout
    if dim.__class__ is bool:
        dim, unbiased = None, dim
    count = count_of(layout, geometry.wrap_reduction_dims(dim, layout.ndim))
    freedom = count - _correction(unbiased, correction)
    if freedom <= 0 and count == 0:
        return g.expand(layout.shape)
    every = tuple(range(layout.ndim)) if dim is None else dim
    factor = 2.0 / freedom if freedom > 0 else math.inf if freedom == 0 else math.nan
    return (kept(g, layout, dim_of(dim, layout), keepdim) * factor) * (input - input.mean(every, True))


def dim_of(dim: Any, layout: Layout) -> Any:
    """None, if a dim argument names every dimension by being empty."""
    return None if dim is None or isinstance(dim, (tuple, list)) and not dim else dim


def _deviation_gradient(g: Tensor, out: Tensor, input: Tensor, dim: Any, unbiased: Any, keepdim: Any, correction: Any) -> Tensor:
    g = g / (out * 2)
    return _variance_gradient(g.masked_fill(out.detach() == 0, 0), input, dim, unbiased, keepdim, correction)


@var.vjp
def _(g, input, dim, unbiased, keepdim, correction):
    return _variance_gradient(g, input, dim, unbiased, keepdim, correction)


@std.vjp
def _(g, out, input, dim, unbiased, keepdim, correction):
    return _deviation_gradient(g, out, input, dim, unbiased, keepdim, correction)


def _mean_part(g: Tensor, layout: Layout, dim: Any, keepdim: Any) -> Tensor:
    dim = None if dim.__class__ is bool else dim_of(dim, layout)
    return spread(g, layout, dim, keepdim) / count_of(layout, geometry.wrap_reduction_dims(dim, layout.ndim))


@var_mean.vjp
def _(gs, input, dim, unbiased, keepdim, correction):
    parts = []
    if gs[0] is not None:
        parts.append(_variance_gradient(gs[0], input, dim, unbiased, keepdim, correction))
    if gs[1] is not None:
        parts.append(_mean_part(gs[1], input._layout, dim, keepdim))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


@std_mean.vjp
def _(gs, outs, input, dim, unbiased, keepdim, correction):
    parts = []
    if gs[0] is not None:
        parts.append(_deviation_gradient(gs[0], outs[0], input, dim, unbiased, keepdim, correction))
    if gs[1] is not None:
        parts.append(_mean_part(gs[1], input._layout, dim, keepdim))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]
