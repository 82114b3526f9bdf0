"""The compiled factorizations: backward errors of a few units in the last place at every size that takes another way, however the
matrices lie and are scaled; LAPACK's pivots, signs and infos; refusals of operands that don't fit.
"""

from __future__ import annotations

import numpy as np
import pytest
from matrices import layouts

import flambeau as torch
from flambeau import linalg

DTYPES = ("float32", "float64", "complex64", "complex128")
SIZES = (0, 1, 2, 3, 8, 17, 33, 65, 130, 200)  # up to 16: without blocks; from 96, 128, 160 on: in phases
BATCHES = ((), (3,), (2, 2))
generator = np.random.default_rng(3)


def array(dtype, *shape):
    made = generator.standard_normal(shape)
    return (made + 1j * generator.standard_normal(shape) if dtype[0] == "c" else made).astype(dtype)


def small(difference, scale, dtype, n):
    """Whether a difference is a few units in the last place of numbers of that scale, for sums of n."""
    unit = np.finfo(dtype).eps * max(np.abs(x).max(initial=0) for x in scale)
    return np.abs(difference).max(initial=0) <= 20 * max(n, 1) * unit


def batches(n):
    return BATCHES if n <= 33 else BATCHES[:1]


def adjoint(x):
    return x.swapaxes(-2, -1).conj()


def eye(n):
    return np.eye(n, dtype=np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_lu_systems_and_inverses(dtype, n):
    for batch in batches(n):
        values, right, left = array(dtype, *batch, n, n), array(dtype, *batch, n, 5), array(dtype, *batch, 3, n)
        B, C = torch.from_numpy(right), torch.from_numpy(left).mT.contiguous().mT
        for A in layouts(values):
            P, L, U = (x.numpy() for x in linalg.lu(A))
            assert small(P @ L @ U - values, [values], dtype, n)
            assert np.all(np.abs(L) <= (1 if dtype[0] == "f" else 1.5))  # pivots are the largest in their columns
            X = linalg.solve(A, B).numpy()
            assert small(values @ X - right, [right, np.abs(values).max(initial=0) * np.abs(X)], dtype, n)
            Y = linalg.solve(A, C, left=False).numpy()
            assert small(Y @ values - left, [left, np.abs(values).max(initial=0) * np.abs(Y)], dtype, n)
            inverse = linalg.inv(A).numpy()
            assert small(values @ inverse - eye(n), [eye(n), 3 * np.abs(values).max(initial=0) * np.abs(inverse)], dtype, n)
        LU, pivots = linalg.lu_factor(A)
        assert LU.stride()[-2:] == (1, max(n, 1)) and pivots.dtype is torch.int32
        for adjoined in (False, True):
            matrix = adjoint(values) if adjoined else values
            X = linalg.lu_solve(LU, pivots, B, adjoint=adjoined).numpy()
            assert small(matrix @ X - right, [right, np.abs(values).max(initial=0) * np.abs(X)], dtype, n)
            Y = linalg.lu_solve(LU, pivots, C, left=False, adjoint=adjoined).numpy()
            assert small(Y @ matrix - left, [left, np.abs(values).max(initial=0) * np.abs(Y)], dtype, n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(5, 9), (9, 5), (40, 70), (70, 40), (130, 170), (170, 130), (0, 3), (3, 0)])
def test_lu_and_qr_of_matrices_that_are_not_square(dtype, m, n):
    values = array(dtype, 2, m, n)
    for A in layouts(values):
        P, L, U = (x.numpy() for x in linalg.lu(A))
        assert small(P @ L @ U - values, [values], dtype, max(m, n))
        for mode in ("reduced", "complete"):
            Q, R = (x.numpy() for x in linalg.qr(A, mode))
            k = m if mode == "complete" else min(m, n)
            assert Q.shape == (2, m, k) and R.shape == (2, k, n)
            assert small(Q @ R - values, [values], dtype, max(m, n)) and small(adjoint(Q) @ Q - eye(k), [eye(1)], dtype, m)
            assert not np.tril(R, -1).any()


def test_determinants_are_products_of_pivots():
    for dtype in DTYPES:
        for n in (0, 1, 2, 3, 8, 40):
            values = array(dtype, 3, n, n) / max(n, 1) ** 0.5
            expected = np.linalg.det(values.astype(np.complex128))
            assert np.allclose(linalg.det(torch.from_numpy(values)).numpy(), expected, rtol=1e-3)
            sign, size = linalg.slogdet(torch.from_numpy(values))
            assert np.allclose(sign.numpy() * np.exp(size.numpy()), expected, rtol=1e-3)
    assert linalg.slogdet(torch.zeros(2, 2)) == (torch.tensor(0.0), torch.tensor(-np.inf))
    # whose product leaves the range
    assert abs(linalg.slogdet(torch.eye(200) * 1e-3).logabsdet.item() - 200 * np.log(1e-3)) < 1e-2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky_reads_one_triangle(dtype, n):
    for batch in batches(n):
        root = array(dtype, *batch, n, n)
        values = root @ adjoint(root) + eye(n)
        for upper in (False, True):
            half = np.triu(values) if upper else np.tril(values)
            half[..., ~(np.triu if upper else np.tril)(np.ones((n, n), bool))] = np.nan
            for A in layouts(half):
                factor = linalg.cholesky(A, upper=upper)
                L = adjoint(factor.numpy()) if upper else factor.numpy()
                assert small(L @ adjoint(L) - values, [values], dtype, n) and not np.triu(L, 1).any()
            right = array(dtype, *batch, n, 3)
            X = torch.cholesky_solve(torch.from_numpy(right), factor, upper=upper).numpy()
            assert small(values @ X - right, [right, np.abs(values).max(initial=0) * np.abs(X)], dtype, n)
            inverse = torch.cholesky_inverse(factor, upper=upper).numpy()
            assert small(values @ inverse - eye(n), [eye(n), 3 * np.abs(values).max(initial=0) * np.abs(inverse)], dtype, n)


@pytest.mark.parametrize("n, k", [(3, 1), (8, 8), (40, 20), (200, 1), (200, 150), (200, 200)])
def test_cholesky_tells_the_first_minor_that_fails(n, k):
    signs = np.ones(n)
    signs[k - 1] = -1
    lower = np.tril(generator.standard_normal((n, n)), -1) * 0.1 + np.eye(n)
    A = torch.from_numpy(lower * signs @ lower.T)
    assert linalg.cholesky_ex(A).info.item() == k
    with pytest.raises(linalg.LinAlgError, match=rf"\(Batch element 1\).*leading minor of order {k} is not"):
        linalg.cholesky(torch.stack([torch.eye(n, dtype=A.dtype), A]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES[1:])
def test_qr_has_lapacks_signs_at_every_scale(dtype, n):
    values = array(dtype, n, n)
    least, most = (1e-30, 1e30) if dtype in ("float32", "complex64") else (1e-200, 1e200)
    diagonal = np.diagonal(np.linalg.qr(values, "r")) if n <= 17 else None
    for scale in (1, least, most):
        scaled = (values * scale).astype(dtype)
        for A in layouts(scaled):
            Q, R = (x.numpy() for x in linalg.qr(A))
            assert small(Q @ (R / scale) - values, [values], dtype, n) and small(adjoint(Q) @ Q - eye(n), [eye(n)], dtype, n)
            assert diagonal is None or np.allclose(np.diagonal(R) / scale, diagonal, atol=1e-3)
    a, tau = torch.geqrf(A)
    assert np.allclose(torch.orgqr(a, tau).numpy(), Q, atol=1e-4)
    right = array(dtype, n, 4)
    for adjoined in (False, True):
        product = torch.ormqr(a, tau, torch.from_numpy(right), transpose=adjoined).numpy()
        assert np.allclose(product, (adjoint(Q) if adjoined else Q) @ right, atol=1e-3)


def test_qr_of_dependent_and_zero_columns():
    values = array("float64", 20, 6)
    values[:, 2], values[:, 4] = values[:, 1], 0
    Q, R = linalg.qr(torch.from_numpy(values))
    assert torch.allclose(Q @ R, torch.from_numpy(values)) and torch.allclose(Q.mT @ Q, torch.eye(6, dtype=Q.dtype))
    a, tau = torch.geqrf(torch.zeros(3, 3))
    assert not a.any() and not tau.any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_triangular_systems_read_one_triangle(dtype, n):
    for batch in batches(n):
        values = array(dtype, *batch, n, n) / max(n, 1) + 2 * eye(n)
        right, left = array(dtype, *batch, n, 40), array(dtype, *batch, 7, n)
        for upper in (False, True):
            for unit in (False, True):
                keep = (np.triu if upper else np.tril)(np.ones((n, n), bool), (1 if upper else -1) if unit else 0)
                exact = np.where(keep, values, 0) + (eye(n) if unit else 0)
                for A in layouts(np.where(keep, values, np.nan).astype(dtype)):
                    X = linalg.solve_triangular(A, torch.from_numpy(right), upper=upper, unitriangular=unit).numpy()
                    assert small(exact @ X - right, [right, X], dtype, n)
                    Y = linalg.solve_triangular(A, torch.from_numpy(left), upper=upper, left=False, unitriangular=unit).numpy()
                    assert small(Y @ exact - left, [left, Y], dtype, n)


def test_badly_scaled_and_ill_conditioned_systems_have_small_residuals():
    n = 40
    hilbert = 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0)
    for values in (hilbert, array("float64", n, n) * np.logspace(-150, 150, n)):
        right = values @ np.ones((n, 2))
        X = linalg.solve_ex(torch.from_numpy(values), torch.from_numpy(right))[0].numpy()
        residual = np.abs(values @ X - right)
        assert np.all(residual <= 1e3 * np.finfo(float).eps * (np.abs(values) @ np.abs(X) + np.abs(right)))
    # a pivot whose reciprocal is not finite is divided by
    LU = linalg.lu_factor(torch.tensor([[1e-310, 0.0], [1e-310, 1e-310]], dtype=torch.float64))[0]
    assert LU.tolist() == [[1e-310, 0.0], [1.0, 1e-310]]


def test_infinities_and_nan_stay_where_lapack_leaves_them():
    LU, pivots, info = linalg.lu_factor_ex(torch.tensor([[1.0, np.inf], [2, 3]]))
    assert LU.tolist() == [[2.0, 3.0], [0.5, np.inf]] and pivots.tolist() == [2, 2] and not info
    LU, pivots, info = linalg.lu_factor_ex(torch.tensor([[np.nan, 1.0], [2, 3]]))
    assert pivots.tolist() == [1, 2] and LU.isnan().tolist() == [[True, False], [True, True]] and not info


def test_batches_broadcast_without_being_even():
    A, B = array("float64", 2, 1, 3, 3), array("float64", 4, 3, 2)
    expected = np.linalg.solve(A, np.broadcast_to(B, (2, 4, 3, 2)))
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    assert np.allclose(linalg.solve(a, b).numpy(), expected)
    assert np.allclose(linalg.lu_solve(*linalg.lu_factor(a), b).numpy(), expected)
    crossed = array("float64", 3, 2, 4, 4)
    X = linalg.inv(torch.from_numpy(crossed).permute(1, 0, 3, 2)).numpy()
    assert np.allclose(X, np.linalg.inv(crossed.transpose(1, 0, 3, 2)))


REFUSED = {
    "cholesky_solve dtypes": (
        lambda: torch.cholesky_solve(torch.ones(2, 2), torch.ones(2, 2).double()),
        "found b of type Float and A of type Double",
    ),
    "cholesky_solve sizes": (
        lambda: torch.cholesky_solve(torch.ones(2, 2), torch.ones(3, 3)),
        "each A matrix is 3 by 3 but each b matrix is 2 by 2",
    ),
    "ormqr rows": (
        lambda: torch.ormqr(torch.ones(3, 2), torch.ones(2), torch.ones(2, 2)),
        r"other.shape\[-2\] must be equal to input.shape\[-2\]",
    ),
    "ormqr factors": (lambda: torch.ormqr(torch.ones(3, 2), torch.ones(3), torch.ones(3, 2)), "must be equal to min"),
    "orgqr batch": (lambda: torch.orgqr(torch.ones(2, 2, 2), torch.ones(3, 2)), "Expected batch dimensions of tau"),
    "lu_solve type": (lambda: linalg.lu_solve(torch.eye(2), torch.tensor([1, 2]), torch.ones(2, 2)), "scalar type torch.int32"),
    "lu_solve pivots": (
        lambda: linalg.lu_solve(torch.eye(2), torch.ones(1, dtype=torch.int32), torch.ones(2, 2)),
        "Number of pivots per batch",
    ),
    "geqrf half": (lambda: torch.geqrf(torch.ones(2, 2).half()), "\"geqrf_cpu\" not implemented for 'Half'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operands_that_do_not_fit_are_refused(name):
    call, words = REFUSED[name]
    with pytest.raises(RuntimeError, match=words):
        call()


def test_fewer_matrices_than_threads():
    threads = torch.get_num_threads()
    values = array("float64", 2, 90, 90)
    try:
        torch.set_num_threads(7)
        for _ in range(20):
            A = torch.from_numpy(values)
            assert torch.allclose(A @ linalg.inv(A), torch.eye(90, dtype=A.dtype), atol=1e-8)
            Q, R = linalg.qr(A)
            assert torch.allclose(Q @ R, A)
    finally:
        torch.set_num_threads(threads)
