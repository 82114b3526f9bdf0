"""LU and LDL factorizations of (batches of) matrices, with the gradients of LU.

Values come from ops.linalg.factorization_plans.lu, of LDL from ops.linalg.numpy_lapack. Used by torch.linalg.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.base import geometry
from flambeau.base.dtype import float32, int32
from flambeau.base.warn import warn_once
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.core.operator import return_types
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import record_of
from flambeau.core.operator.out_argument import deliver
from flambeau.core.operator.out_rules import OUT_ONLY, Out, exact
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.create import array_of, copy_array, copy_columns
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg import factorization_plans, numpy_lapack
from flambeau.ops.linalg.arguments import COMPUTED, computed, factorizable, matrices, square
from flambeau.ops.linalg.batched_plans import failed, in_columns, infos, plain, refused
from flambeau.ops.linalg.matmul import adjoint, matmul
from flambeau.ops.linalg.solve import linalg_solve_triangular

# ---------------------------------------------------------------- LU


@operator(method=False, function=False, out=Out(dtype=exact), node="LinalgLuFactorExBackward0", differentiable=1)
def linalg_lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False):
    """(LU, pivots, info): both factors in one matrix, row swaps counted from one, the first zero pivot or 0.

    RuntimeError without `pivot` on the CPU, as in PyTorch.
    """
    matrices("torch.lu_factor", A)
    computed("lu_cpu", A)
    if not pivot and A._layout.device.shown.type == "cpu":
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    made, pivots, info = factorization_plans.lu.factor(A, bool(pivot))
    if check_errors and failed(info):
        raise refused("torch.linalg.lu_factor_ex", info, _SINGULAR, RuntimeError)
    return return_types.linalg_lu_factor_ex((made, pivots, info))


_SINGULAR = (
    "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)


@linalg_lu_factor_ex.vjp
def _(g, out, out1, pivot):
    k = min(out._layout.shape[-2:])
    L, U = _factors(out)
    P = factorization_plans.lu.permutation_matrix(out1, out) if pivot else None
    return _lu_gradient(g[..., :k].tril(-1), g[..., :k, :].triu(), P, L, U)


def _lu_gradient(gL: Tensor, gU: Tensor, P: Tensor | None, L: Tensor, U: Tensor) -> Tensor:
    """The gradient of A = P L U, wide, tall or square; what lies outside the leading square is eliminated first."""
    m, n = L._layout.shape[-2], U._layout.shape[-1]
    k = min(m, n)
    L1, U1 = L[..., :k, :], U[..., :k]
    gL1, gU1 = gL[..., :k, :], gU[..., :k]
    rest = None
    if m < n:
        rest = linalg_solve_triangular(adjoint(L1), gU[..., k:], upper=True, unitriangular=True)
        gL1 = gL1 - matmul(rest, adjoint(U[..., k:]))
    elif m > n:
        rest = linalg_solve_triangular(adjoint(U1), gL[..., k:, :], upper=False, left=False)
        gU1 = gU1 - matmul(adjoint(L[..., k:, :]), rest)
    middle = matmul(adjoint(L1), gL1).tril(-1) + matmul(gU1, adjoint(U1)).triu()
    made = linalg_solve_triangular(adjoint(U1), middle, upper=False, left=False)
    made = linalg_solve_triangular(adjoint(L1), made, upper=True, unitriangular=True)
    if rest is not None:
        made = NAMESPACE["cat"]([made, rest], -1 if m < n else -2)
    return made if P is None else matmul(P, made)


@composite(method=False, function=False, out=Out(dtype=exact, step="linalg_lu_factor_ex"))
def linalg_lu_factor(A: Tensor, *, pivot: bool = True):
    """(LU, pivots); RuntimeError where a pivot is zero."""
    made, pivots, info = linalg_lu_factor_ex(A, pivot=pivot)
    if failed(info):
        raise refused("torch.linalg.lu_factor", info, _SINGULAR, RuntimeError)
    return return_types.linalg_lu_factor((made, pivots))


@operator(method=False, function=False, node="LuUnpackBackward0")
def _factors(LU: Tensor):
    """(L, U) of the two factors in one matrix."""
    return factorization_plans.lu.factors(LU)


@_factors.vjp
def _(gs, layouts):
    gL, gU = gs
    m, n = layouts[0].shape[-2:]
    k = min(m, n)
    made: Any = None
    if gL is not None:
        made = gL.tril(-1)
        if n > k:
            made = NAMESPACE["cat"]([made, made.new_zeros([*made._layout.shape[:-1], n - k])], -1)
    if gU is not None:
        other = gU.triu()
        if m > k:
            other = NAMESPACE["cat"]([other, other.new_zeros([*other._layout.shape[:-2], m - k, n])], -2)
        made = other if made is None else made + other
    return made


@composite(method=False, function=False, out=Out(dtype=exact), node="LinalgLuBackward0")
def linalg_lu(A: Tensor, *, pivot: bool = True):
    """(P, L, U) with A = P L U: a permutation (empty without `pivot`), unit lower and upper triangular factors."""
    matrices("linalg.lu", A)
    computed("lu_cpu", A)
    made, pivots, _ = linalg_lu_factor_ex(A, pivot=pivot)
    P = factorization_plans.lu.permutation_matrix(pivots, made) if pivot else made.new_empty([0])
    return return_types.linalg_lu((P, *_factors(made)))


def _factors_of_any(LU: Tensor) -> tuple[Tensor, Tensor]:
    """(L, U) also of dtypes that nothing is factorized in."""
    if LU._layout.dtype.name in COMPUTED:
        return _factors(LU)
    m, n = LU._layout.shape[-2:]
    k = min(m, n)
    return LU[..., :k].tril(-1) + NAMESPACE["eye"](m, k, dtype=LU._layout.dtype, device=LU._layout.device), LU[..., :k, :].triu()


def _permutation(pivots: Tensor, LU: Tensor) -> Tensor:
    """The permutation matrices of row exchanges, a batch of them that broadcasts to LU's. RuntimeError for impossible ones."""
    *batch, m, n = LU._layout.shape
    if not pivots._layout.ndim or pivots._layout.shape[-1] < min(m, n):
        raise RuntimeError(_NO_PIVOTS)
    pivots = pivots.narrow(-1, 0, min(m, n))
    if pivots._layout.shape[:-1] != tuple(batch):
        pivots = pivots.expand(*batch, min(m, n))
    try:
        return _permutation_matrix(pivots, LU)
    except KernelCheck:
        raise RuntimeError(_NO_PIVOTS) from None


_NO_PIVOTS = (
    "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result of lu_factor?"
)


def _permutation_matrix(pivots: Tensor, LU: Tensor) -> Tensor:
    if LU._layout.dtype.name in COMPUTED:
        return factorization_plans.lu.permutation_matrix(pivots, LU)
    return factorization_plans.lu.permutation_matrix(pivots, LU.new_empty(LU._layout.shape, dtype=float32)).to(LU.dtype)


@composite(method=False, out=Out(dtype=exact))
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True):
    """(P, L, U) from the results of lu_factor; empty tensors for what is not asked."""
    if LU_data._layout.ndim < 2:
        raise RuntimeError(
            f"torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {list(LU_data._layout.shape)} instead"
        )
    if unpack_pivots and LU_pivots._layout.dtype.name != "int32":
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
            "dtype.\nNote: this function "
            "is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    P = _permutation(LU_pivots, LU_data) if unpack_pivots else LU_data.new_empty([0])
    L, U = _factors_of_any(LU_data) if unpack_data else (LU_data.new_empty([0]), LU_data.new_empty([0]))
    return return_types.lu_unpack((P, L, U))


def lu(input: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """(LU, pivots), or (LU, pivots, info) with `get_infos`."""
    warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be "
        "removed in a future "
        "PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\nLU, pivots = torch.linalg.lu_"
        "factor(A, compute_pivots)\nand\nLU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould "
        "be replaced "
        "with\nLU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
    )
    results = linalg_lu_factor_ex(input, pivot=pivot) if get_infos else tuple(linalg_lu_factor(input, pivot=pivot))
    return results if out is None else deliver(out, results, record_of("lu"))


NAMESPACE["lu"] = lu
Tensor.lu = lu


# ---------------------------------------------------------------- LDL


def _ldl_layouts(input: Tensor, **settings: Any) -> Any:
    """Of LD, the pivots and the infos."""
    square("torch.linalg.ldl_factor_ex", input)
    factorizable("torch.linalg.ldl_factor_ex", "ldl_factor_kernel_cpu", input)
    a = input._layout
    return return_types.linalg_ldl_factor_ex((in_columns(a.shape, a), plain(a.shape[:-1], a, int32), infos(a)))


@operator(method=False, function=False, out=Out(dtype=exact, graph=OUT_ONLY), abstract=_ldl_layouts)
def linalg_ldl_factor_ex(input: Tensor, *, hermitian: bool = False, check_errors: bool = False):
    """(LD, pivots, info) of symmetric (or Hermitian) matrices, in LAPACK's compact form; the lower triangle is read."""
    made, pivots, info = numpy_lapack.ldl(array_of(input), hermitian)
    infos = copy_array(np.asarray(info))
    if check_errors and failed(infos):
        raise refused("torch.linalg.ldl_factor_ex", infos, "The factorization could not be completed because D[{0},{0}] is zero.")
    return return_types.linalg_ldl_factor_ex((copy_columns(np.tril(made)), copy_array(pivots), infos))


@composite(method=False, function=False, out=Out(dtype=exact, graph=OUT_ONLY))
def linalg_ldl_factor(input: Tensor, *, hermitian: bool = False):
    """(LD, pivots); see linalg.ldl_factor_ex."""
    made, pivots, _ = linalg_ldl_factor_ex(input, hermitian=hermitian)
    return return_types.linalg_ldl_factor((made, pivots))


def _ldl_solution(LD: Tensor, pivots: Tensor, B: Tensor, **settings: Any) -> Any:
    batch = geometry.broadcast(LD._layout.shape[:-2], B._layout.shape[:-2])
    return in_columns((*batch, *B._layout.shape[-2:]), B._layout)


@operator(method=False, function=False, out=Out(dtype=exact, graph=OUT_ONLY), abstract=_ldl_solution)
def linalg_ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False):
    """X with A X = B from the results of ldl_factor; batches broadcast."""
    factor, swaps, b = array_of(LD), array_of(pivots), array_of(B)
    for good, words in ((swaps != 0, "|pivot| >= 1"), (np.abs(swaps) <= factor.shape[-2], "|pivot| <= LD.size(-2)")):
        if not good.all():
            raise RuntimeError(
                f"Pivots given to ldl_solve must all satisfy {words}. Did you properly pass the result of ldl_factor?"
            )
    batch = np.broadcast_shapes(factor.shape[:-2], b.shape[:-2])
    factors, rows = np.broadcast_to(factor, batch + factor.shape[-2:]), np.broadcast_to(swaps, batch + swaps.shape[-1:])
    made = numpy_lapack.ldl_solve(factors, rows, np.broadcast_to(b, batch + b.shape[-2:]), hermitian)
    return copy_columns(made)
