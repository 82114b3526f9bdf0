"""Vector norms and distances from sums of powers: vector_norm, norm, dist, renorm, logsumexp, trace.

Stands on ops.reduction.sum; norms are one pass over memory. linalg offers vector_norm; matrix norms are in
ops.linalg.matrix_functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import bool_, float64, get_default_dtype, promote_types
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import contiguous_format
from flambeau.core.modes.autocast import single
from flambeau.core.operator.arguments import refused
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.out_rules import ALIGNED, Out, exact
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS
from flambeau.core.operator.row_program import Rows
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Row, folded
from flambeau.ir.scalar import cast, compute_dtype, constant
from flambeau.ops.creation.copy import clone
from flambeau.ops.reduction.extrema import extreme, shift
from flambeau.ops.reduction.sum import Reducer, adding, form, kept, reduction_dims, wide

# ---------------------------------------------------------------- vector norms


def _norm_stages(elements: tuple, numbers: tuple, kind: str, result: DType, keepdim: Any) -> tuple:
    magnitude = s.abs(elements[0])
    if magnitude.dtype is not compute_dtype(result):
        magnitude = cast(magnitude, compute_dtype(result))
    total = wide(magnitude.dtype)
    if kind in ("inf", "-inf"):
        fold = extreme("norm", magnitude, kind == "inf")
        if kind == "inf":
            fold = type(fold)(fold.names, (constant(0, magnitude.dtype),), fold.lift, fold.combine)
        return Loop((fold,)), Row(((0, folded("norm", magnitude.dtype)),))
    wider = cast(magnitude, total)
    if kind == "0":
        term = cast(magnitude != 0, total)
    else:
        term = {"1": wider, "2": wider * wider}.get(kind)
        if term is None:
            term = s.pow(magnitude, cast(numbers[0], magnitude.dtype))
            term = cast(term, total)
    out = folded("norm", total)
    if kind == "2":
        out = s.sqrt(out)
    elif kind == "p":
        out = s.pow(out, 1 / cast(numbers[0], total))
    return Loop((adding("norm", term),)), Row(((0, cast(out, magnitude.dtype)),))


_NORM = Rows(
    "vector_norm",
    _norm_stages,
    lambda dtypes, kind, result, keepdim: [(result, form(keepdim))],
    number_dtype=lambda dtypes: float64,
)
_KINDS = {0.0: "0", 1.0: "1", 2.0: "2", math.inf: "inf", -math.inf: "-inf"}


def _check_result(own: DType, dtype: DType | None) -> None:
    """RuntimeError for a dtype in which the norm of elements of another one is not computed."""
    if dtype is None or dtype is own:
        return
    if own.is_complex != dtype.is_complex:
        kind = "complex for complex" if own.is_complex else "real for real"
        raise RuntimeError(f"linalg.vector_norm: dtype should be {kind} inputs, but got {dtype.scalar_name}")
    if promote_types(own, dtype) is not dtype:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({own.scalar_name}) should be convertible without "
            f"narrowing to the specified dtype ({dtype.scalar_name})"
        )


_REAL = frozenset((float, int))


def _order(ord: Any) -> float:
    """The order of a norm as a float. TypeError for what is no number, RuntimeError for a complex one."""
    if isinstance(ord, complex):
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    if isinstance(ord, str) or not hasattr(ord, "__float__"):
        raise refused("linalg_vector_norm", "ord", "Number", ord, 2)
    return float(ord)


def _prepare_norm(input: Tensor, dim: Any, keepdim: Any, order: float, dtype: DType | None) -> Callable:
    layout = input._layout
    if not (layout.dtype.is_floating_point or layout.dtype.is_complex):
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {layout.dtype.scalar_name}"
        )
    _check_result(layout.dtype, dtype)
    result = dtype or layout.dtype
    result = result.to_real() if result.is_complex else result
    dims = reduction_dims("linalg_vector_norm", dim, layout.ndim)
    if order < 0 or order == math.inf:
        for d in dims:
            if layout.shape[d] == 0:
                raise RuntimeError(
                    f"linalg.vector_norm cannot compute the {order:g} norm on an empty tensor because the "
                    "operation does not have an identity"
                    if dim is None
                    else f"linalg.vector_norm cannot compute the {order:g} norm on the dimension {d} because this "
                    "dimension is empty and the operation does not have an identity"
                )
    kind = _KINDS.get(order, "p")
    numbers = (order,) if kind == "p" else ()
    launch = _NORM.launcher((input,), dims, numbers, (kind, result, bool(keepdim)))
    return lambda input: launch(None, input, *numbers)


_norms = Reducer(_prepare_norm)


@operator(out=Out(dtype=exact), function=False, method=False, node="LinalgVectorNormBackward0", name="linalg_vector_norm")
def vector_norm(x: Tensor, ord=2, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None):
    """The vector norm of order `ord` (a number, inf or -inf) over `dim` (an integer, several, or None for all).

    0 counts the nonzero elements. Raises RuntimeError for integers.
    """
    order = float(ord) if ord.__class__ in _REAL else _order(ord)
    return _norms.specialize(x, dim, keepdim, order, dtype)(x)


@pointwise(method=False, function=False, inplace=False, name="_norm_share")
def share(g: Tensor, norm: Tensor):
    """The part of a gradient per unit of a norm; none at 0."""
    return s.where(norm == 0, 0, g / norm)


@vector_norm.vjp
def _(g, out, x, ord, dim, keepdim, dtype):
    layout = x._layout
    order = float(ord)
    dims = geometry.wrap_reduction_dims(dim, layout.ndim)
    along = dims if layout.ndim else None
    g, norm = kept(g, layout, along, keepdim), kept(out, layout, along, keepdim)
    if dtype is not None and dtype is not layout.dtype:
        x = x.to(dtype)
    if order == 0:
        return None
    if order == 1:
        return x.sgn() * g
    if order == 2:
        return x * share(g, norm)
    magnitude = x.abs()
    if math.isinf(order):
        mask = magnitude.detach() == norm.detach()
        every = dims if layout.ndim else ()
        return x.sgn() * (g / mask.sum(every, True) * mask)
    if order < 1:
        scaled = x.sgn() * magnitude.pow(order - 1).masked_fill(magnitude.detach() == 0, 0)
        return scaled * (g * norm.pow(1 - order))
    if order < 2:
        return x.sgn() * magnitude.pow(order - 1) * (g / norm.pow(order - 1)).masked_fill(norm.detach() == 0, 0)
    return x * magnitude.pow(order - 2) * (g / norm.pow(order - 1)).masked_fill(norm.detach() == 0, 0)


def _nuclear_norm(input: Tensor, dim: Any, keepdim: bool, dtype: DType | None) -> Tensor:
    """The sum of the singular values of the matrices in two dimensions."""
    if dim is not None and (isinstance(dim, int) or len(dim) != 2):
        raise RuntimeError("norm with order 'nuc' requires two dimensions in dim")
    if input.dim() < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    first, second = (-2, -1) if dim is None else dim
    x = input if dtype is None else input.to(dtype)
    total = OPERATORS["linalg_svdvals"].public(x.movedim((first, second), (-2, -1))).sum(-1)
    if keepdim:
        for d in sorted(d % input.dim() for d in (first, second)):
            total = total.unsqueeze(d)
    return total


@composite(out=Out(dtype=exact, step="linalg_vector_norm"), written_in_python=True)
def norm(input: Tensor, p="fro", dim=None, keepdim=False, dtype=None) -> Tensor:
    """The vector norm of order p ("fro": 2) over `dim`; "nuc": the sum of the singular values of a matrix."""
    if p in ("fro", "nuc") and isinstance(dim, (tuple, list)) and len(dim) > 2:
        return OPERATORS["linalg_matrix_norm"].public(input, p, dim, keepdim, dtype=dtype)  # which refuses them
    if p == "nuc":
        return _nuclear_norm(input, dim, keepdim, dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found: {p}")
    if isinstance(p, complex):
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    return vector_norm(input, 2.0 if p == "fro" or p is None else float(p), dim, keepdim, dtype=dtype)


@composite(node="DistBackward0")
def dist(input: Tensor, other: Tensor, p=2) -> Tensor:
    """The p-norm of input - other (broadcast)."""
    if not isinstance(input, Tensor):
        raise refused("dist", "input", "Tensor", input, 1)
    if not isinstance(other, Tensor):
        raise refused("dist", "other", "Tensor", other, 1)
    if not isinstance(p, (int, float)):
        raise refused("dist", "p", "Number", p, 2)
    difference = input - other
    dtype = difference._layout.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"norm(): input dtype should be either floating point or complex. Got {dtype.scalar_name} instead.")
    return vector_norm(difference, float(p))


@composite(inplace=True, out=Out(dtype=exact, overlap=ALIGNED), node="RenormBackward0")
def renorm(input: Tensor, p, dim: int, maxnorm) -> Tensor:
    """input with each slice along `dim` scaled down to the p-norm `maxnorm` where it is larger."""
    layout = input._layout
    if layout.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {layout.ndim} dimensions")
    for title, given in (("p", p), ("maxnorm", maxnorm)):
        if isinstance(given, complex):
            raise RuntimeError(f"renorm: {title} must be real-valued")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    d = geometry.wrap_dim(dim, layout.ndim)
    if not layout.numel:
        return clone(input, memory_format=contiguous_format)
    size = vector_norm(input, float(p), tuple(i for i in range(layout.ndim) if i != d), True)
    factor = (maxnorm / (size + 1e-7)).masked_fill(size.detach() <= maxnorm, 1.0)
    return (input * factor).contiguous()


# ---------------------------------------------------------------- logsumexp


def _logsumexp_stages(elements: tuple, numbers: tuple, result: DType, keepdim: Any) -> tuple:
    x = cast(elements[0], compute_dtype(result))
    largest = folded("largest", x.dtype)
    base = s.where(s.isinf(largest), 0, largest)
    return (
        Loop((shift("largest", x),)),
        Loop((adding("total", s.exp(x - base)),)),
        Row(((0, s.log(folded("total", x.dtype)) + base),)),
    )


_LOGSUMEXP = Rows("logsumexp", _logsumexp_stages, lambda dtypes, result, keepdim: [(result, form(keepdim))])


def _prepare_logsumexp(input: Tensor, dim: Any, keepdim: Any) -> Callable:
    layout = input._layout
    result = layout.dtype if layout.dtype.is_floating_point else get_default_dtype()
    dims = reduction_dims("logsumexp", dim, layout.ndim)
    launch = _LOGSUMEXP.launcher((input,), dims, (), (result, bool(keepdim)))
    return lambda input: launch(None, input)


_logsumexps = Reducer(_prepare_logsumexp)


@operator(out=True)
def logsumexp(input: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """log(sum(exp(input))) over `dim` (an integer or several), without overflow. Integers give the default dtype."""
    if input._layout.dtype.is_complex:
        base = input.real.amax(dim, True)
        base = base.masked_fill(base.isinf(), 0)
        total = (input - base).exp().sum(dim, keepdim).log()
        return total + base.reshape(total.shape)
    return _logsumexps.specialize(input, dim, keepdim)(input)


@pointwise(method=False, function=False, inplace=False)
def _exponential_share(g: Tensor, input: Tensor, total: Tensor):
    return g * s.conj(s.exp(input - total))


@logsumexp.vjp
def _(g, out, input, dim, keepdim):
    layout = input._layout
    dim = dim if layout.ndim else None
    return _exponential_share(kept(g, layout, dim, keepdim), input, kept(out, layout, dim, keepdim))


# ---------------------------------------------------------------- trace


@operator(autocast=single, jvp=LINEAR)
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix; integers sum to int64. Raises RuntimeError unless input has two dimensions."""
    layout = input._layout
    if layout.dtype is bool_:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    if layout.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {layout.ndim}")
    return input.diagonal().sum()


@trace.vjp
def _(g, layouts):
    rows, columns = layouts[0].shape
    eye = NAMESPACE["eye"](rows, columns, dtype=g.dtype, device=g._layout.device)
    return g * eye
