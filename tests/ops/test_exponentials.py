"""What softmax and gelu make of exponentials: special values, results that vanish, accuracy over the whole range."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn import functional as F

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("size", [5, 40, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softmax_of_rows_with_special_values(size, dtype):
    for at, value in enumerate((NAN, INF)):
        x = torch.zeros(2, size, dtype=dtype)
        x[0, size - 1 - at] = value
        for result in (x.softmax(1), x.log_softmax(1)):
            assert result[0].isnan().all() and not result[1].isnan().any()
    x = torch.full((2, size), -INF, dtype=dtype)
    x[1, 2] = -3.0
    result, log = x.softmax(1), x.log_softmax(1)
    assert result[0].isnan().all() and log[0].isnan().all()
    assert result[1].tolist() == [float(i == 2) for i in range(size)]  # exactly 0 where the logit is -inf
    assert log[1].tolist() == [0.0 if i == 2 else -INF for i in range(size)]


def test_softmax_of_distant_scores():
    x = np.array([[0, -50, -87, -88, -100, -1e30], [1e30, 1e30, 0, -1e30, -3e38, 3e38]])
    shifted = np.exp(x - x.max(1, keepdims=True))
    result = torch.tensor(x, dtype=torch.float32).softmax(1)
    np.testing.assert_allclose(result.numpy(), shifted / shifted.sum(1, keepdims=True), rtol=1e-5, atol=2e-38)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gelu_over_its_range(dtype):
    x = np.linspace(-12, 12, 4001)
    x = x.astype(np.float32).astype(np.float64)
    wanted = np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x])
    leaf = torch.tensor(x, dtype=dtype, requires_grad=True)
    made = F.gelu(leaf)
    tolerance = 1e-7 if dtype is torch.float32 else 1e-15
    np.testing.assert_allclose(made.detach().numpy(), wanted, rtol=4 * tolerance, atol=2 * tolerance)
    made.sum().backward()
    slope = [0.5 * math.erfc(-v / math.sqrt(2)) + v * math.exp(-v * v / 2) / math.sqrt(2 * math.pi) for v in x]
    np.testing.assert_allclose(leaf.grad.numpy(), slope, rtol=4 * tolerance, atol=4 * tolerance)


def test_gelu_of_special_values():
    made = F.gelu(torch.tensor([INF, -INF, NAN, 0.0, -0.0, 40.0, -40.0])).tolist()
    assert made[0] == INF and math.isnan(made[1]) and math.isnan(made[2])
    assert [math.copysign(1, v) for v in made[3:]] == [1, -1, 1, -1] and made[3:] == [0, 0, 40, 0]
