"""torch._linalg_utils: small helpers of algorithms on matrices (lobpcg, svd_lowrank), which libraries import, and the functions
that PyTorch took out of the namespace, which say where to find what replaces them.
"""

from __future__ import annotations

import flambeau as torch
from flambeau.ops.tensor_methods.predicates import REMOVED as _REMOVED

eig, lstsq, matrix_rank, solve = (_REMOVED[name] for name in ("eig", "lstsq", "matrix_rank", "solve"))
_symeig = _REMOVED["symeig"]


def is_sparse(A: torch.Tensor) -> bool:
    """Whether A is a COO tensor. TypeError for what is no tensor."""
    if not isinstance(A, torch.Tensor):
        raise TypeError(f"expected Tensor but got {type(A)}")
    return A.layout is torch.sparse_coo


def get_floating_dtype(A: torch.Tensor) -> torch.dtype:
    """The dtype of A if that is float16, float32 or float64, else float32."""
    return A.dtype if A.dtype in (torch.float16, torch.float32, torch.float64) else torch.float32


def matmul(A: torch.Tensor | None, B: torch.Tensor) -> torch.Tensor:
    """A @ B, where A is dense, COO, or None for the identity."""
    if A is None:
        return B
    return torch.sparse.mm(A, B) if is_sparse(A) else torch.matmul(A, B)


def bform(X: torch.Tensor, A: torch.Tensor | None, Y: torch.Tensor) -> torch.Tensor:
    """The bilinear form X^T A Y."""
    return matmul(X.mT, matmul(A, Y))


def qform(A: torch.Tensor | None, S: torch.Tensor) -> torch.Tensor:
    """The quadratic form S^T A S."""
    return bform(S, A, S)


def basis(A: torch.Tensor) -> torch.Tensor:
    """An orthonormal basis of the columns of A."""
    return torch.linalg.qr(A).Q


def symeig(A: torch.Tensor, largest: bool | None = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues and eigenvectors of a symmetric matrix, ascending, or descending for `largest`."""
    values, vectors = torch.linalg.eigh(A, UPLO="U")
    return (values.flip(-1), vectors.flip(-1)) if largest else (values, vectors)
