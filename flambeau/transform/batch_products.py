"""Batching rules of products and of linear algebra: the batch is one more leading dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import bool_
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg import addmm as with_addend
from flambeau.ops.linalg import cholesky, lu, matrix_functions, qr, spectral
from flambeau.ops.linalg import linear as linears
from flambeau.ops.linalg import matmul as matmuls
from flambeau.ops.linalg import solve as linalg_solve
from flambeau.ops.nn import attention as nn_attention
from flambeau.ops.reduction import vector_norm
from flambeau.ops.views import triangle
from flambeau.transform.batch_rows import bound, call
from flambeau.transform.batched import Batch, rule
from flambeau.transform.levels import invoke


def _matmul(a: Any, b: Any) -> Any:
    return matmuls.matmul(a, b)


@rule(matmuls.dot, matmuls.vdot)
def dot(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The product of two vectors of each example."""
    a, b = args[0], args[1] if len(args) > 1 else next(iter(kwargs.values()))
    if a._layout.ndim != 1 or b._layout.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a._layout.ndim}D and {b._layout.ndim}D tensors")
    if function is matmuls.vdot:
        a = a.conj()
    return batch.wrap(_matmul(_lifted(batch, a).unsqueeze(-2), _lifted(batch, b).unsqueeze(-1)).squeeze(-1).squeeze(-1))


def _lifted(batch: Batch, x: Any) -> Any:
    """All examples; a tensor that is the same for all as it is, since products broadcast."""
    return x.value if batch.has(x) else x


@rule(matmuls.mv)
def mv(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A matrix times a vector."""
    a, v = args
    if a._layout.ndim != 2 or v._layout.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a._layout.ndim}, {v._layout.ndim}")
    if not batch.has(a):  # one matrix for all: one product
        return batch.wrap(_matmul(v.value, a.mT))
    return batch.wrap(_matmul(a.value, _lifted(batch, v).unsqueeze(-1)).squeeze(-1))


@rule(matmuls.mm, matmuls.bmm)
def mm(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Products of matrices, of one or of a batch."""
    a, b = args[0], args[1] if len(args) > 1 else next(iter(kwargs.values()))
    rank = 2 if function is matmuls.mm else 3
    if a._layout.ndim != rank or b._layout.ndim != rank:
        raise RuntimeError("self must be a matrix" if rank == 2 else "batch1 must be a 3D tensor")
    return batch.wrap(_matmul(_lifted(batch, a), _lifted(batch, b)))


@rule(matmuls.matmul)
def matmul(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Products of any ranks; vectors are matrices of one row or column for the time of the call."""
    a, b = args[0], args[1] if len(args) > 1 else next(iter(kwargs.values()))
    m, n = a._layout.ndim, b._layout.ndim
    if not m or not n:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D")
    if m >= 2 and n == 2 and not batch.has(b):
        return batch.wrap(_matmul(a.value, b))
    if n == 1 and not batch.has(b) and m >= 2:
        return batch.wrap(_matmul(a.value, b))
    if m == 1 and n == 2 and not batch.has(b):
        return batch.wrap(_matmul(a.value, b))
    if m == 1 and n == 1:
        return dot(batch, matmuls.dot, (a, b), {})
    if m == 1:
        a = a.unsqueeze(0)
    if n == 1:
        b = b.unsqueeze(1)
    ndim = max(a._layout.ndim, b._layout.ndim)
    made = _matmul(batch.aligned(a, ndim), batch.aligned(b, ndim))
    return batch.wrap(made.squeeze(-2) if m == 1 else made.squeeze(-1) if n == 1 else made)


_BIAS_FIRST = (linears._linear_with_bias, linears._linear_batched)


@rule(linears.linear, linears._linear_with_bias, linears._linear_plain, linears._linear_batched)
def linear(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """input @ weight.T + bias: one product for all examples if they share the weight."""
    order = ("bias", "input", "weight") if function in _BIAS_FIRST else ("input", "weight", "bias")
    named = dict(zip(order, args)) | kwargs
    input, weight, bias = named["input"], named["weight"], named.get("bias")
    if not batch.has(weight) and not batch.has(bias) and weight._layout.ndim == 2:
        return batch.wrap(linears.linear(input.value, weight, bias))
    made = input.matmul(weight.mT if weight._layout.ndim == 2 else weight)
    return made if bias is None else made + bias


_PRODUCTS: dict[Any, Any] = {
    with_addend.addmm: matmuls.mm,
    with_addend.baddbmm: matmuls.bmm,
    with_addend.addmv: matmuls.mv,
    with_addend.addbmm: matmuls.bmm,
    with_addend.addr: matmuls.outer,
}


@rule(with_addend.addmm, with_addend.baddbmm, with_addend.addmv, with_addend.addbmm, with_addend.addr)
def added(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """beta * input + alpha * a product."""
    named = dict(kwargs)
    beta, alpha = named.pop("beta", 1), named.pop("alpha", 1)
    input, a, b = [*args, *named.values()]
    product = _PRODUCTS[function]
    made = invoke(product, (a, b))
    if function is with_addend.addbmm:
        made = made.sum(0)
    made = made if _is(alpha, 1) else made * alpha
    return made if _is(beta, 0) else made + (input if _is(beta, 1) else input * beta)


def _is(x: Any, number: int) -> bool:
    return not isinstance(x, Tensor) and x == number


@rule(
    triangle.tril,
    triangle.triu,
    cholesky.linalg_cholesky_ex,
    qr.linalg_qr,
    qr.geqrf,
    spectral._svd,
    spectral._singular_values,
    spectral.linalg_eigh,
    spectral._hermitian_values,
    spectral.linalg_eig,
    spectral._eigenvalues,
    lu.linalg_lu_factor_ex,
    lu._factors,
    lu.linalg_ldl_factor_ex,
    cholesky.cholesky_inverse,
    linalg_solve.linalg_inv_ex,
    matrix_functions.linalg_det,
    matrix_functions.linalg_slogdet,
    matrix_functions.linalg_matrix_exp,
    linalg_solve.linalg_inv,
    linalg_solve.inverse,
    cholesky.linalg_cholesky,
    cholesky.cholesky,
)
def matrices(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Operators on the last two dimensions."""
    named = bound(function, args, kwargs)
    name = next(iter(named))
    if named[name]._layout.ndim < 2:
        return batch.loop(function, args, kwargs)  # raises
    return batch.wrap(call(function, named | {name: named[name].value}))


@rule(linalg_solve.linalg_solve_triangular, cholesky.cholesky_solve, lu.linalg_ldl_solve, linalg_solve._solve)
def systems(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Systems of equations: matrices on both sides, whose leading dimensions broadcast."""
    named = bound(function, args, kwargs)
    tensors = {n: x for n, x in named.items() if isinstance(x, Tensor)}
    ndim = max(x._layout.ndim for x in tensors.values())
    if min(x._layout.ndim for n, x in tensors.items() if n != "pivots") < 2 or "pivots" in tensors:
        return batch.loop(function, args, kwargs)
    return batch.wrap(call(function, named | {n: _matrices(batch, x, ndim) for n, x in tensors.items()}))


def _matrices(batch: Batch, x: Any, ndim: int) -> Any:
    """All examples of an operand, each with `ndim` dimensions."""
    if batch.has(x):
        return batch.aligned(x, ndim)
    return x.expand(batch.size, *(1,) * (ndim - x._layout.ndim), *x._layout.shape)


@rule(linalg_solve.linalg_lu_solve)
def lu_systems(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Systems whose matrix is given by its factors; the swaps of rows have a dimension less."""
    named = bound(function, args, kwargs)
    ndim = max(named["LU"]._layout.ndim, named["pivots"]._layout.ndim + 1, named["B"]._layout.ndim)
    if min(named["LU"]._layout.ndim, named["B"]._layout.ndim) < 2:
        return batch.loop(function, args, kwargs)  # raises
    ranks = {"LU": ndim, "pivots": ndim - 1, "B": ndim}
    return batch.wrap(call(function, named | {n: _matrices(batch, named[n], rank) for n, rank in ranks.items()}))


@rule(matrix_functions._least_squares)
def least_squares(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Least squares; where there are no residuals, each example has an empty tensor of them."""
    named = bound(function, args, kwargs)
    ndim = max(named["A"]._layout.ndim, named["B"]._layout.ndim)
    found, residuals, rank = call(function, named | {n: _matrices(batch, named[n], ndim) for n in ("A", "B")})
    if not residuals._layout.numel:
        residuals = residuals.new_empty((batch.size, 0))
    return batch.wrap(found), batch.wrap(residuals), batch.wrap(rank)


@rule(linalg_solve.linalg_solve)
def solve(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Solutions of A x = B, where B is a vector, a matrix, or vectors in the shape of A without its last dimension."""
    named = bound(function, args, kwargs)
    a, b = named["A"], named["B"]
    vector = b._layout.ndim == 1 or (b._layout.ndim == a._layout.ndim - 1 and b._layout.shape == a._layout.shape[:-1])
    if not named["left"] or a._layout.ndim < 2:
        return batch.loop(function, args, kwargs)
    b = b.unsqueeze(-1) if vector else b
    ndim = max(a._layout.ndim, b._layout.ndim)
    made = batch.wrap(call(function, named | {n: _matrices(batch, x, ndim) for n, x in (("A", a), ("B", b))}))
    return made.squeeze(-1) if vector else made


@rule(vector_norm.trace)
def trace(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The sum of the diagonal."""
    if args[0]._layout.ndim != 2:
        raise RuntimeError("trace: expected a matrix")
    return args[0].diagonal().sum()


@rule(nn_attention.fused_attention)
def attention(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Attention, from its products."""
    named = bound(function, args, kwargs)
    query, key, value, mask = named["query"], named["key"], named["value"], named["attn_mask"]
    scores = query.matmul(key.mT) * named["scale"]
    if named["is_causal"]:
        length, other = scores._layout.shape[-2:]
        allowed = NAMESPACE["ones"](length, other, dtype=bool_).tril()
        scores = scores.masked_fill(allowed.logical_not(), float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf")) if mask._layout.dtype is bool_ else scores + mask
    return scores.softmax(-1).matmul(value), None
