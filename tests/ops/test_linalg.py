"""Linear algebra: values against NumPy, both orders of gradients, named results, batches, errors in PyTorch's words."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau import linalg
from flambeau.autograd import gradcheck, gradgradcheck

generator = np.random.default_rng(0)


def random(*shape, dtype=torch.float64):
    """A leaf of random numbers."""
    values = generator.standard_normal(shape)
    if dtype.is_complex:
        values = values + 1j * generator.standard_normal(shape)
    return torch.from_numpy(values).to(dtype).requires_grad_()


def regular(*shape, dtype=torch.float64):
    """A leaf of well-conditioned square matrices."""
    n = shape[-1]
    return (random(*shape, dtype=dtype).detach() + (n + 1) * torch.eye(n, dtype=dtype)).requires_grad_()


def hermitian(x):
    """x + x^H, so that a gradient with respect to x is that of a Hermitian matrix."""
    return (x + x.mH) / 2


def positive(x):
    return x @ x.mH + x.shape[-1] * torch.eye(x.shape[-1], dtype=x.dtype)


def absolute_parts(results):
    """What of decompositions does not depend on signs and phases."""
    return tuple(r.abs().square() for r in results)


# ---------------------------------------------------------------- values


def test_decompositions_give_back_the_matrix():
    for shape in ((4, 4), (2, 3, 5), (2, 5, 3), (0, 3, 3), (3, 0)):
        for dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
            A = random(*shape, dtype=dtype).detach()
            atol = 1e-4 if dtype in (torch.float32, torch.complex64) else 1e-10
            U, S, Vh = linalg.svd(A, full_matrices=False)
            assert torch.allclose((U * S.unsqueeze(-2)) @ Vh, A, atol=atol)
            Q, R = linalg.qr(A)
            assert torch.allclose(Q @ R, A, atol=atol)
            P, L, U = linalg.lu(A)
            assert torch.allclose(P @ L @ U, A, atol=atol)


def test_large_lu_uses_blocks():
    A = random(2, 100, 100).detach()
    P, L, U = linalg.lu(A)
    assert torch.allclose(P @ L @ U, A, atol=1e-10)
    LU, pivots = linalg.lu_factor(A)
    B = random(2, 100, 3).detach()
    for left, adjoint in ((True, False), (True, True)):
        X = linalg.lu_solve(LU, pivots, B, left=left, adjoint=adjoint)
        assert torch.allclose((A.mT if adjoint else A) @ X, B, atol=1e-9)
    X = linalg.lu_solve(LU, pivots, B.mT, left=False)
    assert torch.allclose(X @ A, B.mT, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_systems(dtype):
    A, B = regular(2, 40, 40, dtype=dtype).detach(), random(2, 40, 3, dtype=dtype).detach()
    assert torch.allclose(A @ linalg.solve(A, B), B)
    assert torch.allclose(linalg.solve(A, B.mT, left=False) @ A, B.mT)
    assert torch.allclose(A @ linalg.inv(A), torch.eye(40, dtype=dtype))
    assert torch.allclose(A.triu() @ linalg.solve_triangular(A, B, upper=True), B)
    assert torch.allclose(linalg.solve_triangular(A, B.mT, upper=False, left=False) @ A.tril(), B.mT)
    H = positive(A)
    L = linalg.cholesky(H)
    assert torch.allclose(L @ L.mH, H)
    assert torch.allclose(H @ torch.cholesky_solve(B, L), B)
    assert torch.allclose(H @ torch.cholesky_inverse(L), torch.eye(40, dtype=dtype), atol=1e-7)
    U = linalg.cholesky(H, upper=True)
    assert torch.allclose(U.mH @ U, H)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("indefinite", [False, True])
def test_ldl(dtype, indefinite):
    A = hermitian(random(3, 9, 9, dtype=dtype).detach())
    if indefinite:
        A = A - torch.diag_embed(A.diagonal(0, -2, -1))  # zeros on the diagonal ask for blocks of two
    B = random(3, 9, 2, dtype=dtype).detach()
    LD, pivots = linalg.ldl_factor(A, hermitian=True)
    assert (pivots < 0).any() or not indefinite
    assert torch.allclose(A @ linalg.ldl_solve(LD, pivots, B, hermitian=True), B, atol=1e-8)


def test_eigenvalues():
    A = random(3, 4, 4).detach()
    values, vectors = linalg.eig(A)
    assert values.dtype is torch.complex128
    assert torch.allclose(A.to(torch.complex128) @ vectors, vectors * values.unsqueeze(-2))
    H = hermitian(A)
    values, vectors = linalg.eigh(H)
    assert torch.allclose(H @ vectors, vectors * values.unsqueeze(-2))
    assert torch.allclose(linalg.eigvalsh(H), values)


def test_matrix_exp_scales_each_matrix():
    scales = [0, 0.5, 40, -40]
    A = torch.stack([torch.eye(3) * scale for scale in scales]).double()
    made = linalg.matrix_exp(A).diagonal(0, -2, -1)[:, 0]
    np.testing.assert_allclose(made.numpy(), np.exp(scales), rtol=1e-12)


def test_named_results():
    A = torch.eye(2)
    assert repr(linalg.slogdet(A)).startswith("torch.return_types.linalg_slogdet(\nsign=tensor(1.)")
    assert type(linalg.svd(A)) is torch.return_types.linalg_svd
    assert linalg.lstsq(A, A).rank.item() == 2
    assert torch.lu(A, get_infos=True).pivots.dtype is torch.int32


def test_norms():
    A = random(3, 4).detach()
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        np.testing.assert_allclose(linalg.norm(A, order).item(), np.linalg.norm(A.numpy(), order), rtol=1e-12)
        np.testing.assert_allclose(
            linalg.matrix_norm(A.T.unsqueeze(0), order, dim=(2, 1), keepdim=True).numpy(),
            np.linalg.norm(A.numpy(), order).reshape(1, 1, 1),
            rtol=1e-12,
        )
    S = regular(3, 3).detach()
    for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        np.testing.assert_allclose(linalg.cond(S, order).item(), np.linalg.cond(S.numpy(), order), rtol=1e-10)
    assert linalg.cond(torch.ones(2, 2), 1).item() == np.inf


# ---------------------------------------------------------------- gradients

CASES = {
    "inv": (linalg.inv, lambda d: (regular(2, 3, 3, dtype=d),)),
    "det": (linalg.det, lambda d: (regular(2, 3, 3, dtype=d),)),
    "slogdet": (lambda A: linalg.slogdet(A)[1], lambda d: (regular(2, 3, 3, dtype=d),)),
    "solve": (linalg.solve, lambda d: (regular(2, 3, 3, dtype=d), random(2, 3, 2, dtype=d))),
    "solve vector": (linalg.solve, lambda d: (regular(3, 3, dtype=d), random(3, dtype=d))),
    "solve right": (lambda A, B: linalg.solve(A, B, left=False), lambda d: (regular(3, 3, dtype=d), random(2, 3, dtype=d))),
    "triangular": (
        lambda A, B: linalg.solve_triangular(A, B, upper=True),
        lambda d: (regular(3, 3, dtype=d), random(2, 3, 2, dtype=d)),
    ),
    "triangular unit right": (
        lambda A, B: linalg.solve_triangular(A, B, upper=False, left=False, unitriangular=True),
        lambda d: (regular(3, 3, dtype=d), random(2, 3, dtype=d)),
    ),
    "cholesky": (lambda A: linalg.cholesky(positive(A)), lambda d: (random(2, 3, 3, dtype=d),)),
    "cholesky upper": (lambda A: linalg.cholesky(positive(A), upper=True), lambda d: (random(3, 3, dtype=d),)),
    "cholesky_solve": (lambda B, A: torch.cholesky_solve(B, A.tril()), lambda d: (random(3, 2, dtype=d), regular(3, 3, dtype=d))),
    "cholesky_inverse": (lambda A: torch.cholesky_inverse(A.triu(), True), lambda d: (regular(3, 3, dtype=d),)),
    "pinv": (linalg.pinv, lambda d: (random(2, 4, 3, dtype=d),)),
    "pinv wide": (linalg.pinv, lambda d: (random(3, 4, dtype=d),)),
    "lstsq": (lambda A, B: linalg.lstsq(A, B, driver="gelsd")[:2], lambda d: (random(4, 3, dtype=d), random(4, 2, dtype=d))),
    "matrix_power": (lambda A: linalg.matrix_power(A, 3), lambda d: (random(3, 3, dtype=d),)),
    "matrix_power negative": (lambda A: linalg.matrix_power(A, -2), lambda d: (regular(3, 3, dtype=d),)),
    "matrix_exp": (linalg.matrix_exp, lambda d: (random(2, 3, 3, dtype=d),)),
    "qr": (lambda A: linalg.qr(A, "reduced"), lambda d: (random(2, 3, 3),)),
    "qr tall": (lambda A: linalg.qr(A), lambda d: (random(4, 3),)),
    "qr wide": (lambda A: linalg.qr(A), lambda d: (random(3, 5),)),
    "svdvals": (linalg.svdvals, lambda d: (random(3, 4, dtype=d),)),
    "svd tall": (lambda A: absolute_parts(linalg.svd(A, full_matrices=False)), lambda d: (random(4, 3, dtype=d),)),
    "svd wide": (lambda A: absolute_parts(linalg.svd(A, full_matrices=False)), lambda d: (random(2, 3, 4, dtype=d),)),
    "eigh": (lambda A: absolute_parts(linalg.eigh(hermitian(A))), lambda d: (random(2, 3, 3, dtype=d),)),
    "eig": (lambda A: absolute_parts(linalg.eig(A)), lambda d: (random(3, 3, dtype=d),)),
    "lu": (lambda A: linalg.lu(A)[1:], lambda d: (regular(2, 3, 3, dtype=d),)),
    "lu tall": (lambda A: linalg.lu(A)[1:], lambda d: (random(4, 3, dtype=d),)),
    "lu wide": (lambda A: linalg.lu(A)[1:], lambda d: (random(3, 4, dtype=d),)),
    "lu_solve": (
        lambda A, B: linalg.lu_solve(*linalg.lu_factor(A), B, adjoint=True),
        lambda d: (regular(3, 3, dtype=d), random(3, 2, dtype=d)),
    ),
    "householder": (linalg.householder_product, lambda d: (random(4, 3, dtype=d), random(2, dtype=d))),
    "nuclear": (lambda A: linalg.matrix_norm(A, "nuc"), lambda d: (random(3, 4, dtype=d),)),
    "cond": (linalg.cond, lambda d: (random(3, 3, dtype=d),)),
    "tensorinv": (lambda A: linalg.tensorinv(A, 1), lambda d: (random(4, 2, 2, dtype=d),)),
    "tensorsolve": (linalg.tensorsolve, lambda d: (random(4, 2, 2, dtype=d), random(4, dtype=d))),
    "vander": (lambda x: linalg.vander(x, N=4), lambda d: (random(2, 3, dtype=d),)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients(name, dtype):
    function, inputs = CASES[name]
    if dtype.is_complex and name.startswith("qr"):
        pytest.skip("the sample is real")
    given = inputs(dtype)
    assert gradcheck(function, given)
    assert gradgradcheck(function, given, check_undefined_grad=False)


def test_determinant_of_a_singular_matrix_has_a_gradient():
    A = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    linalg.det(A).backward()
    np.testing.assert_allclose(A.grad.numpy(), [[4, -2], [-2, 1]], atol=1e-12)


# ---------------------------------------------------------------- errors

SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
ERRORS = [
    (
        lambda: linalg.inv(SINGULAR),
        "linalg.inv: The diagonal element 2 is zero, the inversion could not be completed because the input matrix is singular.",
    ),
    (
        lambda: linalg.cholesky(torch.stack([torch.eye(2), -torch.eye(2)])),
        "linalg.cholesky: (Batch element 1): The "
        "factorization could "
        "not be completed because the input is not positive-definite (the leading minor of order 1 is not positive-definite).",
    ),
    (
        lambda: linalg.solve(SINGULAR, torch.ones(2)),
        "torch.linalg.solve: The solver failed because the input matrix is singular.",
    ),
    (lambda: linalg.det(torch.ones(2, 3)), "linalg.det: A must be batches of square matrices, but they are 2 by 3 matrices"),
    (lambda: linalg.inv(torch.ones(3)), "linalg.inv: The input tensor A must have at least 2 dimensions."),
    (lambda: linalg.inv(torch.ones(2, 2).half()), "linalg.inv: Low precision dtypes not supported. Got Half"),
    (lambda: linalg.matrix_norm(torch.ones(2, 2), 3), "linalg.matrix_norm: Order 3 not supported."),
    (
        lambda: linalg.svd(torch.full((2, 2), float("nan"))),
        "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.",
    ),
]


@pytest.mark.parametrize("call, words", ERRORS)
def test_errors(call, words):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value) == words


def test_linalg_error_is_a_runtime_error():
    with pytest.raises(linalg.LinAlgError):
        linalg.inv(SINGULAR)
    assert linalg.inv_ex(SINGULAR).info.item() == 2
    assert linalg.cholesky_ex(-torch.eye(3)).info.item() == 1
    failed = linalg.cholesky_ex(torch.tensor([[4.0, 0.0], [math.nan, 1.0]]))
    assert failed.info.item() == 2 and failed.L[0].tolist() == [2, 0]
    with pytest.raises(linalg.LinAlgError, match="leading minor of order 1 is not positive-definite"):
        linalg.cholesky(torch.full((2, 2), math.nan))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_the_gradient_of_eigh_is_hermitian(dtype):
    """So that a step against it leaves a Hermitian matrix one, although only a triangle is read."""
    a = torch.linspace(-1, 1, 9, dtype=torch.float64).reshape(3, 3).sin().to(dtype)
    a = (a + a.mH + torch.diag(torch.tensor([1.0, 2, 4])).to(dtype)).requires_grad_()
    values, vectors = torch.linalg.eigh(a)
    weight = torch.arange(9, dtype=torch.float64).reshape(3, 3).cos()
    (made,) = torch.autograd.grad((vectors.abs() * weight).sum() + (values * weight[0]).sum(), a)
    assert torch.allclose(made, made.mH)

    def function(a):
        values, vectors = torch.linalg.eigh((a + a.mH) / 2)
        return values, vectors.abs()

    assert torch.autograd.gradcheck(function, (a,)) and torch.autograd.gradgradcheck(function, (a,))


@pytest.mark.parametrize("shape", [(2, 0, 3, 3), (0, 2, 3, 3), (3, 2, 0, 1, 1)])
def test_batches_with_a_dimension_of_zero(shape):
    x = torch.ones(shape)
    assert torch.linalg.inv(x).shape == torch.linalg.cholesky(x).shape == torch.linalg.solve(x, x).shape == shape
    assert torch.linalg.det(x).shape == torch.linalg.slogdet(x)[1].shape == shape[:-2]
    assert all(part.shape == shape for part in torch.linalg.qr(x)) and torch.linalg.lu_factor(x)[1].shape == shape[:-1]
    assert torch.inner(torch.ones(2, 0), torch.ones(3, 0)).tolist() == [[0, 0, 0]] * 2
    assert torch.linalg.cond(torch.ones(0, 0)).item() == 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: torch.linalg.cond(x, "wrong"), RuntimeError, "linalg.cond got an invalid norm type: wrong"),
        (
            lambda x: torch.linalg.matrix_norm(x, 1j),
            RuntimeError,
            "linalg.matrix_norm: Expected a non-complex scalar as the order of norm.",
        ),
        (
            lambda x: torch.linalg.vector_norm(x, "inf"),
            TypeError,
            "linalg_vector_norm(): argument 'ord' (position 2) must be Number",
        ),
        (
            lambda x: torch.linalg.vector_norm(x, dtype=torch.complex64),
            RuntimeError,
            "linalg.vector_norm: dtype should be real for real inputs, but got ComplexFloat",
        ),
        (
            lambda x: torch.cholesky_inverse(x.tril(-1)),
            torch.linalg.LinAlgError,
            "cholesky_inverse: The diagonal element 1 is zero",
        ),
        (
            lambda x: torch.linalg.pinv(x, atol=torch.tensor(1j)),
            RuntimeError,
            "torch.linalg.pinv: atol tensor of complex type is not supported. Got ComplexFloat",
        ),
        (lambda x: torch.linalg.tensorsolve(x, torch.ones(2)), RuntimeError, "Expected self to satisfy the requirement"),
        (lambda x: torch.addr(x, x[0], x[0], alpha=True), RuntimeError, "Boolean alpha only supported for Boolean results."),
        (lambda x: torch.solve(x, x), RuntimeError, "This function was deprecated since version 1.9 and is now removed."),
    ],
)
def test_what_is_refused(call, error, words):
    with pytest.raises(error) as caught:
        call(torch.ones(3, 3))
    assert str(caught.value).startswith(words)


def test_shapes_are_refused_before_dtypes_and_short_dtypes_by_their_kernel():
    half = torch.ones(2, 3, dtype=torch.float16)
    for call in (torch.linalg.det, torch.linalg.inv, torch.linalg.slogdet, torch.linalg.cholesky, torch.linalg.eigh):
        with pytest.raises(RuntimeError, match="must be batches of square matrices"):
            call(half)
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            call(half[0])
    square = half[:, :2]
    for call, kernel in (
        (torch.linalg.det, "lu_cpu"),
        (torch.linalg.cholesky, "cholesky_cpu"),
        (torch.linalg.qr, "geqrf_cpu"),
        (torch.linalg.svd, "linalg_svd_cpu"),
        (torch.linalg.eigh, "linalg_eigh_cpu"),
        (torch.linalg.lu, "lu_cpu"),
        (torch.linalg.eig, "linalg_eig_out_cpu"),
        (torch.linalg.ldl_factor, "ldl_factor_kernel_cpu"),
    ):
        with pytest.raises(NotImplementedError, match=f"\"{kernel}\" not implemented for 'Half'"):
            call(square)
    with pytest.raises(NotImplementedError, match="\"lu_cpu\" not implemented for 'Half'"):
        torch.linalg.solve(square, square)
    with pytest.raises(RuntimeError, match=r"linalg\.inv: Low precision dtypes not supported\. Got Half"):
        torch.linalg.inv(square)
