"""Order statistics: median, nanmedian, mode, quantile, nanquantile.

Medians select (ops.reduction.selection), the others sort. Stands on ops.reduction.sum and ops.reduction.extrema; sort, topk
and kthvalue are in ops.sorting.sort.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import bool_, float32, float64, iinfo, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.ordering.runs import longest_run_plan
from flambeau.core.autograd.inplace import owned
from flambeau.core.autograd.node import one_step
from flambeau.core.modes.autocast import single
from flambeau.core.operator import return_types
from flambeau.core.operator.annotations import Number
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.out_rules import COPIED, DISTINCT, Out, worded
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.core.tensor.without_data import known
from flambeau.ir import scalar as s
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.reduction.extrema import along_gradient, selected_gradient, whole_gradient
from flambeau.ops.reduction.selection import select
from flambeau.ops.reduction.sum import one_dim

# ---------------------------------------------------------------- medians


def _check(name: str, layout: Layout, d: int, kernel: str, booleans: bool = False) -> None:
    if layout.ndim and layout.shape[d] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")
    if layout.dtype.is_complex or (layout.dtype is bool_ and not booleans):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{layout.dtype.scalar_name}'")


def _fresh(x: Tensor) -> Tensor:
    """A contiguous tensor that is no view of another."""
    x = x.contiguous()
    return tensor_from(x._storage, x._offset, x._layout)


def _of_nothing(dtype: DType) -> Any:
    """The median of no elements: NaN, or what processors make of it as an integer of 32 bits and more."""
    if dtype.is_floating_point or dtype.is_complex or dtype is bool_:
        return math.nan
    return iinfo(dtype).min if dtype.itemsize > 2 else 0


def _median(name: str, input: Tensor, dim: Any, keepdim: bool) -> Any:
    layout = input._layout
    if dim is None:
        if not layout.numel:
            return NAMESPACE["full"]((), _of_nothing(layout.dtype), dtype=layout.dtype, device=layout.device)
        _check(name, layout, 0, "median_cpu")
        return select(input, None, False, name)[0]
    d = one_dim(name, dim, layout.ndim)
    _check(name, layout, d, "median_out")
    made = getattr(return_types, name)
    if not layout.ndim:
        return made((input.clone(), NAMESPACE["zeros"]((), dtype=int64, device=layout.device)))
    return made(select(input, d, keepdim, name))


def _declare(name: str) -> tuple[Callable, Callable]:
    """The operators behind a median: of everything, and (values, indices) along a dimension."""
    title = name.capitalize()

    @operator(method=False, function=False, name=name, node=f"{title}Backward0", real_gradients=name)
    def whole(input: Tensor):
        return _median(name, input, None, False)

    @operator(method=False, function=False, name=name, node=f"{title}Backward1", differentiable=1, real_gradients=name)
    def along(input: Tensor, dim, keepdim=False):
        return _median(name, input, dim, keepdim)

    whole.vjp(whole_gradient)
    along.vjp(along_gradient)
    return whole, along


_whole_median, _median_along = _declare("median")
_whole_nanmedian, _nanmedian_along = _declare("nanmedian")


_INDICES = worded(
    "Expected tensor for argument #1 'indices' to have scalar type {have}; but got torch.{got}Tensor instead (while "
    "checking arguments for median)"
)


@composite(out=Out(dtype=_INDICES, overlap=DISTINCT, needs_dim=True))
def median(input: Tensor, dim: int | None = None, keepdim: bool = False):
    """The median (the lower one of two), NaN if there is one; with `dim`: (values, indices) along it."""
    return _whole_median(input) if dim is None else _median_along(input, dim, keepdim)


@composite(out=Out(dtype=_INDICES, overlap=DISTINCT, needs_dim=True))
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False):
    """The median of the elements that are not NaN; with `dim`: (values, indices) along it."""
    return _whole_nanmedian(input) if dim is None else _nanmedian_along(input, dim, keepdim)


# ---------------------------------------------------------------- mode


_mode_plans: dict[Layout, Callable] = register_cache({})
SHORT = 256  # rows up to this length have each element compared with all; longer ones are sorted


@operator(
    differentiable=1,
    real_gradients="mode",
    out=Out(dtype=worded("expected scalar type '{have}' but got '{got}' for indices output"), overlap=DISTINCT),
)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """(values, indices): the most frequent element along `dim` (the smallest of equally frequent ones), and where it last is."""
    layout = input._layout
    d = one_dim("mode", dim, layout.ndim)
    if layout.dtype.is_complex and not layout.numel and layout.shape[d]:  # nothing is compared
        none = input.select(d, 0)
        none = (none.unsqueeze(d) if keepdim else none).contiguous()
        return return_types.mode((none.clone(), NAMESPACE["zeros"](none.shape, dtype=int64, device=layout.device)))
    _check("mode", layout, d, "mode_cpu", booleans=True)
    if not layout.ndim:
        return return_types.mode((input.clone(), NAMESPACE["zeros"]((), dtype=int64, device=layout.device)))
    if layout.shape[d] <= SHORT:
        return return_types.mode(select(input, d, keepdim, "mode"))
    values, order = map(contiguous, NAMESPACE["sort"](input.movedim(d, -1), -1, stable=True))
    launch = _mode_plans.get(values._layout)
    if launch is None:
        ready = values._layout
        out = Layout.contiguous((*ready.shape[:-1], 1), ready.dtype, ready.device)
        launch = _mode_plans[ready] = longest_run_plan(ready, out)
    found, indices = (x.movedim(-1, d) for x in launch(None, None, values, order))
    if not keepdim:
        found, indices = found.squeeze(d), indices.squeeze(d)
    return return_types.mode((_fresh(found), _fresh(indices)))


@mode.vjp
def _(g, out1, layouts, dim, keepdim):
    return selected_gradient(g, out1, layouts[0], dim, keepdim)


# ---------------------------------------------------------------- quantiles


INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(name: str, input: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, skip_nan: bool) -> Tensor:
    dtype = input._layout.dtype
    if not isinstance(q, Tensor) and not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not input._layout.numel:
        raise RuntimeError("quantile() input tensor must be non-empty")
    number = not isinstance(q, Tensor)
    if not number and q.dim() > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if dtype not in (float32, float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if number:
        q = NAMESPACE["tensor"](float(q), dtype=dtype, device=input._layout.device)
    elif q.dtype is not dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    elif q._layout.device is not input._layout.device:
        raise RuntimeError("quantile() q tensor must be on the same device as the input tensor")
    ndim = input.dim()
    flat = dim is None
    d = 0 if flat else one_dim(name, dim, ndim)
    if not number and known(q) and not all(0 <= x <= 1 for x in q.detach().reshape(-1).tolist()):
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    moved = input.reshape(-1) if flat else input.movedim(d, -1) if ndim else input.reshape(1)
    values = NAMESPACE["sort"](moved, -1)[0]
    size = values.size(-1)
    places = q.reshape(-1)
    last = values.detach().narrow(-1, size - 1, 1)  # NaN if there is one: those are sorted to the end
    if skip_nan:
        rank = _rank_among(places, moved.detach().isnan().sum(-1, True), size, interpolation)
    else:
        rank = _rank(places, last, size - 1, interpolation)
    result = values.gather(-1, _place(rank))
    if interpolation in ("linear", "midpoint"):
        above = values.gather(-1, _place(rank, above=True))
        result = _between(result, above, rank, interpolation == "midpoint")
    if keepdim:
        result = result.reshape([1] * ndim + [places.size(0)]) if flat else result.unsqueeze(d) if ndim else result
    return owned(_quantiles_first(result, q.dim() == 0))


@one_step("SqueezeBackward4")
def _quantiles_first(result: Tensor, single: bool) -> Tensor:
    """The result with the dimension of the quantiles in front, or without it if there is but one."""
    return result.squeeze(-1) if single else result.movedim(-1, 0)


def _settled(rank: s.Expr, interpolation: str) -> s.Expr:
    """The rank that is asked for: one between two elements only for linear and midpoint."""
    rounded = {"lower": s.floor, "higher": s.ceil, "nearest": s.round}.get(interpolation)
    return rounded(rank) if rounded else rank


@pointwise(method=False, function=False, inplace=False, name="_quantile_rank")
def _rank(q: Tensor, last: Tensor, top: Number = 0, interpolation="linear"):
    """Where in a sorted row the quantile q lies: at its end, if that is NaN."""
    return _settled(s.where(s.isnan(last), top, q * top), interpolation)


@pointwise(method=False, function=False, inplace=False, name="_nanquantile_rank", undecided=("missing",))
def _rank_among(q: Tensor, missing: Tensor, size: Number = 1, interpolation="linear"):
    """Where among the elements of a sorted row that are not missing the quantile q lies."""
    return _settled(q * s.maximum(size - 1 - s.cast(missing, q.dtype), 0), interpolation)


@pointwise(
    kind=lambda common, above: (common, int64),
    method=False,
    function=False,
    inplace=False,
    differentiable=False,
    name="_quantile_place",
)
def _place(rank: Tensor, above=False):
    return s.cast(s.ceil(rank) if above else s.floor(rank), int64)


@pointwise(method=False, function=False, inplace=False, name="_quantile_between")
def _between(below: Tensor, above: Tensor, rank: Tensor, midpoint=False):
    """The value at a rank between two neighbours, nearer to which the error is smaller."""
    share = _share(rank, midpoint)
    return s.where(share < 0.5, below + share * (above - below), above - (above - below) * (1 - share))


@_between.vjp
def _(g, below, above, rank, midpoint):
    share = _share(rank, midpoint)
    return g * (1 - share), g * share, None if midpoint else g * (above - below)


def _share(rank: s.Expr, midpoint: bool) -> s.Expr:
    return s.constant(0.5, rank.dtype) if midpoint else rank - s.floor(rank)


@composite(out=Out(dtype=worded("quantile() out tensor must be same dtype as the input tensor"), graph=COPIED), autocast=single)
def quantile(input: Tensor, q, dim: int | None = None, keepdim: bool = False, *, interpolation="linear") -> Tensor:
    """The quantiles q (a number or a 1-D tensor, in [0, 1]) of everything or along `dim`; NaN where there is one.

    A tensor q adds a first dimension. interpolation: linear, lower, higher, midpoint or nearest. Raises RuntimeError
    for wrong dtypes.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@composite(out=Out(dtype=worded("quantile() out tensor must be same dtype as the input tensor"), graph=COPIED), autocast=single)
def nanquantile(input: Tensor, q, dim: int | None = None, keepdim: bool = False, *, interpolation="linear") -> Tensor:
    """quantile of the elements that are not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
