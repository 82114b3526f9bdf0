"""The compiled eigenvalue decompositions: residuals and orthogonality of a few units in the last place at every size that takes
another way, for every kind of spectrum, scale and layout; NaN where the input has it.
"""

from __future__ import annotations

import numpy as np
import pytest
from matrices import layouts

import flambeau as torch
from flambeau import linalg

DTYPES = ("float32", "float64", "complex64", "complex128")
SIZES = (1, 2, 3, 5, 8, 17, 33, 65, 130, 310)  # up to 16: reflectors one by one; from 96 on: in phases, 256 in blocks
generator = np.random.default_rng(5)


def array(dtype, *shape):
    made = generator.standard_normal(shape)
    return (made + 1j * generator.standard_normal(shape) if dtype[0] == "c" else made).astype(dtype)


def adjoint(x):
    return x.swapaxes(-2, -1).conj()


def hermitian(dtype, *shape):
    x = array(dtype, *shape)
    return x + adjoint(x)


def is_decomposition(A, values, vectors):
    """Whether A V = V diag(values) with orthonormal V and ascending values, to a few units in the last place."""
    n, epsilon = A.shape[-1], np.finfo(A.dtype).eps
    scale = np.abs(A).max(initial=0) or 1
    A, values = A.astype(np.complex128) / scale, values.astype(float) / scale
    residual = np.abs(A @ vectors - vectors * values[..., None, :]).max(initial=0)
    angles = np.abs(adjoint(vectors.astype(np.complex128)) @ vectors - np.eye(n)).max(initial=0)
    return residual <= 10 * (n + 2) * epsilon and angles <= 5 * (n + 2) * epsilon and np.all(np.diff(values) >= 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_hermitian_matrices(dtype, n):
    for batch in ((), (3,), (2, 5)) if n <= 33 else ((), (2,)) if n <= 130 else ((),):
        A = hermitian(dtype, *batch, n, n)
        for triangle in "LU":
            half = (np.tril if triangle == "L" else np.triu)(A)
            half[..., ~(np.tril if triangle == "L" else np.triu)(np.ones((n, n), bool))] = np.nan
            if dtype[0] == "c":
                half[..., range(n), range(n)] += 5j  # nobody reads it
            for given in layouts(half) if n <= 130 else [torch.from_numpy(half)]:
                values, vectors = linalg.eigh(given, triangle)
                assert is_decomposition(A, values.numpy(), vectors.numpy())
                alone = linalg.eigvalsh(given, UPLO=triangle).numpy()
                assert np.allclose(alone, values.numpy(), atol=10 * (n + 2) * np.finfo(dtype).eps * np.abs(A).max())
        assert vectors.stride()[-2:] == (1, n) and values.numpy().dtype == A.real.dtype


def spectra(n):
    """Matrices whose eigenvalues, or whose elements, are of unlike kinds."""
    Q = np.linalg.qr(generator.standard_normal((n, n)))[0]

    def with_values(values):
        made = Q * values @ Q.T
        return (made + made.T) / 2

    yield "zero", np.zeros((n, n))
    yield "identity", np.eye(n) * 3
    yield "rank one", np.outer(Q[0], Q[0])
    yield "clustered", with_values(np.where(np.arange(n) < n // 2, 1, 1 + 1e-9 * np.arange(n)))
    yield "signs", with_values(np.where(np.arange(n) % 2, 1.0, -1.0))
    yield "geometric", with_values(2.0 ** -np.arange(n))
    yield "graded", (Q + Q.T) * np.logspace(0, -12, n) * np.logspace(0, -12, n)[:, None]
    yield "graded upwards", (Q + Q.T) * np.logspace(-12, 0, n) * np.logspace(-12, 0, n)[:, None]
    yield "tridiagonal", 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    yield "wilkinson", np.diag(np.abs(np.arange(n) - n // 2) * 1.0) + np.eye(n, k=1) + np.eye(n, k=-1)
    yield "blocks", np.kron(np.eye(n // 2 + 1), np.ones((2, 2)))[:n, :n]
    yield "arrow", np.diag(np.arange(n) * 1.0) + np.eye(1, n).T @ np.ones((1, n)) + np.ones((n, 1)) @ np.eye(1, n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", (4, 40, 150))
def test_every_kind_of_spectrum_at_every_scale(dtype, n):
    least, most = (1e-38, 1e37) if dtype in ("float32", "complex64") else (1e-300, 1e300)
    for name, made in spectra(n):
        for scale in (1, least, most):
            A = (made / max(np.abs(made).max(), 1e-300) * scale).astype(dtype)
            values, vectors = linalg.eigh(torch.from_numpy(A))
            assert is_decomposition(A, values.numpy(), vectors.numpy()), (name, scale)
            alone = linalg.eigvalsh(torch.from_numpy(A)).numpy()
            assert np.abs(alone / scale - values.numpy() / scale).max() <= 10 * n * np.finfo(dtype).eps, (name, scale)


def test_small_eigenvalues_of_a_graded_matrix_keep_their_digits():
    A = np.diag([1e-12, 1e-6, 1.0]) + 1e-13 * np.eye(3, k=1) + 1e-13 * np.eye(3, k=-1)
    assert abs(linalg.eigvalsh(torch.from_numpy(A))[0].item() / 1e-12 - 1) < 1e-6


@pytest.mark.parametrize("n", (3, 20, 140))
def test_nan_and_infinities_give_nan_in_their_matrix_only(n):
    for strange in (np.nan, np.inf):
        A = hermitian("float64", 2, n, n)
        A[1, n - 1, 0] = strange
        values, vectors = linalg.eigh(torch.from_numpy(A))
        assert is_decomposition(A[0], values[0].numpy(), vectors[0].numpy())
        assert values[1].isnan().all() and linalg.eigvalsh(torch.from_numpy(A))[1].isnan().all()


def test_empty_batches_and_matrices():
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0), (0, 200, 200)):
        values, vectors = linalg.eigh(torch.zeros(shape))
        assert values.shape == shape[:-1] and vectors.shape == shape and linalg.eigvalsh(torch.zeros(shape)).shape == shape[:-1]


def test_any_number_of_threads():
    threads = torch.get_num_threads()
    A = hermitian("float64", 2, 300, 300)
    try:
        for count in (1, 2, 7):
            torch.set_num_threads(count)
            values, vectors = linalg.eigh(torch.from_numpy(A))
            assert is_decomposition(A, values.numpy(), vectors.numpy())
    finally:
        torch.set_num_threads(threads)


def test_a_triangle_has_a_name():
    with pytest.raises(RuntimeError, match="Expected UPLO argument to be 'L' or 'U', but got X"):
        linalg.eigh(torch.eye(2), "X")
