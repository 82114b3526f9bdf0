"""Running results along a dimension: cumsum, cumprod, cummax, cummin, logcumsumexp; and diff.

Scans are row programs (core.operator.row_program) whose loop stores what it has folded so far. Stands on ops.reduction.sum
and ops.reduction.extrema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import asked_for, bool_, int64
from flambeau.base.dtype import dtype as DType
from flambeau.core.modes import modes
from flambeau.core.operator import return_types
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.out_rules import ALIGNED, COPIED, DISTINCT, Out, any_dtype, worded
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.row_program import FULL, Rows
from flambeau.core.tensor.tensor import Tensor, empty_layout
from flambeau.ir import scalar as s
from flambeau.ir.loops import Fold, Loop, folded, position
from flambeau.ir.scalar import cast, compute_dtype, constant
from flambeau.ops.reduction.extrema import greatest, least
from flambeau.ops.reduction.sum import Reducer, one_dim, wide

# ---------------------------------------------------------------- sums, products, logarithms of sums


def _log_add(a: tuple, b: tuple) -> tuple:
    """(largest, sum of exponentials beside it) of two sums of exponentials; equal infinities stay."""
    (u, p), (v, q) = a, b
    share = s.exp(s.where(u == v, 0, -abs(u - v)))
    return s.maximum(u, v), s.where(u >= v, p + q * share, p * share + q)


def _complex_log_add(a: tuple, b: tuple) -> tuple:
    """log(exp(a) + exp(b)) of complex numbers; the imaginary part goes on from that of the larger one."""
    (u,), (v,) = a, b
    smaller = s.real(u) < s.real(v)
    high, low = s.where(smaller, v, u), s.where(smaller, u, v)
    # beside nothing, or a far larger number, a number vanishes
    return (s.where(s.isinf(s.real(low)), high, high + s.log1p(s.exp(low - high))),)


_COMBINE: dict[str, tuple[Any, Callable]] = {"sum": (0, lambda a, b: (a[0] + b[0],)), "prod": (1, lambda a, b: (a[0] * b[0],))}


def _scan_stages(elements: tuple, numbers: tuple, kind: str, result: DType) -> tuple:
    x = cast(elements[0], compute_dtype(result))
    total = wide(x.dtype)
    if kind == "logsumexp" and x.dtype.is_complex:
        start = constant(complex(float("-inf"), 0), x.dtype)
        fold = Fold(("running",), (start,), (x,), _complex_log_add)
        return (Loop((fold,), ((0, folded("running", x.dtype)),), scan=True),)
    if kind == "logsumexp":
        parts = Fold(
            ("largest", "rest"),
            (constant(float("-inf"), total), constant(0, total)),
            (cast(x, total), constant(1, total)),
            _log_add,
        )
        largest, rest = parts.leaves()
        return (Loop((parts,), ((0, cast(largest + s.log(rest), x.dtype)),), scan=True, grouped=True),)
    start, combine = _COMBINE[kind]
    fold = Fold(("running",), (constant(start, total),), (cast(x, total),), combine)
    return (Loop((fold,), ((0, cast(folded("running", total), x.dtype)),), scan=True),)


_SCAN = Rows("scan", _scan_stages, lambda dtypes, kind, result: [(result, FULL)], ordered=True, converts=True)


def _prepare_scan(input: Tensor, dim: Any, kind: str, dtype: DType | None) -> Callable:
    dtype = asked_for(dtype)
    layout = input._layout
    own = layout.dtype
    result = dtype or (own if own.is_floating_point or own.is_complex or kind == "logsumexp" else int64)
    d = one_dim("logcumsumexp" if kind == "logsumexp" else f"cum{kind}", dim, layout.ndim)
    if kind == "logsumexp" and not (result.is_floating_point or result.is_complex):
        raise NotImplementedError(f"\"logcumsumexp_out_cpu\" not implemented for '{result.scalar_name}'")
    if result is bool_ and layout.ndim and layout.numel:
        raise NotImplementedError(f"\"cum{kind}_out_cpu\" not implemented for 'Bool'")
    launch = _SCAN.launcher((input,), (d,) if layout.ndim else (), (), (kind, result))
    return lambda input: launch(None, input)


_scans = Reducer(lambda input, dim, keepdim, kind, dtype: _prepare_scan(input, dim, kind, dtype))
_scan_plans = _scans.plans


def _scan(kind: str, input: Tensor, dim: Any, dtype: DType | None) -> Tensor:
    try:
        run = _scan_plans[input._layout, dim, False, kind, dtype]
    except (KeyError, TypeError):
        run = None
    if run is None:
        run = _scans.specialize(input, dim, False, kind, dtype)
    return run(input)


def _refuse_bool(kind: str) -> Callable:
    """What an in-place scan does first: NotImplementedError for booleans, which it would have to compute in."""

    def writer(self: Tensor, dim: int, dtype: DType | None = None) -> bool:
        layout = self._layout
        one_dim(f"cum{kind}", dim, layout.ndim)
        if layout.dtype is bool_ and layout.numel and layout.ndim and dtype in (None, bool_):
            raise NotImplementedError(f"\"cum{kind}_out_cpu\" not implemented for 'Bool'")
        return False

    return writer


@operator(out=Out(dtype=any_dtype, overlap=ALIGNED), inplace=_refuse_bool("sum"), jvp=LINEAR)
def cumsum(input: Tensor, dim: int, *, dtype=None) -> Tensor:
    """Running sums along `dim`, of input's shape. Integers and bools sum to int64; `dtype` converts before."""
    return _scan("sum", input, dim, dtype)


def _reversed_sums(g: Tensor, dim: int) -> Tensor:
    return g.flip(dim).cumsum(dim).flip(dim) if g.dim() else g


@cumsum.vjp
def _(g, dim):
    return _reversed_sums(g, dim)


@operator(out=Out(dtype=any_dtype, overlap=ALIGNED), inplace=_refuse_bool("prod"))
def cumprod(input: Tensor, dim: int, *, dtype=None) -> Tensor:
    """Running products along `dim`, of input's shape. Integers and bools multiply in int64; `dtype` converts before."""
    return _scan("prod", input, dim, dtype)


def _recurrence_stages(elements: tuple, numbers: tuple) -> tuple:
    """r = g + x r of the step before, in order."""
    g, x = elements
    total = wide(g.dtype)
    fold = Fold(
        ("factor", "r"),
        (constant(1, total), constant(0, total)),
        (cast(x, total), cast(g, total)),
        lambda a, b: (a[0] * b[0], b[1] + b[0] * a[1]),
    )
    return (Loop((fold,), ((0, cast(folded("r", total), g.dtype)),), scan=True),)


_RECURRENCE = Rows("linear_recurrence", _recurrence_stages, lambda dtypes: [(dtypes[0], FULL)], ordered=True)


@cumprod.vjp
def _(g, out, input, dim, dtype):
    layout = input._layout
    if not layout.ndim or not layout.numel:
        return g
    x = input if dtype is None or dtype is layout.dtype else input.to(dtype)
    if x.is_complex():
        x, out = x.conj().resolve_conj(), out.conj().resolve_conj()
    d = one_dim("cumprod", dim, layout.ndim)
    size = layout.shape[d]
    if size == 1:
        return g
    one = NAMESPACE["ones_like"](x.detach().narrow(d, 0, 1))
    before = NAMESPACE["cat"]([one, out.narrow(d, 0, size - 1)], d)
    following = NAMESPACE["cat"]([x.narrow(d, 1, size - 1), one], d)
    if modes.local.grad:
        return before * _recurrence_by_operators(g, following, d, size)
    backwards = _RECURRENCE((g.flip(d), following.flip(d)), (d,))
    return before * backwards.flip(d)


def _recurrence_by_operators(g: Tensor, following: Tensor, dim: int, size: int) -> Tensor:
    """r[k] = g[k] + following[k] r[k + 1], in differentiable operators."""
    r = g.select(dim, size - 1)
    parts = [r]
    for k in range(size - 2, -1, -1):
        r = g.select(dim, k) + following.select(dim, k) * r
        parts.append(r)
    return NAMESPACE["stack"](parts[::-1], dim)


@operator(out=Out(dtype=worded("expected scalar_type {have} but found {got}"), overlap=ALIGNED, refuses_first=True))
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log(cumsum(exp(input))) along `dim`, without overflow."""
    return _scan("logsumexp", input, dim, None)


@logcumsumexp.vjp
def _(g, out, input, dim):
    if not g.dim():
        return g
    if modes.local.grad or out.is_complex():
        size = out.detach().real if out.is_complex() else out.detach()
        shift = size.amax(dim, True)
        return _reversed_sums(g * (shift - out).exp().conj(), dim) * (input - shift).exp().conj()
    nothing = float("-inf")
    positive = g.detach() > 0
    up = (g.abs().log().masked_fill(positive.logical_not(), nothing) - out).flip(dim).logcumsumexp(dim).flip(dim)
    down = (g.abs().log().masked_fill(g.detach() >= 0, nothing) - out).flip(dim).logcumsumexp(dim).flip(dim)
    return (up + input).exp() - (down + input).exp()


# ---------------------------------------------------------------- running extremes


def _extreme_scan_stages(elements: tuple, numbers: tuple, largest: bool) -> tuple:
    x = elements[0]
    dtype = x.dtype

    def combine(a: tuple, b: tuple) -> tuple:
        (u, i), (v, j) = a, b
        if dtype is bool_:
            takes = (v | ~u) if largest else (u | ~v)
        else:
            takes = v >= u if largest else v <= u
        if dtype.is_floating_point:
            takes = s.isnan(v) | takes
        return s.where(takes, v, u), s.where(takes, j, i)

    start = constant(least(dtype) if largest else greatest(dtype), dtype)
    fold = Fold(("value", "index"), (start, constant(0, int64)), (x, position()), combine)
    return (Loop((fold,), ((0, folded("value", dtype)), (1, folded("index", int64))), scan=True, grouped=True),)


_EXTREME_SCAN = Rows(
    "extreme_scan", _extreme_scan_stages, lambda dtypes, largest: [(dtypes[0], FULL), (int64, FULL)], ordered=True
)


def _prepare_extreme(input: Tensor, dim: Any, keepdim: Any, name: str) -> Callable:
    layout = input._layout
    if layout.numel:
        if not layout.ndim and dim not in (0, -1):
            raise IndexError(f"{name}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
        d = one_dim(name, dim, layout.ndim)
    if layout.ndim == 0 and layout.dtype.is_complex:
        return lambda input: getattr(return_types, name)((input.clone(), input.new_zeros((), dtype=int64)))
    if not layout.numel:  # nothing is compared, along whatever dimension
        nothing = layout.contiguous(layout.shape, layout.dtype, layout.device)
        return lambda input: getattr(return_types, name)((empty_layout(nothing), empty_layout(nothing.with_dtype(int64))))
    if layout.dtype.is_complex:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{layout.dtype.scalar_name}'")
    launch = _EXTREME_SCAN.launcher((input,), (d,) if layout.ndim else (), (), (name == "cummax",))
    named, make = getattr(return_types, name), tuple.__new__
    return lambda input: make(named, launch(None, None, input))


_extremes = Reducer(_prepare_extreme)
_extreme_plans = _extremes.plans


def _running_extreme(name: str, input: Tensor, dim: Any) -> Any:
    try:
        run = _extreme_plans[input._layout, dim, False, name]
    except (KeyError, TypeError):
        run = None
    if run is None:
        run = _extremes.specialize(input, dim, False, name)
    return run(input)


@operator(out=Out(dtype=worded("expected scalar_type {have} but found {got}")), differentiable=1, real_gradients="cummax")
def cummax(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """(values, indices): the largest element so far along `dim`, and where it is (the last of equals, int64)."""
    return _running_extreme("cummax", input, dim)


@operator(out=Out(dtype=worded("expected scalar_type {have} but found {got}")), differentiable=1, real_gradients="cummin")
def cummin(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """(values, indices): the smallest element so far along `dim`, and where it is (the last of equals, int64)."""
    return _running_extreme("cummin", input, dim)


def _running_gradient(g: Any, out1: Any, layouts: Any, dim: Any) -> Tensor:
    if not layouts[0].ndim or not layouts[0].numel:
        return g
    return NAMESPACE["zeros_like"](g).scatter_add(dim, out1, g)


cummax.vjp(_running_gradient)
cummin.vjp(_running_gradient)


# ---------------------------------------------------------------- differences


@composite(out=Out(graph=COPIED, overlap=DISTINCT))
def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbours along `dim`, taken n times; prepend and append are joined on first. Bools: whether they
    differ.
    """
    layout = input._layout
    if not layout.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    d = one_dim("diff", dim, layout.ndim)
    if n == 0:
        return input.clone()
    parts = [x for x in (prepend, input, append) if x is not None]
    for x in parts:
        if x._layout.ndim != layout.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
        for other, (own, size) in enumerate(zip(layout.shape, x._layout.shape)):
            if own != size and other != d:
                raise RuntimeError(
                    "diff expects the shape of tensor to prepend or append to match that of input except along "
                    f"the differencing dimension; input.size({other}) = {own}, but got tensor.size({other}) "
                    f"= {size}"
                )
    x = NAMESPACE["cat"](parts, d) if len(parts) > 1 else input
    for _ in range(min(n, x._layout.shape[d])):
        size = x._layout.shape[d] - 1
        after, before = x.narrow(d, 1, size), x.narrow(d, 0, size)
        x = NAMESPACE["logical_xor"](after, before) if x._layout.dtype is bool_ else after - before
    return x
