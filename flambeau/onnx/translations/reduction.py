"""Translations of reductions: sums, means, extremes, spreads, norms, cumulative sums."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import axes_of, sized
from flambeau.onnx.translations.comparison import truth


def reduced(b: Builder, op_type: str, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """A reduction along dimensions, or along all."""
    if not x.rank:
        return x
    axes = axes_of(x, dim)
    shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keepdim or i not in axes]
    return b.op(op_type, x, axes, keepdims=int(keepdim), shape=shape)


@translation("sum", "nansum")
def sum_(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The sum; without what is no number for nansum."""
    if "nansum" in b.target and x.dtype.is_floating_point:
        x = b.op("Where", b.op("IsNaN", x), b.number(0, x.dtype), x)
    return reduced(b, "ReduceSum", b.cast(x, b.out.dtype), dim, keepdim)


@translation("mean")
def mean(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The mean."""
    return reduced(b, "ReduceMean", b.cast(x, b.out.dtype), dim, keepdim)


@translation("prod")
def prod(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The product."""
    return reduced(b, "ReduceProd", b.cast(x, b.out.dtype), dim, keepdim)


@translation("logsumexp", "special_logsumexp")
def logsumexp(b: Builder, x: Value, dim: Any, keepdim: bool = False) -> Value:
    """log of the sum of exp."""
    x = b.cast(x, b.out.dtype)
    return reduced(b, "ReduceLogSumExp", x, dim, keepdim) if x.rank else x


# ---------------------------------------------------------------- extremes


def _as_number(b: Builder, x: Value) -> Value:
    return b.cast(x, torch.int32) if x.dtype in (torch.bool, torch.int16) else x


@translation("amax", "max.default")
def amax(b: Builder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """The largest."""
    return b.cast(reduced(b, "ReduceMax", _as_number(b, x), dim, keepdim), b.out.dtype)


@translation("amin", "min.default")
def amin(b: Builder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """The smallest."""
    return b.cast(reduced(b, "ReduceMin", _as_number(b, x), dim, keepdim), b.out.dtype)


@translation("aminmax")
def aminmax(b: Builder, x: Value, *, dim: int | None = None, keepdim: bool = False) -> tuple[Value, Value]:
    """The smallest and the largest."""
    return reduced(b, "ReduceMin", x, dim, keepdim), reduced(b, "ReduceMax", x, dim, keepdim)


def _extreme_with_place(reduction: str, place: str, *names: str) -> None:
    def write(b: Builder, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        if not x.rank:
            return x, b.const(0)
        (axis,) = axes_of(x, dim)
        number = _as_number(b, x)
        found = b.cast(reduced(b, reduction, number, axis, keepdim), x.dtype)
        return found, b.op(place, number, axis=axis, keepdims=int(keepdim))

    translation(*names)(write)


_extreme_with_place("ReduceMax", "ArgMax", "max.dim")
_extreme_with_place("ReduceMin", "ArgMin", "min.dim")


def _place(op_type: str, name: str) -> None:
    def write(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        if not x.rank:
            return b.const(0)
        x = _as_number(b, x)
        if dim is not None:
            return b.op(op_type, x, axis=axes_of(x, dim)[0], keepdims=int(keepdim))
        found = b.op(op_type, b.reshape(x, [-1]), axis=0, keepdims=0, shape=())
        return b.reshape(found, [1] * x.rank) if keepdim else found

    translation(name)(write)


_place("ArgMax", "argmax")
_place("ArgMin", "argmin")


@translation("any")
def any_(b: Builder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Whether there is an element that isn't 0."""
    found = reduced(b, "ReduceMax", b.cast(truth(b, x), torch.int32), dim, keepdim)
    return b.cast(b.cast(found, torch.bool), b.out.dtype)


@translation("all")
def all_(b: Builder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Whether no element is 0."""
    found = reduced(b, "ReduceMin", b.cast(truth(b, x), torch.int32), dim, keepdim)
    return b.cast(b.cast(found, torch.bool), b.out.dtype)


@translation("count_nonzero")
def count_nonzero(b: Builder, x: Value, dim: Any = None) -> Value:
    """How many elements aren't 0."""
    return reduced(b, "ReduceSum", b.cast(truth(b, x), torch.int64), dim)


# ---------------------------------------------------------------- spreads


def spread(b: Builder, x: Value, dim: Any, correction: Any, keepdim: bool) -> tuple[Value, Value]:
    """The variance and the mean."""
    axes = axes_of(x, dim)
    middle = reduced(b, "ReduceMean", x, axes, True)
    away = b.op("Sub", x, middle)
    squares = b.op("Mul", away, away)
    center = middle if keepdim else b.squeeze(middle, *axes) if x.rank else middle
    correction = 1 if correction is None else correction
    if not correction:
        return reduced(b, "ReduceMean", squares, axes, keepdim), center
    count: Any = 1
    for d in axes:
        count = count * b.size(x, d)
    total = reduced(b, "ReduceSum", squares, axes, keepdim)
    if isinstance(count, Size):
        left = b.op("Sub", b.number(count, x.dtype), float(correction))
        return b.op("Div", total, b.op("Max", left, 0)), center
    return b.op("Div", total, float(max(count - correction, 0))), center


def _spread(name: str, root: bool, both: bool) -> None:
    def of(b: Builder, x: Value, dim: Any, correction: Any, keepdim: bool) -> Any:
        variance, center = spread(b, x, dim, correction, keepdim)
        made = b.op("Sqrt", variance) if root else variance
        return (made, center) if both else made

    def default(b: Builder, x: Value, unbiased: bool = True) -> Any:
        return of(b, x, None, int(unbiased), False)

    def along(b: Builder, x: Value, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
        return of(b, x, dim, int(unbiased), keepdim)

    def corrected(b: Builder, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        return of(b, x, dim, correction, keepdim)

    translation(f"{name}.default")(default)
    translation(f"{name}.dim")(along)
    translation(f"{name}.correction")(corrected)


_spread("var", False, False)
_spread("std", True, False)
_spread("var_mean", False, True)
_spread("std_mean", True, True)


# ---------------------------------------------------------------- norms


@translation("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype")
def vector_norm(b: Builder, x: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The norm of vectors."""
    x = b.cast(x, b.out.dtype)
    ord = 2 if ord is None else ord
    if not x.rank:
        return b.op("Abs", x)
    if ord == 2:
        return reduced(b, "ReduceL2", x, dim, keepdim)
    if ord == 1:
        return reduced(b, "ReduceL1", x, dim, keepdim)
    size = b.op("Abs", x)
    if math.isinf(ord):
        return reduced(b, "ReduceMax" if ord > 0 else "ReduceMin", size, dim, keepdim)
    if ord == 0:
        return reduced(b, "ReduceSum", b.cast(truth(b, x), b.out.dtype), dim, keepdim)
    total = reduced(b, "ReduceSum", b.op("Pow", size, float(ord)), dim, keepdim)
    return b.op("Pow", total, 1.0 / ord)


@translation("renorm")
def renorm(b: Builder, x: Value, p: Any, dim: int, maxnorm: Any) -> Value:
    """Slices along a dimension, none longer than a number."""
    (dim,) = axes_of(x, dim)
    size = vector_norm(b, x, p, [d for d in range(x.rank) if d != dim], True)
    factor = b.op("Div", float(maxnorm), b.op("Add", size, 1e-7))
    return b.op("Mul", x, b.op("Where", b.op("Greater", size, float(maxnorm)), factor, b.number(1, x.dtype)))


# ---------------------------------------------------------------- along a dimension


@translation("cumsum")
def cumsum(b: Builder, x: Value, dim: int, *, dtype: Any = None) -> Value:
    """Sums so far."""
    x = b.cast(x, b.out.dtype)
    return b.op("CumSum", x, b.const(axes_of(x, dim)[0])) if x.rank else x


@translation("logcumsumexp")
def logcumsumexp(b: Builder, x: Value, dim: int) -> Value:
    """log of the sums of exp so far, from the largest of all."""
    if not x.rank:
        return x
    largest = reduced(b, "ReduceMax", x, dim, True)
    so_far = b.op("CumSum", b.op("Exp", b.op("Sub", x, largest)), b.const(axes_of(x, dim)[0]))
    return b.op("Add", b.op("Log", so_far), largest)


@translation("cumprod")
def cumprod(b: Builder, x: Value, dim: int, *, dtype: Any = None) -> Value:
    """Products so far: a row of ones is multiplied in, element by element."""
    x = b.cast(x, b.out.dtype)
    if not x.rank:
        return x
    (size,) = sized(b, x, dim)
    (axis,) = axes_of(x, dim)
    made = [b.slice(x, axis, 0, 1)]
    for i in range(1, size):
        made.append(b.op("Mul", made[-1], b.slice(x, axis, i, i + 1)))
    return made[0] if size == 1 else b.op("Concat", *made, axis=axis)


@translation("diff")
def diff(b: Builder, x: Value, n: int = 1, dim: int = -1, prepend: Value | None = None, append: Value | None = None) -> Value:
    """Differences of neighbours."""
    (dim,) = axes_of(x, dim)
    if prepend is not None or append is not None:
        x = b.op("Concat", *[y for y in (prepend, x, append) if y is not None], axis=dim, shape=x.shape)
    for _ in range(n):
        x = b.op("Sub", b.slice(x, dim, 1, 2**63 - 1), b.slice(x, dim, 0, -1))
    return x
