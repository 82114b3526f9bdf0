"""Norms of matrices: linalg.matrix_norm and norm, cond, the nuclear norm of torch.norm.

Stands on ops.reduction.vector_norm (vector norms) and on singular values. Used by flambeau.linalg.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import promote_types
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout
from flambeau.core.modes.autocast import single
from flambeau.core.operator.define import composite
from flambeau.core.operator.out_rules import COPIED, Out, castable, worded
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.arguments import floating, order_of_norm
from flambeau.ops.linalg.solve import linalg_inv_ex
from flambeau.ops.linalg.spectral import linalg_svdvals
from flambeau.ops.reduction.vector_norm import vector_norm


def _converted(name: str, x: Tensor, dtype: DType | None) -> Tensor:
    if dtype is None or dtype is x._layout.dtype:
        return x
    own = x._layout.dtype
    if own.is_complex and not dtype.is_complex:
        raise (
            RuntimeError(
                f"{name}: the dtype of the input ({own.scalar_name}) should be convertible without "
                "narrowing to the specified "
                f"dtype ({dtype.scalar_name})"
            )
            if name != "linalg.vector_norm"
            else RuntimeError(f"linalg.vector_norm: dtype should be complex for complex inputs, but got {dtype.scalar_name}")
        )
    if dtype.is_complex and not own.is_complex:
        raise RuntimeError(f"{name}: dtype should be floating-point for real inputs, but got {dtype.scalar_name}")
    if promote_types(own, dtype) is not dtype:
        raise RuntimeError(
            f"{name}: the dtype of the input ({own.scalar_name}) should be convertible without "
            "narrowing to the specified "
            f"dtype ({dtype.scalar_name})"
        )
    return x.to(dtype)


# ---------------------------------------------------------------- matrices


def _two_dims(dim: Any, layout: Layout) -> tuple[int, int]:
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(str(d) for d in dim)}")
    first, second = wrap_dim(dim[0], layout.ndim), wrap_dim(dim[1], layout.ndim)
    if first == second:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return first, second


def _largest(values: Tensor, dim: int, keepdim: Any = False) -> Tensor:
    """The largest along a dimension; 0 where there are none, as the norm of an empty matrix is."""
    return values.amax(dim, keepdim) if values._layout.shape[dim] else values.sum(dim, keepdim)


@composite(
    method=False,
    function=False,
    name="linalg_matrix_norm",
    out=Out(dtype=worded("linalg.matrix_norm expected out tensor dtype {have} but got: {got}"), graph=COPIED),
)
def matrix_norm(input: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: Any = False, *, dtype: Any = None) -> Tensor:
    """A norm of matrices in dimensions `dim`: "fro", "nuc", 1, -1, inf, -inf (column, row sums), 2, -2 (singular values)."""
    layout = input._layout
    floating("linalg.matrix_norm", input, low=True)
    if layout.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    first, second = _two_dims(dim, layout)
    input = _converted("linalg.matrix_norm", input, dtype)
    if ord == "fro":
        return vector_norm(input, 2, (first, second), keepdim)
    order_of_norm("linalg.matrix_norm", ord)
    if ord != "nuc" and (isinstance(ord, str) or abs(ord) not in (1, 2, math.inf)):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if ord == "nuc" or abs(ord) == 2:
        values = linalg_svdvals(input.permute([d for d in range(layout.ndim) if d not in (first, second)] + [first, second]))
        made = values.sum(-1) if ord == "nuc" else _largest(values, -1) if ord > 0 else values.amin(-1)
        if keepdim:
            for d in sorted((first, second)):
                made = made.unsqueeze(d)
        return made
    rows, columns = (first, second) if abs(ord) == 1 else (second, first)
    sums = vector_norm(input, 1, rows, keepdim)
    if not keepdim and columns > rows:
        columns -= 1
    return _largest(sums, columns, keepdim) if ord > 0 else sums.amin(columns, keepdim)


@composite(
    method=False,
    function=False,
    name="linalg_norm",
    out=Out(dtype=worded("linalg.norm expected out tensor dtype {have} but got: {got}"), graph=COPIED),
)
def linalg_norm(input: Tensor, ord: Any = None, dim: Any = None, keepdim: Any = False, *, dtype: Any = None) -> Tensor:
    """A vector norm, or a matrix norm where `dim` has two entries, or where `ord` is given for a matrix without `dim`."""
    ndim = input._layout.ndim
    if isinstance(dim, int):
        dim = (dim,)
    if dim is not None and len(dim) not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got [{', '.join(str(d) for d in dim)}]"
        )
    if dim is None and ord is not None and ndim not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {ndim}D.")
    if ord is not None and ((dim is not None and len(dim) == 2) or (dim is None and ndim == 2)):
        return matrix_norm(input, ord, dim if dim is not None else (0, 1), keepdim, dtype=dtype)
    if isinstance(ord, str):
        if dim is None or len(dim) == 1:
            return matrix_norm(input, ord, dim or (0,), keepdim, dtype=dtype)
    return vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@composite(method=False, out=True)
def nuclear_norm(input: Tensor, dim: Any = None, keepdim: Any = False) -> Tensor:
    """The sum of the singular values of matrices."""
    if dim is None:
        dim = tuple(range(input._layout.ndim))
    return matrix_norm(input, "nuc", (dim,) if isinstance(dim, int) else dim, keepdim)


@composite(
    method=False,
    function=False,
    name="linalg_cond",
    autocast=single,
    out=Out(dtype=castable("linalg.cond"), graph=COPIED, refuses_first=True),
)
def linalg_cond(input: Tensor, p: Any = None) -> Tensor:
    """The condition number norm(A) * norm(inverse of A) in the given matrix norm; by singular values for None, 2 and -2."""
    layout = input._layout
    if layout.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if not (p in (None, "fro", "nuc") or (not isinstance(p, str) and abs(p) in (1, 2, math.inf))):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if p in (None, 2, -2):
        values = linalg_svdvals(input)
        if not values._layout.shape[-1]:
            return values.sum(-1)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    if layout.numel == 0 and not isinstance(p, str):
        return vector_norm(input, 2, (-2, -1)) * 0
    if layout.shape[-1] != layout.shape[-2]:
        raise RuntimeError(
            f"linalg.cond(ord={p}): A must be batches of square matrices, but they are {layout.shape[-2]} by "
            f"{layout.shape[-1]} "
            "matrices"
        )
    if layout.numel == 0:
        return vector_norm(input, 2, (-2, -1)) * 0
    if p == "nuc":
        values = linalg_svdvals(input)
        return values.sum(-1) * (1 / values).sum(-1)
    inverse, info = linalg_inv_ex(input)
    made = matrix_norm(input, p) * matrix_norm(inverse, p)
    return NAMESPACE["where"](info != 0, math.inf, made)
