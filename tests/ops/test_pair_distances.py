"""Distances between all pairs of rows, cdist and pdist, and their gradients, against NumPy and norms of differences."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

ORDERS = [0.0, 0.5, 1.0, 1.7, 2.0, 3.0, math.inf]
DIRECT = "donot_use_mm_for_euclid_dist"


def rows(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def distances(a, b, p):
    apart = abs(a[..., :, None, :] - b[..., None, :, :])
    return (apart != 0).sum(-1) if p == 0 else apart.max(-1) if p == math.inf else (apart**p).sum(-1) ** (1 / p)


def near(made, wanted):
    wanted = np.asarray(wanted)
    tolerance = 2e-6 if made.dtype is torch.float32 else 1e-13
    np.testing.assert_allclose(made.detach().numpy(), wanted, rtol=tolerance, atol=tolerance * abs(wanted).max(initial=0))


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(("n", "m", "k"), [(1, 1, 1), (5, 3, 2), (17, 33, 7), (40, 65, 130)])
def test_values_and_gradients(n, m, k, p):
    a, b = rows(n, k), rows(m, k, seed=1)
    for dtype in (torch.float32, torch.float64):
        x, y = (torch.tensor(v).to(dtype).requires_grad_() for v in (a, b))
        wide = x.detach().double().requires_grad_(), y.detach().double().requires_grad_()
        g = rows(n, m, seed=2)
        made = torch.cdist(x, y, p, compute_mode=DIRECT)
        near(made, distances(*(v.detach().numpy() for v in wide), p))
        near(torch.cdist(x.t().contiguous().t(), y.t().contiguous().t(), p, compute_mode=DIRECT), made.detach().numpy())
        made.backward(torch.tensor(g).to(dtype))
        wanted = torch.linalg.vector_norm(wide[0][:, None] - wide[1], p, -1)
        if p:
            wanted.backward(torch.tensor(g))
        for own, reference in zip((x, y), wide):
            near(own.grad, reference.grad.numpy() if p else np.zeros(own.shape))


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(("n", "k"), [(2, 1), (5, 3), (16, 4), (33, 8), (70, 17)])
def test_pairs_of_one_matrix(n, k, p):
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor(rows(n, k)).to(dtype).requires_grad_()
        made = torch.pdist(x, p)
        wide = x.detach().double().requires_grad_()
        i, j = torch.triu_indices(n, n, 1)
        near(made, distances(*[wide.detach().numpy()] * 2, p)[np.triu_indices(n, 1)])
        near(torch.pdist(x.detach().t().contiguous().t(), p), made.detach().numpy())
        g = rows(made.numel(), seed=3)
        made.backward(torch.tensor(g).to(dtype))
        if p:
            torch.linalg.vector_norm(wide[i] - wide[j], p, -1).backward(torch.tensor(g))
        near(x.grad, wide.grad.numpy() if p else np.zeros((n, k)))


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0])
def test_gradients_of_gradients(p):
    x, y = (torch.tensor(rows(*shape, seed=len(shape)), requires_grad=True) for shape in ((2, 3, 4), (5, 4)))
    for function, given in (
        (lambda a, b: torch.cdist(a, b, p), (x, y)),
        (lambda a: torch.pdist(a, p), (y,)),
        (lambda a, b: torch.cdist(a, b, p, "use_mm_for_euclid_dist"), (x, y)),
    ):
        assert gradcheck(function, given)
        assert gradgradcheck(function, given)


def test_batches_broadcast():
    a, b = rows(2, 1, 4, 3), rows(5, 6, 3, seed=1)
    near(torch.cdist(torch.tensor(a), torch.tensor(b), 1.5), distances(a, b, 1.5))
    near(torch.cdist(torch.tensor(a[0, 0]), torch.tensor(b), 1), distances(a[0, 0], b, 1))


def test_equal_rows_have_no_slope_and_no_number_spreads():
    x = torch.ones(3, 2, requires_grad=True)
    for p in (0.5, 1.0, 1.5, 2.0, 3.0, math.inf):
        assert not torch.autograd.grad(torch.pdist(x, p).sum(), x)[0].any()
    x = torch.tensor([[1.0, math.nan], [1, 3], [1, math.inf], [2, math.inf]])
    for p in ORDERS:
        made = torch.pdist(x, p)
        assert made.isnan().tolist() == [True, True, True, False, False, True], p
    far = torch.tensor([[0.0], [math.inf]], requires_grad=True)
    assert torch.autograd.grad(torch.pdist(far, 1), far, torch.ones(1))[0].tolist() == [[-1.0], [1.0]]


def test_no_rows_and_no_columns():
    assert torch.pdist(torch.ones(1, 3)).shape == torch.pdist(torch.ones(0, 3)).shape == (0,)
    assert torch.pdist(torch.ones(3, 0)).tolist() == [0.0] * 3
    assert torch.cdist(torch.ones(2, 0), torch.ones(3, 0)).tolist() == [[0.0] * 3] * 2
    assert torch.cdist(torch.ones(0, 2), torch.ones(3, 2)).shape == (0, 3)
    assert torch.cdist(torch.ones(0, 4, 2), torch.ones(0, 3, 2)).shape == (0, 4, 3)
    x = torch.ones(3, 0, requires_grad=True)
    torch.pdist(x).sum().backward()
    assert x.grad.shape == (3, 0)


def test_refused():
    for given, error, words in (
        ((torch.ones(3, 3).half(),), NotImplementedError, "\"cdist\" not implemented for 'Half'"),
        ((torch.ones(3, 3).long(),), RuntimeError, "cdist only supports floating-point dtypes, X1 got: Long"),
        ((torch.ones(3, 3), torch.ones(3, 3).double()), RuntimeError, "expected scalar type Float but found Double"),
    ):
        with pytest.raises(error, match=words):
            torch.cdist(given[0], given[-1])
    with pytest.raises(RuntimeError, match="pdist only supports floating-point dtypes"):
        torch.pdist(torch.ones(3, 3).int())
    with pytest.raises(NotImplementedError, match="\"pdist\" not implemented for 'BFloat16'"):
        torch.pdist(torch.ones(3, 3).bfloat16())
    with pytest.raises(RuntimeError, match="non-negative p"):
        torch.pdist(torch.ones(3, 3), -1)


def test_transforms():
    x = torch.tensor(rows(3, 4, 2))
    near(torch.func.vmap(lambda a: torch.pdist(a, 3.0))(x), np.stack([torch.pdist(a, 3.0).numpy() for a in x]))
    near(torch.func.vmap(lambda a: torch.cdist(a, x[0], 1.0))(x), distances(x.numpy(), x[0].numpy(), 1.0))
    slope = torch.func.jvp(lambda a: torch.cdist(a, x[1], 1.5), (x[0],), (torch.ones(4, 2, dtype=torch.float64),))[1]
    step = 1e-6
    rise = torch.cdist(x[0] + step, x[1], 1.5) - torch.cdist(x[0] - step, x[1], 1.5)
    np.testing.assert_allclose(slope.numpy(), rise.numpy() / (2 * step), rtol=1e-6)
