"""Low-rank approximations by random projections: svd_lowrank, pca_lowrank (Halko, Martinsson, Tropp 2009).

Written in operators; the projection is drawn from the default generator.
"""

from __future__ import annotations

from flambeau.core.operator.define import composite
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.matmul import adjoint, matmul
from flambeau.ops.linalg.qr import linalg_qr
from flambeau.ops.linalg.spectral import linalg_svd


def _basis(A: Tensor, q: int, niter: int, M: Tensor | None) -> Tensor:
    """An orthonormal basis (*, m, q) of about the range of A - M, sharpened by power iterations."""

    def times(x: Tensor) -> Tensor:
        return matmul(A, x) if M is None else matmul(A, x) - matmul(M, x)

    def adjoint_times(x: Tensor) -> Tensor:
        return matmul(adjoint(A), x) if M is None else matmul(adjoint(A), x) - matmul(adjoint(M), x)

    start = NAMESPACE["randn"](A._layout.shape[-1], q, dtype=A._layout.dtype, device=A._layout.device)
    Q = linalg_qr(times(start))[0]
    for _ in range(niter):
        Q = linalg_qr(adjoint_times(Q))[0]
        Q = linalg_qr(times(Q))[0]
    return Q


@composite(method=False, written_in_python=True)
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None):
    """(U, S, V) of about rank q with A - M = U diag(S) V^H; q a little above the rank, `niter` power iterations."""
    q = 6 if q is None else q
    m, n = A._layout.shape[-2:]
    mean = None if M is None else M.broadcast_to(A._layout.shape) if M._layout.shape != A._layout.shape else M
    if m < n:
        A, mean = adjoint(A), None if mean is None else adjoint(mean)
    Q = _basis(A, q, 2 if niter is None else niter, mean)
    B = matmul(adjoint(Q), A)
    if mean is not None:
        B = B - matmul(adjoint(Q), mean)
    U, S, Vh = linalg_svd(B, False)
    U, V = matmul(Q, U), adjoint(Vh)
    return (V, S, U) if m < n else (U, S, V)


@composite(method=False, written_in_python=True)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2):
    """(U, S, V): the principal directions of the rows of A are the columns of V; the columns' means are taken off if `center`."""
    m, n = A._layout.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
