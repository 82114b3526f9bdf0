"""var, std, var_mean and std_mean.

Rows that stay in cache are read twice (mean, then squared deviations); longer ones once, by combining counts, means and squares
pairwise. Stands on ops.reduction.sum.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import float32, float64
from flambeau.base.layout import Layout
from flambeau.base.warn import warn
from flambeau.core.operator.annotations import Number
from flambeau.core.operator.define import operator
from flambeau.core.operator.out_rules import BEFORE_DTYPE, Out
from flambeau.core.operator.row_program import Rows
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.loops import Fold, Loop, Row, folded
from flambeau.ir.scalar import cast, constant
from flambeau.ops.reduction.sum import Reducer, adding, count_of, form, kept, reduction_dims, spread, stays_cached, wide


def deviations(name: str, x: Any) -> Fold:
    """(count, mean, squares) of an expression, in one pass: `<name>.n`, `<name>.mean`, `<name>.m2` (sum of squared
    deviations).
    """
    real = s.real(x).dtype
    zero = constant(0, real)

    def combine(a: tuple, b: tuple) -> tuple:
        (n1, mean1, m1), (n2, mean2, m2) = a, b
        n = n1 + n2
        delta = mean2 - mean1
        share = n2 / s.where(n == 0, 1, n)
        square = s.square(delta) if not delta.dtype.is_complex else s.square(s.real(delta)) + s.square(s.imag(delta))
        return n, mean1 + delta * share, m1 + m2 + square * n1 * share

    return Fold(
        (f"{name}.n", f"{name}.mean", f"{name}.m2"), (zero, constant(0, x.dtype), zero), (constant(1, real), x, zero), combine
    )


def _variance_stages(
    elements: tuple, numbers: tuple, root: builtins.bool, mean_too: builtins.bool, keepdim: Any, once: builtins.bool
) -> tuple:
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


_VARIANCE = Rows(
    "variance",
    _variance_stages,
    lambda dtypes, root, mean_too, keepdim, once: [
        (dtypes[0].to_real() if dtypes[0].is_complex else dtypes[0], form(keepdim)),
        *([(dtypes[0], form(keepdim))] if mean_too else []),
    ],
    number_dtype=lambda dtypes: float64,
)


def _prepare_variance(input: Tensor, dim: Any, keepdim: Any, correction: Any, name: str) -> Callable:
    layout = input._layout
    if not (layout.dtype.is_floating_point or layout.dtype.is_complex):
        raise RuntimeError(
            "std and var only support floating point and complex dtypes"
            if "mean" not in name
            else f"{name} only support floating point and complex dtypes"
        )
    dims = reduction_dims(name, dim, layout.ndim)
    count = count_of(layout, dims)
    freedom = builtins.max(count - correction, 0)
    once = not stays_cached(layout, dims)
    numbers = (float(count), float(freedom))
    launch = _VARIANCE.launcher((input,), dims, numbers, (name.startswith("std"), "mean" in name, bool(keepdim), once))
    outs = (None,) * (2 if "mean" in name else 1)
    if freedom > 0:
        return lambda input: launch(*outs, input, *numbers)

    def warning(input: Tensor) -> Any:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input "
            "numel divided by output numel)."
        )
        return launch(*outs, input, *numbers)

    return warning


_variances = Reducer(_prepare_variance)


def _correction(unbiased: Any, correction: Any) -> Any:
    if unbiased is not None:
        return 1 if unbiased else 0
    return 1 if correction is None else correction


def _statistics(name: str, input: Tensor, dim: Any, unbiased: Any, keepdim: Any, correction: Any) -> Any:
    if dim.__class__ is bool:
        dim, unbiased = None, dim
    if unbiased.__class__ is not bool and unbiased is not None:
        raise TypeError(f"{name}() received an invalid combination of arguments: 'unbiased' must be bool")
    run = _variances.specialize(input, dim, keepdim, _correction(unbiased, correction), name)
    return run(input)


@operator(out=Out(fitted=BEFORE_DTYPE))
def var(input: Tensor, dim=None, unbiased=None, keepdim=False, *, correction=None) -> Tensor:
    """The variance over `dim`: squared deviations summed, divided by the number of elements less `correction` (1 by default).

    `var(input, unbiased)` and `unbiased=False` (correction 0) are the older forms. Raises RuntimeError for integers.
    """
    return _statistics("var", input, dim, unbiased, keepdim, correction)


@operator(out=Out(fitted=BEFORE_DTYPE))
def std(input: Tensor, dim=None, unbiased=None, keepdim=False, *, correction=None) -> Tensor:
    """The standard deviation over `dim`, the root of var."""
    return _statistics("std", input, dim, unbiased, keepdim, correction)


@operator(method=False)
def var_mean(input: Tensor, dim=None, unbiased=None, keepdim=False, *, correction=None) -> tuple[Tensor, Tensor]:
    """(variance, mean) over `dim`; arguments as of var."""
    return _statistics("var_mean", input, dim, unbiased, keepdim, correction)


@operator(method=False)
def std_mean(input: Tensor, dim=None, unbiased=None, keepdim=False, *, correction=None) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) over `dim`; arguments as of var."""
    return _statistics("std_mean", input, dim, unbiased, keepdim, correction)


def _variance_gradient(g: Tensor, input: Tensor, dim: Any, unbiased: Any, keepdim: Any, correction: Any) -> Tensor:
    layout = input._layout
    if dim.__class__ is bool:
        dim, unbiased = None, dim
    count = count_of(layout, geometry.wrap_reduction_dims(dim, layout.ndim))
    freedom = count - _correction(unbiased, correction)
    if freedom <= 0 and count == 0:
        return kept(g, layout, dim_of(dim, layout), keepdim).expand(layout.shape)
    every = tuple(range(layout.ndim)) if dim is None else dim
    factor = 2.0 / freedom if freedom > 0 else math.inf if freedom == 0 else math.nan
    return _deviations(kept(g, layout, dim_of(dim, layout), keepdim), input, input.mean(every, True), factor)


@pointwise(method=False, function=False, inplace=False)
def _deviations(g: Tensor, input: Tensor, mean: Tensor, factor: Number = 1.0):
    return g * factor * (input - mean)


@pointwise(method=False, function=False, inplace=False)
def _variance_share(g: Tensor, deviation: Tensor):
    """The gradient of the variance by that of its root; 0 where that is 0."""
    return s.where(deviation == 0, 0, g / (deviation * 2))


def dim_of(dim: Any, layout: Layout) -> Any:
    """None, if a dim argument names every dimension by being empty."""
    return None if dim is None or (isinstance(dim, (tuple, list)) and not dim) else dim


def _deviation_gradient(g: Tensor, out: Tensor, input: Tensor, dim: Any, unbiased: Any, keepdim: Any, correction: Any) -> Tensor:
    return _variance_gradient(_variance_share(g, out), input, dim, unbiased, keepdim, correction)


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
def _(gs, out0, input, dim, unbiased, keepdim, correction):
    parts = []
    if gs[0] is not None:
        parts.append(_deviation_gradient(gs[0], out0, input, dim, unbiased, keepdim, correction))
    if gs[1] is not None:
        parts.append(_mean_part(gs[1], input._layout, dim, keepdim))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]
