"""The compiled singular value decompositions: residuals and orthogonality of a few units in the last place at every shape that
takes another way, for every kind of spectrum, scale and layout; what stands on them; NaN and infinities.
"""

from __future__ import annotations

import numpy as np
import pytest
from matrices import layouts

import flambeau as torch
from flambeau import linalg

DTYPES = ("float32", "float64", "complex64", "complex128")
# up to 16 rows: reflectors one by one; from 96 on: in phases; from 200 on: in blocks; long ones by a triangle
SHAPES = (
    (1, 1),
    (2, 2),
    (3, 5),
    (5, 3),
    (1, 7),
    (16, 16),
    (17, 20),
    (33, 33),
    (65, 40),
    (40, 65),
    (100, 130),
    (130, 100),
    (260, 240),
    (90, 30),
    (30, 90),
)
generator = np.random.default_rng(6)


def array(dtype, *shape):
    made = generator.standard_normal(shape)
    return (made + 1j * generator.standard_normal(shape) if dtype[0] == "c" else made).astype(dtype)


def adjoint(x):
    return x.swapaxes(-2, -1).conj()


def is_orthonormal(x, epsilon):
    """Whether the columns are orthonormal to a few units in the last place."""
    n = x.shape[-1]
    return np.abs(adjoint(x) @ x - np.eye(n)).max(initial=0) <= 5 * (x.shape[-2] + 2) * epsilon


def is_decomposition(A, U, S, Vh):
    m, n = A.shape[-2:]
    k, epsilon = min(m, n), np.finfo(A.dtype).eps
    scale = np.abs(A).max(initial=0) or 1
    A, S, U, Vh = (x.astype(np.complex128) for x in (A / scale, S / scale, U, Vh))
    S = S.real
    size = max(1, S.max(initial=0))
    residual = np.abs((U[..., :k] * S[..., None, :]) @ Vh[..., :k, :] - A).max(initial=0)
    return (
        residual <= 10 * size * epsilon * (1 + k**0.5)
        and all(is_orthonormal(x, epsilon) for x in (U, adjoint(Vh)))
        and np.all(np.diff(S) <= 0)
        and np.all(S >= 0)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", SHAPES)
def test_matrices_of_every_shape(dtype, m, n):
    for batch in ((), (3,), (2, 5)) if m <= 33 else ((), (2,)) if m <= 100 else ((),):
        A, k = array(dtype, *batch, m, n), min(m, n)
        for given in layouts(A) if m <= 100 else [torch.from_numpy(A)]:
            for full in (False, True):
                U, S, Vh = linalg.svd(given, full_matrices=full)
                assert U.shape == (*batch, m, m if full else k) and Vh.shape == (*batch, n if full else k, n)
                assert is_decomposition(A, U.numpy(), S.numpy(), Vh.numpy())
            alone = linalg.svdvals(given).numpy()
            assert np.allclose(alone, S.numpy(), atol=20 * k * np.finfo(dtype).eps * np.abs(A).max())
        assert U.stride()[-2:] == (1, m) and S.numpy().dtype == A.real.dtype


def spectra(m, n):
    """Matrices whose singular values, or whose elements, are of unlike kinds."""
    k = min(m, n)
    U, _, Vh = np.linalg.svd(generator.standard_normal((m, n)), full_matrices=False)
    yield "zero", np.zeros((m, n))
    yield "identity", np.eye(m, n)
    yield "rank one", np.outer(U[:, 0], Vh[0])
    yield "orthogonal", U @ Vh
    yield "two clusters", (U * np.where(np.arange(k) < k // 2, 1, 1e-9 * np.arange(k))) @ Vh
    yield "geometric", (U * 2.0 ** -np.arange(k)) @ Vh
    yield "graded", (U @ Vh) * np.logspace(0, -12, m)[:, None] * np.logspace(0, -12, n)
    yield "graded upwards", (U @ Vh) * np.logspace(-12, 0, m)[:, None] * np.logspace(-12, 0, n)
    yield "nilpotent", np.eye(m, n, k=1)
    yield "jordan", 1e-3 * np.eye(m, n) + np.eye(m, n, k=1)
    yield "zero columns", np.triu(generator.standard_normal((m, n))) * (np.arange(n) % 3 != 1)
    yield "ones", np.ones((m, n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(4, 4), (40, 30), (30, 40), (110, 120)])
def test_every_kind_of_spectrum_at_every_scale(dtype, m, n):
    least, most = (1e-36, 1e36) if dtype in ("float32", "complex64") else (1e-300, 1e300)
    for name, made in spectra(m, n):
        for scale in (1, least, most) if m <= 40 else (1,):
            A = (made / max(np.abs(made).max(), 1e-300) * scale).astype(dtype)
            U, S, Vh = linalg.svd(torch.from_numpy(A), full_matrices=False)
            assert is_decomposition(A, U.numpy(), S.numpy(), Vh.numpy()), (name, scale)
            alone = linalg.svdvals(torch.from_numpy(A)).numpy()
            limit = 20 * max(m, n) * np.finfo(dtype).eps * S[0].item() / scale
            assert np.abs(alone / scale - S.numpy() / scale).max() <= limit, (name, scale)


@pytest.mark.parametrize("shape", ((3, 3), (20, 20), (110, 110), (60, 25), (25, 60)))
def test_nan_is_refused_and_infinities_give_nan(shape):
    A = array("float64", 2, *shape)
    A[1, 0, -1] = np.inf
    U, S, Vh = linalg.svd(torch.from_numpy(A), full_matrices=False)
    assert is_decomposition(A[0], U[0].numpy(), S[0].numpy(), Vh[0].numpy()) and S[1].isnan().all()
    A[1, 0, -1] = np.nan
    words = r"linalg.svd: \(Batch element 1\): The algorithm failed to converge because the input matrix contained non-finite"
    for call in (linalg.svd, linalg.svdvals, linalg.pinv, lambda x: linalg.matrix_norm(x, 2), linalg.matrix_rank):
        with pytest.raises(linalg.LinAlgError, match=words):
            call(torch.from_numpy(A))


def test_empty_batches_and_matrices():
    for shape in ((0, 0), (0, 3), (3, 0), (0, 3, 3), (2, 0, 4), (2, 4, 0), (0, 200, 200)):
        *batch, m, n = shape
        k = min(m, n)
        for full in (False, True):
            U, S, Vh = linalg.svd(torch.zeros(shape), full_matrices=full)
            assert U.shape == (*batch, m, m if full else k) and Vh.shape == (*batch, n if full else k, n)
            assert S.shape == (*batch, k)
        assert linalg.svdvals(torch.zeros(shape)).shape == S.shape
    assert torch.equal(linalg.svd(torch.zeros(2, 3, 0))[0], torch.eye(3).expand(2, 3, 3))
    assert linalg.lstsq(torch.zeros(3, 0), torch.zeros(3, 2)).solution.shape == (0, 2)
    assert linalg.matrix_rank(torch.zeros(2, 0, 3)).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(5, 3), (3, 5), (60, 40), (40, 60)])
def test_least_squares_of_full_rank(dtype, m, n):
    A, B = array(dtype, 2, m, n), array(dtype, 2, m, 3)
    found = linalg.lstsq(torch.from_numpy(A), torch.from_numpy(B), driver="gelsd")
    expected = np.linalg.pinv(A.astype(np.complex128)) @ B
    tolerance = 1e-3 if dtype in ("float32", "complex64") else 1e-10
    assert np.allclose(found.solution.numpy(), expected, atol=tolerance) and found.rank.tolist() == [min(m, n)] * 2
    residuals = np.square(np.abs(A @ expected - B)).sum(-2) if m > n else np.empty(0)
    assert found.residuals.shape == residuals.shape and np.allclose(found.residuals.numpy(), residuals, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(5, 3), (3, 5), (60, 40), (40, 60)])
def test_pseudo_inverses_ranks_and_least_squares(dtype, m, n):
    rank = min(m, n) - 1
    A = array(dtype, 2, m, rank) @ array(dtype, 2, rank, n)
    tolerance = 1e-3 if dtype in ("float32", "complex64") else 1e-10
    given = torch.from_numpy(A)
    P = linalg.pinv(given).numpy()
    for product, goal in ((A @ P @ A, A), (P @ A @ P, P), (adjoint(A @ P), A @ P), (adjoint(P @ A), P @ A)):
        assert np.allclose(product, goal, atol=tolerance * max(1, np.abs(goal).max()))
    assert linalg.matrix_rank(given).tolist() == [rank, rank]
    Q = np.linalg.qr(array(dtype, m, m))[0]
    values = np.where(np.arange(m) % 2, -1.0, 2.0) * (np.arange(m) < rank)
    H = torch.from_numpy((Q * values @ adjoint(Q)).astype(dtype))
    inverse = Q * np.where(values, 1 / np.where(values, values, 1), 0) @ adjoint(Q)
    assert np.allclose(linalg.pinv(H, hermitian=True).numpy(), inverse, atol=tolerance)
    assert linalg.matrix_rank(H, hermitian=True).item() == min(rank, m)
    B = array(dtype, 2, m, 2)
    made = linalg.lstsq(given, torch.from_numpy(B))
    assert np.allclose(made.solution.numpy(), P @ B, atol=tolerance * max(1, np.abs(P @ B).max()))
    assert made.rank.tolist() == [rank, rank]
    assert made.solution.stride()[-2:] == (1, max(m, n))


def test_tolerances_may_be_tensors():
    A = torch.diag_embed(torch.tensor([[4.0, 2.0, 1.0], [4.0, 2.0, 1.0]]))
    assert linalg.matrix_rank(A, atol=torch.tensor([1.5, 3.0])).tolist() == [2, 1]
    assert linalg.matrix_rank(A, rtol=torch.tensor([0.3, 0.1])).tolist() == [2, 3]
    assert linalg.matrix_rank(A, atol=torch.tensor([0.0, 1.5]), rtol=0.6).tolist() == [1, 1]
    assert linalg.pinv(A, atol=torch.tensor([1.5, 3.0])).diagonal(0, -2, -1).tolist() == [[0.25, 0.5, 0.0], [0.25, 0.0, 0.0]]


def test_any_number_of_threads():
    threads = torch.get_num_threads()
    A = array("float64", 2, 250, 230)
    try:
        for count in (1, 2, 7):
            torch.set_num_threads(count)
            U, S, Vh = linalg.svd(torch.from_numpy(A))
            assert is_decomposition(A, U.numpy(), S.numpy(), Vh.numpy())
    finally:
        torch.set_num_threads(threads)
