"""Norms of vectors and matrices: torch.norm, linalg.vector_norm, matrix_norm and norm, dist, renorm, cond.

Vector norms are one row program each (core.rows), powers and roots included; matrix norms stand on them and on singular values.
"""

from __future__ import annotations

import builtins
import math
from typing import Any, Callable

from flambeau.base import geometry
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float64, promote_types
from flambeau.base.layout import Layout
from flambeau.core.declare import composite, operator
from flambeau.core.derive import NAMESPACE
from flambeau.core.rows import Rows
from flambeau.core.tensor import Tensor, wrap_dim
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Row, folded
from flambeau.ir.scalar import cast, compute_dtype
from flambeau.ops.reduce import Reducer, adding, extreme, form, kept, reduction_dims, wide

# ---------------------------------------------------------------- vectors


def _real(dtype: DType) -> DType:
    return dtype.to_real() if dtype.is_complex else dtype


def _norm_stages(elements: tuple, numbers: tuple, order: float | None, dtype: DType, keepdim: Any) -> tuple:
    """order: 0, 1, 2, inf, -inf, or None for the power that is the run-time number."""
    size = s.abs(elements[0])
    total = wide(_real(dtype))
    if order in (math.inf, -math.inf):
        result = folded("extreme", size.dtype)
        return Loop((extreme("extreme", size, order > 0),)), Row(((0, cast(result, compute_dtype(_real(dtype)))),))
    wider = cast(size, total)
    if order == 0:
        term = s.where(wider == 0, s.constant(0, total), s.constant(1, total))
    elif order is None:
        term = s.pow(wider, cast(numbers[0], total))
    else:
        term = wider if order == 1 else wider * wider
    result = folded("sum", total)
    if order == 2:
        result = s.sqrt(result)
    elif order is None:
        result = s.pow(result, 1 / cast(numbers[0], total))
    return Loop((adding("sum", term),)), Row(((0, cast(result, compute_dtype(_real(dtype)))),))


_NORM = Rows("vector_norm", _norm_stages, lambda dtypes, order, dtype, keepdim: [(_real(dtype), form(keepdim))],
             number_dtype=lambda dtypes: float64)
_FIXED = {0.0: 0, 1.0: 1, 2.0: 2, math.inf: math.inf, -math.inf: -math.inf}


def _prepare(input: Tensor, dim: Any, keepdim: Any, order: float) -> Callable:
    layout = input._layout
    if not (layout.dtype.is_floating_point or layout.dtype.is_complex):
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {layout.dtype.scalar_name}")
    dims = reduction_dims("linalg_vector_norm", dim, layout.ndim)
    if order < 0 or order == math.inf:
        if layout.numel == 0 and (dim is None or dim == () or dim == []):
            raise RuntimeError(f"linalg.vector_norm cannot compute the {order:g} norm on an empty tensor because the operation does "
                               "not have an identity")
        for d in dims:
            if layout.shape[d] == 0:
                raise RuntimeError(f"linalg.vector_norm cannot compute the {order:g} norm on the dimension {d} because this dimension "
                                   "is empty and the operation does not have an identity")
    fixed = _FIXED.get(order)
    numbers = () if fixed is not None else (order,)
    launch = _NORM.launcher((input,), dims, numbers, (fixed, layout.dtype, builtins.bool(keepdim)))
    return (lambda input: launch(None, input)) if fixed is not None else (lambda input: launch(None, input, order))


_norms = Reducer(_prepare)


@operator(method=False, function=False, name="_vector_norm", node="LinalgVectorNormBackward0")
def _vector_norm(input: Tensor, ord: Any, dim: Any, keepdim: Any) -> Tensor:
    return _norms.learn(input, dim, keepdim, ord)(input)


@_vector_norm.vjp
def _(g, out, input, ord, dim, keepdim):
    layout = input._layout
    where = NAMESPACE["where"]
    g, out = kept(g, layout, dim, keepdim), kept(out, layout, dim, keepdim)
    if ord == 0:
        return input * 0
    if ord == 1:
        return input.sgn() * g
    if ord in (math.inf, -math.inf):
        reached = (input.abs() == out).detach()
        dims = reduction_dims("linalg_vector_norm", dim, layout.ndim)
        count = reached.sum(dims, keepdim=True) if layout.ndim else reached.sum()
        return input.sgn() * (g / count) * reached
    safe = where(out.detach() == 0, 1, out)
    if ord == 2:
        return input * (g / safe)
    size = input.abs()
    zero = (size == 0).detach()
    if ord > 2:
        return input * size.pow(ord - 2) * (g / safe.pow(ord - 1))
    return where(zero, 0, input.sgn() * where(zero, 1, size).pow(ord - 1)) * (g / safe.pow(ord - 1))


def _converted(name: str, x: Tensor, dtype: DType | None) -> Tensor:
    if dtype is None or dtype is x._layout.dtype:
        return x
    own = x._layout.dtype
    if own.is_complex and not dtype.is_complex:
        raise RuntimeError(f"{name}: the dtype of the input ({own.scalar_name}) should be convertible without narrowing to the specified "
                           f"dtype ({dtype.scalar_name})") if name != "linalg.vector_norm" else RuntimeError(
            f"linalg.vector_norm: dtype should be complex for complex inputs, but got {dtype.scalar_name}")
    if dtype.is_complex and not own.is_complex:
        raise RuntimeError(f"{name}: dtype should be floating-point for real inputs, but got {dtype.scalar_name}")
    if promote_types(own, dtype) is not dtype:
        raise RuntimeError(f"{name}: the dtype of the input ({own.scalar_name}) should be convertible without narrowing to the specified "
                           f"dtype ({dtype.scalar_name})")
    return x.to(dtype)


@composite(method=False, function=False, out=True, name="linalg_vector_norm")
def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: Any = False, *, dtype: Any = None) -> Tensor:
    """(sum |x|^ord)^(1 / ord) along `dim` (an integer, several, None for all); inf, -inf and 0 are the usual limits.

    Real results also for complex numbers. Raises RuntimeError for integers and for the infinite norms of nothing.
    """
    x = _converted("linalg.vector_norm", x, dtype)
    if dim.__class__ is list:
        dim = tuple(dim)
    return _vector_norm(x, float(ord), dim, keepdim)


# ---------------------------------------------------------------- matrices


def _singular_values(x: Tensor) -> Tensor:
    from flambeau.ops.linalg_decompositions import linalg_svdvals
    return linalg_svdvals(x)


def _two_dims(name: str, dim: Any, layout: Layout) -> tuple[int, int]:
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(str(d) for d in dim)}")
    first, second = wrap_dim(dim[0], layout.ndim), wrap_dim(dim[1], layout.ndim)
    if first == second:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return first, second


@composite(method=False, function=False, out=True, name="linalg_matrix_norm")
def matrix_norm(A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: Any = False, *, dtype: Any = None) -> Tensor:
    """A norm of matrices in the dimensions `dim`: "fro", "nuc", 1, -1, inf, -inf (column and row sums), 2, -2 (singular values)."""
    layout = A._layout
    if not (layout.dtype.is_floating_point or layout.dtype.is_complex):
        raise RuntimeError(f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {layout.dtype.scalar_name}")
    if layout.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    first, second = _two_dims("linalg.matrix_norm", dim, layout)
    if ord == "fro":
        return vector_norm(A, 2, (first, second), keepdim, dtype=dtype)
    if ord != "nuc" and (isinstance(ord, str) or abs(ord) not in (1, 2, math.inf)):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    A = _converted("linalg.matrix_norm", A, dtype)
    if ord == "nuc" or abs(ord) == 2:
        values = _singular_values(A.permute([d for d in range(layout.ndim) if d not in (first, second)] + [first, second]))
        made = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord > 0 else values.amin(-1)
        if keepdim:
            for d in sorted((first, second)):
                made = made.unsqueeze(d)
        return made
    rows, columns = (first, second) if abs(ord) == 1 else (second, first)
    sums = vector_norm(A, 1, rows, keepdim)
    if not keepdim and columns > rows:
        columns -= 1
    return sums.amax(columns, keepdim) if ord > 0 else sums.amin(columns, keepdim)


@composite(method=False, function=False, out=True, name="linalg_norm")
def linalg_norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: Any = False, *, dtype: Any = None) -> Tensor:
    """A vector norm, or a matrix norm where `dim` has two entries, or where `ord` is given for a matrix without `dim`."""
    ndim = A._layout.ndim
    if isinstance(dim, int):
        dim = (dim,)
    if dim is not None and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got [{', '.join(str(d) for d in dim)}]")
    if dim is None and ord is not None and ndim not in (1, 2):
        raise RuntimeError("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                           f"{ndim}D.")
    if ord is not None and (dim is not None and len(dim) == 2 or dim is None and ndim == 2):
        return matrix_norm(A, ord, dim if dim is not None else (0, 1), keepdim, dtype=dtype)
    if isinstance(ord, str):
        if dim is None or len(dim) == 1:
            raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(str(d) for d in dim or (0,))}")
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@composite(out=True)
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Tensor:
    """The p-norm along `dim` (None: of all elements); "fro" is the 2-norm, "nuc" the sum of the singular values of matrices."""
    if isinstance(dim, int):
        dim = (dim,)
    if p == "nuc":
        if dim is None:
            dim = tuple(range(input._layout.ndim)) if input._layout.ndim == 2 else ()
        if len(dim) != 2:
            raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(str(d) for d in dim)}")
        return matrix_norm(input, "nuc", dim, keepdim, dtype=dtype)
    if p is None or p == "fro":
        p = 2
    elif isinstance(p, str):
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
    return vector_norm(input, p, dim, keepdim, dtype=dtype)


@composite()
def dist(input: Tensor, other: Tensor, p: Any = 2) -> Tensor:
    """The p-norm of input - other."""
    return vector_norm(input - other, p)


@composite(inplace=True, out=True)
def renorm(input: Tensor, p: Any, dim: int, maxnorm: Any) -> Tensor:
    """Slices along `dim` whose p-norm is above `maxnorm`, scaled down to it."""
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if input._layout.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input._layout.ndim} dimensions")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    d = geometry.wrap_dim(dim, input._layout.ndim)
    sizes = vector_norm(input, p, tuple(e for e in range(input._layout.ndim) if e != d), True)
    return input * NAMESPACE["where"](sizes > maxnorm, maxnorm / (sizes + 1e-7), 1)


@composite(method=False, function=False, out=True, name="linalg_cond")
def linalg_cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number norm(A) * norm(inverse of A) in the given matrix norm; by singular values for None, 2 and -2."""
    layout = A._layout
    if layout.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor A must have at least 2 dimensions.")
    if p in (None, 2, -2):
        values = _singular_values(A)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    if layout.shape[-1] != layout.shape[-2]:
        raise RuntimeError(f"linalg.cond: A must be batches of square matrices, but they are {layout.shape[-2]} by {layout.shape[-1]} "
                           "matrices")
    if p == "nuc" and layout.numel:
        values = _singular_values(A)
        return values.sum(-1) * (1 / values).sum(-1)
    if layout.numel == 0:
        return vector_norm(A, 2, (-2, -1)) * 0
    from flambeau.ops.linalg import linalg_inv_ex
    inverse, info = linalg_inv_ex(A)
    made = matrix_norm(A, p) * matrix_norm(inverse, p)
    return NAMESPACE["where"](info != 0, math.inf, made)

