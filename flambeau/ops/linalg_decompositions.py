"""Decompositions of (batches of) matrices with their gradients: Cholesky, QR, SVD, eigenvalues; triangular systems.

Values come from numpy.linalg and ops.lapack; the rules are written in differentiable operators, so every order works. They follow
Giles (2008), "An extended collection of matrix derivative results", and Walter and Lehmann for QR. Used by
ops.linalg, torch.linalg.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.base.dtype import bool_
from flambeau.base.errors import LinAlgError
from flambeau.base.notices import warn_once
from flambeau.core import returns
from flambeau.core.create import array_of, copy_array, copy_columns
from flambeau.core.declare import composite, operator
from flambeau.core.derive import NAMESPACE
from flambeau.core.tensor import Tensor
from flambeau.ops import lapack
from flambeau.ops.matmul import adjoint, matmul

# ---------------------------------------------------------------- arguments


def values_of(x: Tensor) -> Any:
    """The elements as a NumPy array; meta tensors have none."""
    if x._layout.device.type == "meta":
        raise NotImplementedError("linear algebra on meta tensors is not supported: use tensors on the CPU")
    return array_of(x)


def floating(name: str, x: Tensor, low: bool = False) -> None:
    """RuntimeError unless x is float32, float64 or complex (`low`: half precision will do)."""
    dtype = x._layout.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {dtype.scalar_name}")
    if not low and dtype.name in ("float16", "bfloat16"):
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {dtype.scalar_name}")


def matrices(name: str, x: Tensor, letter: str = "A") -> None:
    if x._layout.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {letter} must have at least 2 dimensions.")


def square(name: str, x: Tensor, letter: str = "A") -> None:
    """RuntimeError unless x is a batch of square matrices."""
    matrices(name, x, letter)
    rows, columns = x._layout.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"{name}: {letter} must be batches of square matrices, but they are {rows} by {columns} matrices")


def refused(name: str, info: np.ndarray, words: str, kind: type[RuntimeError] = LinAlgError) -> RuntimeError:
    """The error for the first batch element whose info is not zero; `words` has its place for the info."""
    flat = info.reshape(-1)
    at = int(np.flatnonzero(flat)[0])
    place = f"(Batch element {at}): " if info.ndim else ""
    return kind(f"{name}: {place}{words.format(int(flat[at]))}")


def half_diagonal(x: Tensor) -> Tensor:
    """The lower triangle with half the (real part of the) diagonal."""
    diagonal = x.diagonal(0, -2, -1)
    return x.tril(-1) + NAMESPACE["diag_embed"]((diagonal.real.to(x.dtype) if x.is_complex() else diagonal) / 2)


def constant_zero(x: Tensor) -> Tensor:
    """Zeros that depend on x in the graph, with zero derivative, whatever x holds."""
    return x.masked_fill(x.new_ones(x._layout.shape, dtype=bool_), 0)


def _eye_like(x: Tensor) -> Tensor:
    return NAMESPACE["eye"](x._layout.shape[-1], dtype=x.dtype)


# ---------------------------------------------------------------- Cholesky


def _cholesky_array(x: Tensor, upper: bool) -> tuple[np.ndarray, np.ndarray]:
    array = values_of(x)
    if upper:
        array = np.swapaxes(array, -2, -1).conj()
    made, info = lapack.cholesky(array)
    return (np.ascontiguousarray(np.swapaxes(made, -2, -1).conj()) if upper else made), info


@operator(method=False, function=False, out=True, name="linalg_cholesky_ex", node="LinalgCholeskyExBackward0",
          differentiable=1)
def linalg_cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False):
    """(L, info) with L L^H = A for Hermitian positive-definite A (U^H U with `upper`); info tells where it is not."""
    floating("linalg.cholesky", input)
    square("linalg.cholesky", input)
    made, info = _cholesky_array(input, upper)
    if check_errors and info.any():
        raise refused("linalg.cholesky_ex", info, "The factorization could not be completed because the input is not "
                      "positive-definite (the leading minor of order {} is not positive-definite).")
    return returns.linalg_cholesky_ex((copy_columns(made), copy_array(np.asarray(info))))


def _cholesky_gradient(g: Tensor, factor: Tensor, upper: bool) -> Tensor:
    L, gL = (adjoint(factor), adjoint(g)) if upper else (factor, g)
    product = matmul(adjoint(L), gL)
    middle = (product.tril() + adjoint(product.tril(-1))) / 2
    solved = linalg_solve_triangular(adjoint(L), middle, upper=True)
    return linalg_solve_triangular(L, solved, upper=False, left=False)


@linalg_cholesky_ex.vjp
def _(g, out, upper):
    return _cholesky_gradient(g, out, upper)


@composite(method=False, function=False, out=True)
def linalg_cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """L with L L^H = A; LinAlgError unless A is positive-definite."""
    made, info = linalg_cholesky_ex(input, upper=upper)
    array = values_of(info)
    if array.any():
        raise refused("linalg.cholesky", array, "The factorization could not be completed because the input is not "
                      "positive-definite (the leading minor of order {} is not positive-definite).")
    return made


@composite(out=True, node="CholeskyBackward0")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The Cholesky factor, lower or `upper`; see linalg.cholesky."""
    warn_once("torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch release.\n"
              "L = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\nU = torch.cholesky(A, upper="
              "True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\nThis transform will produce "
              "equivalent results for "
              "all valid (symmetric positive definite) inputs.")
    floating("cholesky", input)
    square("cholesky", input)
    made, info = linalg_cholesky_ex(input, upper=upper)
    array = values_of(info)
    if array.any():
        raise refused("cholesky", array, "The factorization could not be completed because the input is not "
                                         "positive-definite (the "
                      "leading minor of order {} is not positive-definite).")
    return made


# ---------------------------------------------------------------- triangular systems


@operator(method=False, function=False, out=True, node="LinalgSolveTriangularBackward0")
def linalg_solve_triangular(input: Tensor, B: Tensor, *, upper: Any, left: Any = True, unitriangular: Any = False):
    """X with A X = B (or X A = B if not `left`) for triangular A; batches broadcast, only the triangle is read."""
    floating("linalg.solve_triangular", input)
    square("linalg.solve_triangular", input)
    matrices("linalg.solve_triangular", B, "B")
    if input._layout.dtype is not B._layout.dtype:
        raise RuntimeError("linalg.solve_triangular: Expected A and B to have the same dtype, but found A of type "
                           f"{input._layout.dtype.scalar_name} and B of type {B._layout.dtype.scalar_name} instead")
    rows, columns = B._layout.shape[-2:]
    n = input._layout.shape[-1]
    if n != (rows if left else columns):
        shapes = f"({n}x{n} and {rows}x{columns})" if left else f"({rows}x{columns} and {n}x{n})"
        raise RuntimeError(f"linalg.solve_triangular: Incompatible shapes of A and B for the equation "
                           f"{'AX = B' if left else 'XA = B'} {shapes}")
    a, b = values_of(input), values_of(B)
    if left:
        return copy_columns(lapack.solve_triangular(a, b, bool(upper), bool(unitriangular)))
    made = lapack.solve_triangular(np.swapaxes(a, -2, -1), np.swapaxes(b, -2, -1), not upper, bool(unitriangular))
    return copy_columns(np.swapaxes(made, -2, -1))


@linalg_solve_triangular.vjp
def _(g, out, input, upper, left, unitriangular, need):
    gB = linalg_solve_triangular(adjoint(input), g, upper=not upper, left=left, unitriangular=unitriangular)
    gA = None
    if need["input"]:
        gA = -matmul(gB, adjoint(out)) if left else -matmul(adjoint(out), gB)
        offset = 1 if unitriangular else 0
        gA = gA.triu(offset) if upper else gA.tril(-offset)
    return gA, gB


# ---------------------------------------------------------------- QR and Householder reflectors


@operator(method=False, function=False, out=True, node="LinalgQrBackward0")
def linalg_qr(A: Tensor, mode: Any = "reduced"):
    """(Q, R) with A = Q R, Q with orthonormal columns and R upper triangular; mode "reduced", "complete" or "r" (Q is empty)."""
    matrices("linalg.qr", A)
    floating("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    made = np.linalg.qr(values_of(A), mode)
    if mode == "r":
        return returns.linalg_qr((A.new_empty([0]), copy_columns(np.triu(made))))
    return returns.linalg_qr((copy_columns(made[0]), copy_columns(made[1])))


@linalg_qr.vjp
def _(gs, outs, layouts, mode):
    if mode == "r":
        raise RuntimeError("The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
                           "linalg.qr(A, "
                           "mode='reduced') if you are going to require gradients.")
    (gQ, gR), (Q, R) = gs, outs
    m, n = layouts[0].shape[-2:]
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    if gQ is None and gR is None:
        return None
    if m >= n:
        return _qr_gradient(gQ, gR, Q, R)
    # A = [X Y] and R = [U V] with X = Q U square and Y = Q V
    U, Y = R[..., :m], matmul(Q, R[..., m:])
    gU = gV = None
    if gR is not None:
        gU, gV = gR[..., :m], gR[..., m:]
        passed = matmul(Y, adjoint(gV))
        gQ = passed if gQ is None else gQ + passed
    gX = _qr_gradient(gQ, gU, Q, U)
    gY = matmul(Q, gV) if gV is not None else Y * 0
    return NAMESPACE["cat"]([gX, gY], -1)


def _qr_gradient(gQ: Tensor | None, gR: Tensor | None, Q: Tensor, R: Tensor) -> Tensor:
    """The gradient for full column rank: (gQ + Q sym(R gR^H - gQ^H Q)) R^-H, where sym copies the lower triangle up."""
    if gR is not None:
        middle = matmul(R, adjoint(gR))
        if gQ is not None:
            middle = middle - matmul(adjoint(gQ), Q)
    else:
        middle = -matmul(adjoint(gQ), Q)
    middle = half_diagonal(middle)
    made = matmul(Q, middle + adjoint(middle))
    if gQ is not None:
        made = made + gQ
    return linalg_solve_triangular(adjoint(R), made, upper=False, left=False)


@composite(out=True)
def qr(input: Tensor, some: bool = True):
    """(Q, R); the full square Q unless `some`. See linalg.qr."""
    warn_once("torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\nThe boolean "
              "parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A, some)\nshould be replaced "
              "with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')")
    return returns.qr(tuple(linalg_qr(input, "reduced" if some else "complete")))


@operator(out=True)
def geqrf(input: Tensor):
    """(a, tau): R above the diagonal of a, the Householder vectors below it, their factors in tau."""
    if input._layout.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    h, tau = np.linalg.qr(values_of(input), "raw")
    return returns.geqrf((copy_columns(np.swapaxes(h, -2, -1)), copy_array(tau)))


@composite(method=False, function=False, out=True, node="LinalgHouseholderProductBackward0")
def linalg_householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of the reflectors I - tau v v^H, v below the diagonal of (*, m, n) input."""
    name = "torch.linalg.householder_product"
    matrices(name, input, "input")
    m, n = input._layout.shape[-2:]
    k = tau._layout.shape[-1] if tau._layout.ndim else 0
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if n < k:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if input._layout.ndim - tau._layout.ndim != 1:
        raise RuntimeError(f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to "
                           f"{tau._layout.ndim} "
                           f"and input.ndim is equal to {input._layout.ndim}")
    if input._layout.dtype is not tau._layout.dtype:
        raise RuntimeError(f"{name}: tau dtype {tau._layout.dtype.scalar_name} does not match input dtype "
                           f"{input._layout.dtype.scalar_name}")
    start = NAMESPACE["eye"](m, n, dtype=input.dtype).expand(*input._layout.shape)
    if not k:
        return start + constant_zero(input)
    return _reflect(input, tau, start, k)


def _reflect(input: Tensor, tau: Tensor, x: Tensor, k: int, adjoint_too: bool = False) -> Tensor:
    """Reflectors 0 to k - 1 (or the adjoint of their product) applied to x from the left."""
    vectors = input[..., :k].tril(-1) + NAMESPACE["eye"](input._layout.shape[-2], k, dtype=input.dtype)
    for i in range(k) if adjoint_too else range(k - 1, -1, -1):
        v = vectors[..., i:i + 1]
        factor = tau[..., i, None, None]
        factor = factor.conj() if adjoint_too and factor.is_complex() else factor
        x = x - factor * matmul(v, matmul(adjoint(v), x))
    return x


@composite(out=True)
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """See linalg.householder_product."""
    return linalg_householder_product(input, input2)


@composite(out=True, node="OrmqrBackward0")
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q other (or other Q, or with the adjoint of Q), Q being the full product of the reflectors in `input` and `tau`."""
    matrices("torch.ormqr", input, "input")
    k = tau._layout.shape[-1]
    if left:
        return _reflect(input, tau, other, k, transpose)
    return adjoint(_reflect(input, tau, adjoint(other), k, not transpose))


# ---------------------------------------------------------------- singular values


def _unconverged(name: str, array: np.ndarray, found: str) -> Exception:
    """The error for matrices whose `found` were not found."""
    finite = np.isfinite(array).all(axis=(-2, -1))
    if not finite.all():
        return refused(name, np.asarray(~finite),
                       "The algorithm failed to converge because the input matrix contained non-finite values.")
    return refused(name, np.ones(array.shape[:-2], int), "The algorithm failed to converge because the input matrix is "
                   f"ill-conditioned or has too many repeated {found} (error code: {{}}).")


def _svd_array(name: str, x: Tensor, full: bool, vectors: Any) -> Any:
    array = values_of(x)
    try:
        return np.linalg.svd(array, full, vectors)
    except np.linalg.LinAlgError:
        raise _unconverged(name, array, "singular values") from None


@operator(method=False, function=False, node="LinalgSvdBackward0")
def _svd(A: Tensor, full_matrices: bool = True):
    U, S, Vh = _svd_array("linalg.svd", A, full_matrices, True)
    return returns.linalg_svd((copy_columns(U), copy_array(S), copy_columns(Vh)))


@_svd.vjp
def _(gs, outs, layouts):
    return _svd_gradient(gs, outs, *layouts[0].shape[-2:])


def _svd_gradient(gs: Any, outs: Any, m: int, n: int) -> Tensor | None:
    (gU, gS, gVh), (U, S, Vh) = gs, outs
    k = min(m, n)
    if gU is None and gVh is None:
        return None if gS is None else matmul(U[..., :k] * gS.unsqueeze(-2), Vh[..., :k, :])
    U, Vh = U[..., :k], Vh[..., :k, :]
    V = adjoint(Vh)
    squares = S.square()
    gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1) + _eye_like(S)
    middle: Any = 0
    rotation_u = rotation_v = None
    if gU is not None:
        gU = gU[..., :k]
        product = matmul(adjoint(U), gU)
        rotation_u = product - adjoint(product)
        middle = rotation_u / gaps * S.unsqueeze(-2)
    if gVh is not None:
        gV = adjoint(gVh[..., :k, :])
        product = matmul(Vh, gV)
        rotation_v = product - adjoint(product)
        middle = middle + S.unsqueeze(-1) * (rotation_v / gaps)
    if U.is_complex():
        _check_phase(rotation_u, rotation_v)
        # the diagonals are imaginary there: only the difference of the phases of U and V is determined
        middle = middle - NAMESPACE["diag_embed"](middle.diagonal(0, -2, -1))
        if rotation_u is not None:
            middle = middle + NAMESPACE["diag_embed"](rotation_u.diagonal(0, -2, -1) / (2 * S))
    if gS is not None:
        middle = middle + NAMESPACE["diag_embed"](gS)
    if m > k and gU is not None:
        outside = gU - matmul(U, matmul(adjoint(U), gU))
        made = matmul(matmul(U, middle) + outside / S.unsqueeze(-2), Vh)
    else:
        made = matmul(U, matmul(middle, Vh))
    if n > k and gVh is not None:
        outside = gVh[..., :k, :]
        made = made + matmul(U, (outside - matmul(matmul(outside, V), Vh)) / S.unsqueeze(-1))
    return made


def _check_phase(rotation_u: Tensor | None, rotation_v: Tensor | None) -> None:
    """A loss of complex singular vectors must not depend on their phase."""
    total: Any = 0
    for rotation in (rotation_u, rotation_v):
        if rotation is not None:
            total = total + rotation.detach().diagonal(0, -2, -1)
    left = np.abs(values_of(total))
    if left.size and left.max() > 2e-2:
        raise RuntimeError("svd_backward: The singular vectors in the complex case are specified up to multiplication "
                           "by e^{i phi}. The "
                           "specified loss function depends on this phase term, making it ill-defined.")


@composite(method=False, function=False, out=True)
def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None):
    """(U, S, Vh) with A = U diag(S) Vh, S descending; U and Vh square with `full_matrices`. LinAlgError without convergence."""
    floating("linalg.svd", A)
    matrices("linalg.svd", A)
    if driver is not None:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")
    return _svd(A, full_matrices)


@operator(method=False, function=False)
def _singular_values(A: Tensor):
    return copy_array(_svd_array("linalg.svd", A, False, False))


@composite(method=False, function=False, out=True)
def linalg_svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values in descending order: (*, m, n) gives (*, min(m, n))."""
    floating("linalg.svd", A)
    matrices("linalg.svd", A)
    if A._node is not None:
        return _svd(A, False)[1]
    return _singular_values(A)


@composite(out=True)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True):
    """(U, S, V) with A = U diag(S) V^H. See linalg.svd; without `compute_uv` U and V are zeros."""
    matrices("linalg.svd", input)
    if not compute_uv:
        *batch, m, n = input._layout.shape
        return returns.svd((input.new_zeros([*batch, m, m]), linalg_svdvals(input), input.new_zeros([*batch, n, n])))
    U, S, Vh = linalg_svd(input, not some)
    return returns.svd((U, S, adjoint(Vh)))


# ---------------------------------------------------------------- eigenvalues


def _hermitian_array(name: str, x: Tensor, triangle: Any, vectors: bool) -> Any:
    if triangle.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {triangle}")
    array = values_of(x)
    try:
        return np.linalg.eigh(array, triangle.upper()) if vectors else np.linalg.eigvalsh(array, triangle.upper())
    except np.linalg.LinAlgError:
        raise _unconverged(name, array, "eigenvalues") from None


@operator(method=False, function=False, out=True, node="LinalgEighBackward0")
def linalg_eigh(input: Tensor, UPLO: str = "L"):
    """(eigenvalues ascending, eigenvectors in columns) of Hermitian matrices; only the triangle UPLO is read."""
    floating("linalg.eigh", input)
    square("linalg.eigh", input)
    values, vectors = _hermitian_array("linalg.eigh", input, UPLO, True)
    return returns.linalg_eigh((copy_array(values), copy_columns(vectors)))


@linalg_eigh.vjp
def _(gs, outs):
    (gL, gV), (L, V) = gs, outs
    if gV is None:
        return None if gL is None else matmul(V * gL.unsqueeze(-2), adjoint(V))
    product = matmul(adjoint(V), gV)
    if V.is_complex():
        phases = np.abs(values_of(product.detach()).diagonal(0, -2, -1).imag)
        if phases.size and phases.max() > 1e-2:
            raise RuntimeError("linalg_eigh_backward: The eigenvectors in the complex case are specified up to "
                               "multiplication by e^{i "
                               "phi}. The specified loss function depends on this quantity, so it is ill-defined.")
    # vectors turn into each other: only the skew-Hermitian part of the product counts, and the gradient is Hermitian
    turn = (product - adjoint(product)) / 2
    middle = turn / (L.unsqueeze(-2) - L.unsqueeze(-1) + _eye_like(L))
    middle = middle - NAMESPACE["diag_embed"](middle.diagonal(0, -2, -1))
    if gL is not None:
        middle = middle + NAMESPACE["diag_embed"](gL)
    return matmul(V, matmul(middle, adjoint(V)))


@operator(method=False, function=False)
def _hermitian_values(A: Tensor, UPLO: str = "L"):
    return copy_array(_hermitian_array("linalg.eigh", A, UPLO, False))


@composite(method=False, function=False, out=True)
def linalg_eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending."""
    floating("linalg.eigh", input)
    square("linalg.eigh", input)
    return linalg_eigh(input, UPLO)[0] if input._node is not None else _hermitian_values(input, UPLO)


def _general_array(x: Tensor, vectors: bool) -> Any:
    array = values_of(x)
    if not np.isfinite(array).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    wide = np.complex64 if array.dtype in (np.float32, np.complex64) else np.complex128
    if vectors:
        values, columns = np.linalg.eig(array)
        return values.astype(wide), columns.astype(wide)
    return np.linalg.eigvals(array).astype(wide)


@operator(method=False, function=False, out=True, node="LinalgEigBackward0")
def linalg_eig(input: Tensor):
    """(eigenvalues, eigenvectors in columns), complex, in no particular order, of square matrices."""
    floating("linalg.eig", input)
    square("linalg.eig", input)
    values, vectors = _general_array(input, True)
    return returns.linalg_eig((copy_array(values), copy_columns(vectors)))


@linalg_eig.vjp
def _(gs, outs, layouts):
    from flambeau.ops.linalg import linalg_solve
    (gL, gV), (L, V) = gs, outs
    if gL is None and gV is None:
        return None
    if gV is None:
        made = linalg_solve(adjoint(V), gL.unsqueeze(-1) * adjoint(V))
    else:
        product = matmul(adjoint(V), gV)
        diagonal = product.diagonal(0, -2, -1)
        phases = np.abs(values_of(diagonal.detach()).imag)
        if phases.size and phases.max() > 1e-2:
            raise RuntimeError("linalg_eig_backward: The eigenvectors in the complex case are specified up to "
                               "multiplication by e^{i "
                               "phi}. The specified loss function depends on this quantity, so it is ill-defined.")
        middle = product - matmul(adjoint(V), V * diagonal.real.unsqueeze(-2))
        middle = middle / ((L.unsqueeze(-2) - L.unsqueeze(-1)).conj() + _eye_like(L))
        middle = middle - NAMESPACE["diag_embed"](middle.diagonal(0, -2, -1))
        if gL is not None:
            middle = middle + NAMESPACE["diag_embed"](gL)
        made = linalg_solve(adjoint(V), matmul(middle, adjoint(V)))
    return made if layouts[0].dtype.is_complex else made.real


@operator(method=False, function=False)
def _eigenvalues(A: Tensor):
    return copy_array(_general_array(A, False))


@composite(method=False, function=False, out=True)
def linalg_eigvals(input: Tensor) -> Tensor:
    """The eigenvalues of square matrices, complex, in no particular order."""
    floating("linalg.eig", input)
    square("linalg.eig", input)
    return linalg_eig(input)[0] if input._node is not None else _eigenvalues(input)
