"""Singular values and eigenvalues of (batches of) matrices with their gradients.

Singular values and Hermitian matrices' eigenvalues come from ops.linalg.factorization_plans.svd and
ops.linalg.factorization_plans.eigen, other eigenvalues from numpy.linalg; the rules are written in differentiable
operators, so every order works. They follow Giles (2008), "An extended collection of matrix derivative results". Used by
ops.linalg.matrix_functions, torch.linalg.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from flambeau.base.layout import Layout
from flambeau.core.modes.autocast import single
from flambeau.core.operator import return_types
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import WHOLE
from flambeau.core.operator.out_rules import OUT_ONLY, SAME_DEVICE, Out, castable, exact
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.create import array_of, copy_array, copy_columns
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known
from flambeau.ops.linalg import factorization_plans
from flambeau.ops.linalg.arguments import computed, eye_like, factorizable, matrices, square
from flambeau.ops.linalg.batched_plans import failed, in_columns, laid_in_columns, plain, refused
from flambeau.ops.linalg.matmul import adjoint, matmul
from flambeau.ops.linalg.solve import linalg_solve

# ---------------------------------------------------------------- singular values


def _check(name: str, info: Tensor, found: str) -> None:
    """LinAlgError for the first matrix whose `found` were not found."""
    if failed(info):
        words = "The algorithm failed to converge because the input matrix " + (
            "contained non-finite values."
            if array_of(info).min() < 0
            else f"is ill-conditioned or has too many repeated {found} (error code: {{}})."
        )
        raise refused(name, info, words)


def singular(A: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, Vh) of (*, m, n), without a graph: all columns of U and V, or their first min(m, n)."""
    if A._layout.numel:
        U, S, Vh, info = factorization_plans.svd.factor(A, full)
        _check("linalg.svd", info, "singular values")
        return U, S, Vh
    *batch, m, n = A._layout.shape
    k = min(m, n)
    eye = functools.partial(NAMESPACE["eye"], dtype=A._layout.dtype, device=A._layout.device)
    left, right = (
        laid_in_columns(eye(rows, columns).expand(*batch, rows, columns))
        for rows, columns in ((m, m if full else k), (n if full else k, n))
    )
    return left, factorization_plans.svd.values(A)[0], right


@operator(method=False, function=False, node="LinalgSvdBackward0")
def _svd(A: Tensor, full_matrices: bool = True):
    return return_types.linalg_svd(singular(A, full_matrices))


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
    gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1) + eye_like(S)
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
    if not _vanishes(total, 2e-2):
        raise RuntimeError(
            "svd_backward: The singular vectors in the complex case are specified up to multiplication "
            "by e^{i phi}. The "
            "specified loss function depends on this phase term, making it ill-defined."
        )


def _vanishes(x: Tensor, tolerance: float) -> bool:
    """Whether no element is larger than that."""
    return not (known(x) and x._layout.numel and np.abs(array_of(x)).max() > tolerance)


@composite(method=False, function=False, out=Out(dtype=exact, device=SAME_DEVICE, step="_linalg_svd"), autocast=single)
def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None):
    """(U, S, Vh) with A = U diag(S) Vh, S descending; U and Vh square with `full_matrices`. LinAlgError if A holds NaN."""
    matrices("linalg.svd", A)
    factorizable("linalg.svd", "linalg_svd_cpu", A)
    if driver is not None:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")
    return _svd(A, full_matrices)


@operator(method=False, function=False)
def _singular_values(A: Tensor):
    values, info = factorization_plans.svd.values(A)
    _check("linalg.svd", info, "singular values")
    return values


@composite(method=False, function=False, out=Out(dtype=exact, device=SAME_DEVICE, step="_linalg_svd"), autocast=single, jvp=WHOLE)
def linalg_svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values in descending order: (*, m, n) gives (*, min(m, n))."""
    matrices("linalg.svd", A)
    factorizable("linalg.svd", "linalg_svd_cpu", A)
    if A._node is not None:
        return _svd(A, False)[1]
    return _singular_values(A)


@composite(out=Out(dtype=exact, device=SAME_DEVICE, step="_linalg_svd", as_made=True), autocast=single)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) with A = U diag(S) V^H. See linalg.svd; without `compute_uv` U and V are zeros."""
    matrices("linalg.svd", input)
    if not compute_uv:
        *batch, m, n = input._layout.shape
        return return_types.svd((input.new_zeros([*batch, m, m]), linalg_svdvals(input), input.new_zeros([*batch, n, n])))
    U, S, Vh = linalg_svd(input, not some)
    return return_types.svd((U, S, adjoint(Vh)))


# ---------------------------------------------------------------- eigenvalues


def _read_above(UPLO: Any) -> bool:
    """Whether the upper triangle is the one to read."""
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


@operator(method=False, function=False, out=Out(dtype=exact, step="_linalg_eigh"), node="LinalgEighBackward0", autocast=single)
def linalg_eigh(input: Tensor, UPLO: str = "L"):
    """(eigenvalues ascending, eigenvectors in columns) of Hermitian matrices; only the triangle UPLO is read. NaN for a matrix
    that holds NaN or infinities."""
    square("linalg.eigh", input)
    computed("linalg_eigh_cpu", input, empty=True)
    *found, info = factorization_plans.eigen.factor(input, _read_above(UPLO))
    _check("linalg.eigh", info, "eigenvalues")
    return return_types.linalg_eigh(tuple(found))


@linalg_eigh.vjp
def _(gs, outs):
    (gL, gV), (L, V) = gs, outs
    if gV is None:
        return None if gL is None else matmul(V * gL.unsqueeze(-2), adjoint(V))
    product = matmul(adjoint(V), gV)
    if V.is_complex():
        if not _vanishes(product.detach().diagonal(0, -2, -1).imag, 1e-2):
            raise RuntimeError(
                "linalg_eigh_backward: The eigenvectors in the complex case are specified up to "
                "multiplication by e^{i "
                "phi}. The specified loss function depends on this quantity, so it is ill-defined."
            )
    # vectors turn into each other: only the skew-Hermitian part of the product counts, and the gradient is Hermitian
    turn = (product - adjoint(product)) / 2
    middle = turn / (L.unsqueeze(-2) - L.unsqueeze(-1) + eye_like(L))
    middle = middle - NAMESPACE["diag_embed"](middle.diagonal(0, -2, -1))
    if gL is not None:
        middle = middle + NAMESPACE["diag_embed"](gL)
    return matmul(V, matmul(middle, adjoint(V)))


@operator(method=False, function=False)
def _hermitian_values(A: Tensor, UPLO: str = "L"):
    values, info = factorization_plans.eigen.values(A, _read_above(UPLO))
    _check("linalg.eigh", info, "eigenvalues")
    return values


@composite(method=False, function=False, out=Out(dtype=exact, step="_linalg_eigh"), autocast=single, jvp=WHOLE)
def linalg_eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending."""
    square("linalg.eigh", input)
    computed("linalg_eigh_cpu", input, empty=True)
    return linalg_eigh(input, UPLO)[0] if input._node is not None else _hermitian_values(input, UPLO)


def _eigen_layouts(name: str, input: Tensor) -> tuple[Layout, Layout]:
    """Of the eigenvalues and eigenvectors of square matrices."""
    square(name, input)
    factorizable(name, "linalg_eig_out_cpu", input, empty=False)
    layout = input._layout
    wide = layout.with_dtype(layout.dtype.to_complex())
    return plain(layout.shape[:-1], wide), in_columns(layout.shape, wide)


def _general_array(x: Tensor, vectors: bool) -> Any:
    array = array_of(x)
    if not np.isfinite(array).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    wide = np.complex64 if array.dtype in (np.float32, np.complex64) else np.complex128
    if vectors:
        values, columns = np.linalg.eig(array)
        return values.astype(wide), columns.astype(wide)
    return np.linalg.eigvals(array).astype(wide)


@operator(
    method=False,
    function=False,
    node="LinalgEigBackward0",
    autocast=single,
    abstract=lambda input: return_types.linalg_eig(_eigen_layouts("linalg.eig", input)),
    out=Out(dtype=castable("torch.linalg.eig", "eigenvalues")),
)
def linalg_eig(input: Tensor):
    """(eigenvalues, eigenvectors in columns), complex, in no particular order, of square matrices."""
    values, vectors = _general_array(input, True)
    return return_types.linalg_eig((copy_array(values), copy_columns(vectors)))


@linalg_eig.vjp
def _(gs, outs, layouts):
    (gL, gV), (L, V) = gs, outs
    if gL is None and gV is None:
        return None
    if gV is None:
        made = linalg_solve(adjoint(V), gL.unsqueeze(-1) * adjoint(V))
    else:
        product = matmul(adjoint(V), gV)
        diagonal = product.diagonal(0, -2, -1)
        if not _vanishes(diagonal.detach().imag, 1e-2):
            raise RuntimeError(
                "linalg_eig_backward: The eigenvectors in the complex case are specified up to "
                "multiplication by e^{i "
                "phi}. The specified loss function depends on this quantity, so it is ill-defined."
            )
        middle = product - matmul(adjoint(V), V * diagonal.real.unsqueeze(-2))
        middle = middle / ((L.unsqueeze(-2) - L.unsqueeze(-1)).conj() + eye_like(L))
        middle = middle - NAMESPACE["diag_embed"](middle.diagonal(0, -2, -1))
        if gL is not None:
            middle = middle + NAMESPACE["diag_embed"](gL)
        made = linalg_solve(adjoint(V), matmul(middle, adjoint(V)))
    return made if layouts[0].dtype.is_complex else made.real


@operator(method=False, function=False, abstract=lambda A: _eigen_layouts("linalg.eigvals", A)[0])
def _eigenvalues(A: Tensor):
    return copy_array(_general_array(A, False))


@composite(
    method=False,
    function=False,
    autocast=single,
    out=Out(dtype=castable("torch.linalg.eigvals", "eigenvalues"), graph=OUT_ONLY),
    jvp=WHOLE,
)
def linalg_eigvals(input: Tensor) -> Tensor:
    """The eigenvalues of square matrices, complex, in no particular order."""
    square("linalg.eigvals", input)
    factorizable("linalg.eigvals", "linalg_eig_out_cpu", input, empty=False)
    return linalg_eig(input)[0] if input._node is not None else _eigenvalues(input)
