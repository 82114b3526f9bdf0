"""Decompositions and solvers with all the results that PyTorch's operators have, and distances.

Stands on ops.linalg.matrix_functions and its siblings.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.errors import LinAlgError
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradient_of, gradients_of
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.linalg import lu, matrix_functions, solve, spectral
from flambeau.ops.linalg.qr import linalg_qr as qr


def _factored(A: Tensor) -> tuple[Any, Any]:
    factors, pivots = lu.linalg_lu_factor(A)[:2]
    return factors, pivots


@implementation()
def _linalg_det(A: Tensor) -> Any:
    return matrix_functions.linalg_det(A), *_factored(A)


@implementation()
def _linalg_slogdet(A: Tensor) -> Any:
    return *matrix_functions.linalg_slogdet(A), *_factored(A)


@implementation()
def _linalg_eigh(A: Tensor, UPLO: str = "L", compute_v: bool = True) -> Any:
    if compute_v:
        return spectral.linalg_eigh(A, UPLO)
    return spectral.linalg_eigvalsh(A, UPLO), A.new_empty((0,))


@implementation()
def _linalg_svd(A: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Any:
    if compute_uv:
        return spectral.linalg_svd(A, full_matrices)
    empty = A.new_empty((0,))
    return empty, spectral.linalg_svdvals(A), empty.clone()


@implementation()
def _linalg_solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    result, info = solve.linalg_solve_ex(A, B, left=left, check_errors=check_errors)
    return result, *_factored(A), info


@implementation()
def _linalg_check_errors(info: Tensor, api_name: str, *, is_matrix: bool) -> None:
    if info.any():
        raise LinAlgError(f"{api_name}: The algorithm failed on some of the matrices, whose info is {info.tolist()}")


@implementation()
def linalg_qr(A: Tensor, mode: str = "reduced") -> Any:
    """The QR decomposition."""
    return qr(A, mode)


@implementation()
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Any:
    """The solution of a system whose matrix is factored."""
    return solve.linalg_lu_solve(LU, pivots, B, left=left, adjoint=adjoint)


@implementation()
def linalg_lstsq(self: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The least squares solution, residuals, rank and singular values."""
    return matrix_functions.linalg_lstsq(self, b, rcond, driver=driver)


@implementation("linalg_pinv.atol_rtol_tensor")
def linalg_pinv(self: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False) -> Any:
    """The pseudoinverse with tolerances as tensors."""
    return matrix_functions.linalg_pinv(self, atol=atol, rtol=rtol, hermitian=hermitian)


@implementation()
def _cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Any:
    return NAMESPACE["cdist"](x1, x2, p)


@implementation()
def _cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Any:
    return gradient_of(lambda x: NAMESPACE["cdist"](x, x2, p), x1, grad) if grad.numel() else x1.new_zeros(x1.shape)


@implementation()
def _pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Any:
    return gradient_of(lambda x: NAMESPACE["pdist"](x, p), self, grad)


@implementation()
def _trilinear(
    i1: Tensor, i2: Tensor, i3: Tensor, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Any:
    """The sum over `sumdim` of the product of three tensors, each with dimensions of size one put in first."""

    def expanded(x: Any, dims: Any) -> Any:
        for dim in sorted(dims):
            x = x.unsqueeze(dim)
        return x

    product = expanded(i1, expand1) * expanded(i2, expand2) * expanded(i3, expand3)
    return product.sum(sumdim) if sumdim else product


@implementation()
def _segment_reduce_backward(
    grad: Tensor,
    output: Tensor,
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    initial: Any = None,
) -> Any:
    def reduced(x: Tensor) -> Any:
        return NAMESPACE["segment_reduce"](x, reduce, lengths=lengths, offsets=offsets, axis=axis, unsafe=True, initial=initial)

    return gradients_of(reduced, (data,), grad)[0]
