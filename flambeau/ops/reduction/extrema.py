"""The largest and smallest elements, and where they are: amax, amin, max, min, argmax, argmin, aminmax.

Row programs on the ground of ops.reduction.sum. NaN is the extreme of whatever holds one; of equals the first counts.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import bool_, can_cast, int32, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.core.operator import return_types
from flambeau.core.operator.define import operator
from flambeau.core.operator.facets import CONSTANT
from flambeau.core.operator.out_rules import DISTINCT, SAME_DEVICE, UNRECORDED, Out, exact, worded
from flambeau.core.operator.pointwise import Pointwise, call
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.row_program import Rows
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.loops import Fold, Loop, Row, folded, position
from flambeau.ir.scalar import constant
from flambeau.ops.reduction.sum import Reducer, form, kept, one_dim, reduction_dims, stays_cached


def least(dtype: DType) -> Any:
    if dtype is bool_:
        return False
    return -math.inf if dtype.is_floating_point else integer_bounds(dtype)[0]


def greatest(dtype: DType) -> Any:
    if dtype is bool_:
        return True
    return math.inf if dtype.is_floating_point else integer_bounds(dtype)[1]


def integer_bounds(dtype: DType) -> tuple[int, int]:
    bits = dtype.itemsize * 8
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


def extreme(name: str, x: Any, largest: builtins.bool) -> Fold:
    """The largest or smallest value of an expression over the row; NaN if there is one."""
    if x.dtype is bool_:
        return Fold((name,), (constant(not largest, bool_),), (x,), lambda a, b: (a[0] | b[0] if largest else a[0] & b[0],))
    choose = s.maximum if largest else s.minimum
    return Fold(
        (name,), (constant(least(x.dtype) if largest else greatest(x.dtype), x.dtype),), (x,), lambda a, b: (choose(b[0], a[0]),)
    )  # tests the first for NaN: b, which waits for no other element


def shift(name: str, x: Any) -> Fold:
    """The largest value of an expression over the row, which exponentials of it are divided by against overflow.

    A NaN changes nothing (it comes back with its exponential), so that a vector takes one instruction.
    """
    return Fold((name,), (constant(least(x.dtype), x.dtype),), (x,), lambda a, b: (s.where(b[0] > a[0], b[0], a[0]),))


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

    start = constant(least(dtype) if largest else greatest(dtype), dtype)
    return Fold(("value", "index"), (start, constant((1 << 63) - 1, int64)), (x, position()), combine)


def _extreme_stages(elements: tuple, numbers: tuple, which: str, keepdim: Any) -> tuple:
    x = elements[0]
    if which == "both":
        folds = (extreme("least", x, False), extreme("greatest", x, True))
        return Loop(folds), Row(((0, folded("least", x.dtype)), (1, folded("greatest", x.dtype))))
    return Loop((extreme("extreme", x, which == "max"),)), Row(((0, folded("extreme", x.dtype)),))


_EXTREME = Rows(
    "extreme", _extreme_stages, lambda dtypes, which, keepdim: [(dtypes[0], form(keepdim))] * (2 if which == "both" else 1)
)


def _place_stages(
    elements: tuple, numbers: tuple, largest: builtins.bool, keepdim: Any, values: builtins.bool, twice: builtins.bool
) -> tuple:
    """twice: the row stays in cache, so first its extreme and then where that is, which takes fewer instructions."""
    x = elements[0]
    value = folded("value", x.dtype)
    if twice:
        here = ~(x ^ value) if x.dtype is bool_ else x == value
        if x.dtype.is_floating_point:
            here = here | s.isnan(x)  # then the extreme is NaN as well
        never = constant((1 << 31) - 1, int32)  # a row that stays in cache is shorter
        place = s.where(here, s.cast(position(), int32), never)
        first = Fold(("index",), (never,), (place,), lambda a, b: (s.minimum(a[0], b[0]),))
        loops = Loop((extreme("value", x, largest),)), Loop((first,))
        index = s.cast(folded("index", int32), int64)
    else:
        loops = (Loop((extreme_place(x, largest),)),)
        index = folded("index", int64)
    return *loops, Row(tuple(enumerate((value, index) if values else (index,))))


_PLACE = Rows(
    "argextreme",
    _place_stages,
    lambda dtypes, largest, keepdim, values, twice: [*([(dtypes[0], form(keepdim))] if values else []), (int64, form(keepdim))],
    ordered=True,
)


def _check_nonempty(name: str, layout: Layout, dims: Sequence[int]) -> None:
    for d in dims:
        if layout.shape[d] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _check_real(name: str, kernel: str, layout: Layout) -> None:
    if layout.dtype.is_complex:
        if name in ("argmax", "argmin", "max", "min"):
            raise RuntimeError(f"{name}(): does not support complex input")
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{layout.dtype.scalar_name}'")


def _prepare_extreme(input: Tensor, dim: Any, keepdim: Any, name: str) -> Callable:
    layout = input._layout
    dims = reduction_dims(name, dim, layout.ndim)
    if layout.numel == 0 and (dim is None or (dim.__class__ in (tuple, list) and not dim)):
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    for d in [dim] if dim.__class__ is int else dims:
        if layout.ndim and layout.shape[d] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")
    if layout.dtype.is_complex and not layout.numel:  # nothing is compared
        return lambda out, input: input.detach().sum(dims, keepdim)
    _check_real(name, "max_values_cpu" if name == "amax" else "min_values_cpu", layout)
    return _EXTREME.launcher((input,), dims, (), (name[1:], bool(keepdim)))


_extremes = Reducer(_prepare_extreme)
_extreme_plans = _extremes.plans


_EXTREME_DTYPE = worded(
    "Expected the dtype for input and out to match, but got {have} for input's dtype and {got} for out's dtype."
)


@operator(real_gradients="amax", out=Out(dtype=_EXTREME_DTYPE))
def amax(input: Tensor, dim: int | Sequence[int] | None = (), keepdim: bool = False) -> Tensor:
    """The largest value over `dim` (an integer, several, or () for all); NaN if there is one.

    The gradient is shared evenly among equal largest values. Raises IndexError where a reduced dimension has size 0.
    """
    try:
        launch = _extreme_plans[input._layout, dim, keepdim, "amax"]
    except (KeyError, TypeError):
        launch = None
    if launch is None:
        launch = _extremes.specialize(input, dim, keepdim, "amax")
    return launch(None, input)


@operator(real_gradients="amin", out=Out(dtype=_EXTREME_DTYPE))
def amin(input: Tensor, dim: int | Sequence[int] | None = (), keepdim: bool = False) -> Tensor:
    """The smallest value over `dim` (an integer, several, or () for all); NaN if there is one. See amax."""
    try:
        launch = _extreme_plans[input._layout, dim, keepdim, "amin"]
    except (KeyError, TypeError):
        launch = None
    if launch is None:
        launch = _extremes.specialize(input, dim, keepdim, "amin")
    return launch(None, input)


def shared_gradient(g: Tensor, out: Tensor, input: Tensor, dim: Any, keepdim: Any) -> Tensor:
    """The gradient of an extreme value, shared evenly among the elements that reach it."""
    layout = input._layout
    mask = input.detach() == kept(out.detach(), layout, dim, keepdim)
    if layout.dtype.is_floating_point:  # a NaN is the extreme of what holds one
        mask = mask | (input.detach().isnan() & kept(out.detach().isnan(), layout, dim, keepdim))
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
    if layout.numel == 0:
        raise RuntimeError(
            f"{which}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    if layout.dtype.is_complex:
        raise NotImplementedError(f"\"{which}_all\" not implemented for '{layout.dtype.scalar_name}'")
    return _EXTREME.launcher((input,), tuple(range(layout.ndim)), (), (which, False))


_wholes = Reducer(_prepare_whole)


def _prepare_place(input: Tensor, dim: Any, keepdim: Any, name: str) -> Callable:
    layout = input._layout
    values = name in ("max", "min")
    if not values:
        _check_real(name, f"{name}_cpu", layout)
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
        _check_real(name, f"{name}_cpu", layout)
    twice = stays_cached(layout, dims)
    launch = _PLACE.launcher((input,), dims, (), (name.endswith("max"), bool(keepdim), values, twice))
    if not values:
        return lambda input: launch(None, input)
    named = getattr(return_types, name)
    make = tuple.__new__
    return lambda input: make(named, launch(None, None, input))


_places = Reducer(_prepare_place)
_place_plans = _places.plans


@operator(out=Out(dtype=exact, device=SAME_DEVICE, graph=UNRECORDED), jvp=CONSTANT)
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the largest value over `dim` is (int64; the first of equals, or the first NaN); None: in the flattened tensor."""
    try:
        run = _place_plans[input._layout, dim, keepdim, "argmax"]
    except (KeyError, TypeError):
        run = None
    if run is None:
        run = _places.specialize(input, dim, keepdim, "argmax")
    return run(input)


@operator(out=Out(dtype=exact, device=SAME_DEVICE, graph=UNRECORDED), jvp=CONSTANT)
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the smallest value over `dim` is (int64; the first of equals, or the first NaN); None: in the flattened tensor."""
    try:
        run = _place_plans[input._layout, dim, keepdim, "argmin"]
    except (KeyError, TypeError):
        run = None
    if run is None:
        run = _places.specialize(input, dim, keepdim, "argmin")
    return run(input)


_AT_PLACE = Pointwise(
    "at_place",
    lambda g, index, place: s.where(index == place, g, 0),
    ["g", "index", "place"],
    kind=lambda common: (common, common),
    undecided=("index", "place"),
    node="ValueSelectingReduction",
)


def selected_gradient(g: Tensor, index: Tensor, layout: Layout, dim: Any, keepdim: Any) -> Tensor:
    """g at the places that a reduction over dim picked, zero elsewhere, in the shape of `layout`."""
    if not layout.ndim:
        return g
    d = geometry.wrap_dim(dim, layout.ndim)
    places = NAMESPACE["arange"](layout.shape[d], device=layout.device)
    for _ in range(layout.ndim - 1 - d):
        places = places.unsqueeze(-1)
    return call(_AT_PLACE, [kept(g, layout, d, keepdim), kept(index, layout, d, keepdim), places])


def _castable(have: DType, got: DType) -> None:
    if not can_cast(have, got):
        raise RuntimeError(
            "Expected canCast( typeMetaToScalarType(self.dtype()), typeMetaToScalarType(out.dtype())) to be true, but got "
            f"false.  (The largest or smallest element is of {have}, out is of {got}.)"
        )


_OF_ALL = Out(dtype=_castable, device=SAME_DEVICE, overlap=DISTINCT)


@operator(function=False, method=False, node="MaxBackward1", name="max", out=_OF_ALL)
def _largest(input: Tensor):
    return _wholes.specialize(input, None, False, "max")(None, input)


@operator(function=False, method=False, node="MinBackward1", name="min", out=_OF_ALL)
def _smallest(input: Tensor):
    return _wholes.specialize(input, None, False, "min")(None, input)


def whole_gradient(g: Tensor, out: Tensor, input: Tensor) -> Tensor:
    """The rule of an extreme or median of everything, which is shared by those that are it, or by the NaNs if it is one."""
    values, most = input.detach(), out.detach()
    mask = (values == most) | (values.isnan() & most.isnan()) if values.is_floating_point() else values == most
    return NAMESPACE["zeros_like"](values).masked_fill(mask, g / mask.sum())


_largest.vjp(whole_gradient)
_smallest.vjp(whole_gradient)


@operator(out=Out(dtype=exact, device=SAME_DEVICE, overlap=DISTINCT), function=False, method=False, name="max", differentiable=1)
def _max(input: Tensor, dim: int, keepdim: bool = False):
    try:
        run = _place_plans[input._layout, dim, keepdim, "max"]
    except (KeyError, TypeError):
        run = None
    if run is None:
        run = _places.specialize(input, dim, keepdim, "max")
    return run(input)


@operator(out=Out(dtype=exact, device=SAME_DEVICE, overlap=DISTINCT), function=False, method=False, name="min", differentiable=1)
def _min(input: Tensor, dim: int, keepdim: bool = False):
    try:
        run = _place_plans[input._layout, dim, keepdim, "min"]
    except (KeyError, TypeError):
        run = None
    if run is None:
        run = _places.specialize(input, dim, keepdim, "min")
    return run(input)


def along_gradient(g: Tensor, out1: Tensor, layouts: Any, dim: Any, keepdim: Any) -> Tensor:
    """The rule of (values, indices) along a dimension."""
    return selected_gradient(g, out1, layouts[0], dim, keepdim)


_max.vjp(along_gradient)
_min.vjp(along_gradient)


def max(input, dim: int | Tensor | None = None, keepdim=False, *, other=None, axis=None, keepdims=None, out=None):
    """max(input): the largest value. max(input, dim, keepdim): (values, indices) along a dimension; the first of equals.
    max(input, other): the elementwise maximum.

    NaN is larger than everything. The gradient of the first form is shared among equals, that of the second goes to the index.
    Raises RuntimeError or IndexError where there is nothing to choose from.
    """
    if isinstance(dim, Tensor) or other is not None:
        return NAMESPACE["maximum"](input, dim if other is None else other, out=out)
    if axis is not None or keepdims is not None:
        dim, keepdim = dim if axis is None else axis, keepdim if keepdims is None else keepdims
    return _largest(input, out=out) if dim is None else _max(input, dim, keepdim, out=out)


def min(input, dim: int | Tensor | None = None, keepdim=False, *, other=None, axis=None, keepdims=None, out=None):
    """min(input): the smallest value. min(input, dim, keepdim): (values, indices) along a dimension; the first of equals.
    min(input, other): the elementwise minimum. See max.
    """
    if isinstance(dim, Tensor) or other is not None:
        return NAMESPACE["minimum"](input, dim if other is None else other, out=out)
    if axis is not None or keepdims is not None:
        dim, keepdim = dim if axis is None else axis, keepdim if keepdims is None else keepdims
    return _smallest(input, out=out) if dim is None else _min(input, dim, keepdim, out=out)


for _public, _generated in ((max, _max), (max, _largest), (min, _min), (min, _smallest)):
    _generated.__globals__[_public.__name__] = _public  # what an override of __torch_function__ is given
    NAMESPACE[_public.__name__] = _public
    setattr(Tensor, _public.__name__, _public)


@operator(out=Out(dtype=exact, overlap=DISTINCT), planned=True)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False):
    """(min, max) of everything, or along `dim`."""
    layout = input._layout
    if dim is None and layout.numel == 0:
        raise RuntimeError("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
    _check_real("aminmax", "aminmax_cpu", layout)
    dims = tuple(range(layout.ndim)) if dim is None else (one_dim("aminmax", dim, layout.ndim),)[: layout.ndim or 0]
    if dim is not None:
        for d in dims:
            if layout.shape[d] == 0:
                raise IndexError(f"aminmax: Expected reduction dim {d} to have non-zero size.")
    run = _EXTREME.launcher((input,), dims, (), ("both", bool(keepdim)))
    return lambda none, input: return_types.aminmax(run(none, none, input))


@aminmax.vjp
def _(gs, outs, input, dim, keepdim):
    parts = [shared_gradient(g, out, input, dim, keepdim) for g, out in zip(gs, outs) if g is not None]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]
