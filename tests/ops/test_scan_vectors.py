"""Running extremes and logarithms of sums, which are found a vector at a time, at every length around a vector's."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch


def running(row, largest):
    """(values, indices) as PyTorch has them: the last of equals, and NaN from the first one on, the last of which counts."""
    values, indices, at = [], [], 0
    for i, x in enumerate(row):
        best = row[at]
        if x != x or (best == best and (x >= best if largest else x <= best)):
            at = i
        values.append(row[at])
        indices.append(at)
    return values, indices


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 17, 40])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes(name, length, dtype):
    rng = np.random.default_rng(length)
    x = rng.integers(0, 6, (4, length)).astype(dtype)
    if dtype.startswith("float"):
        x[1][rng.random(length) < 0.2] = np.nan
        x[2][rng.random(length) < 0.3] = -np.inf
    x[3].sort()
    want = [running(row, name == "cummax") for row in x]
    for tensor in (torch.tensor(x), torch.tensor(np.repeat(x, 2, 1))[:, ::2]):
        values, indices = getattr(torch, name)(tensor, 1)
        np.testing.assert_array_equal(values.numpy(), np.array([v for v, _ in want]))
        np.testing.assert_array_equal(indices.numpy(), np.array([i for _, i in want]))


@pytest.mark.parametrize("length", [1, 8, 15, 16, 17, 300])
def test_logcumsumexp(length):
    x = np.random.default_rng(length).standard_normal((4, length)) * 30
    x[1, : length // 2] = -np.inf
    x[2, length // 2] = np.inf
    x[3, length // 3] = np.nan
    with np.errstate(invalid="ignore"):
        want = np.logaddexp.accumulate(x, 1)
    np.testing.assert_allclose(torch.logcumsumexp(torch.tensor(x), 1).numpy(), want, rtol=1e-13)
    np.testing.assert_allclose(torch.logcumsumexp(torch.tensor(x.T.copy()), 0).numpy().T, want, rtol=1e-13)
    np.testing.assert_allclose(torch.logcumsumexp(torch.tensor(x).float(), 1).numpy(), want, rtol=1e-5)


def test_logcumsumexp_of_complex_numbers():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((3, 6)) * 3 + 1j * rng.uniform(-1, 1, (3, 6)))
    np.testing.assert_allclose(x.logcumsumexp(1).exp().numpy(), np.exp(x.numpy()).cumsum(1), rtol=1e-12)
    assert torch.isfinite(torch.view_as_real((x + 1000).logcumsumexp(1))).all()
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: x.logcumsumexp(1), x)
    assert torch.autograd.gradgradcheck(lambda x: x.logcumsumexp(0), x)
