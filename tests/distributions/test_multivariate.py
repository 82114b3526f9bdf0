"""Distributions of vectors and matrices against the densities written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from distribution_cases import t
from quadrature import integral, nodes

import flambeau as torch
from flambeau import distributions as D

COVARIANCE = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 0.7]])
LOC = np.array([0.5, -1.0, 2.0])


def test_the_three_forms_of_a_multivariate_normal() -> None:
    x = np.array([[0.3, 0.2, 1.0], [2.0, -1.0, 0.0]])
    gap = x - LOC
    wanted = -0.5 * (
        (gap @ np.linalg.inv(COVARIANCE) * gap).sum(-1) + 3 * math.log(2 * math.pi) + math.log(np.linalg.det(COVARIANCE))
    )
    forms = {
        "covariance_matrix": COVARIANCE,
        "precision_matrix": np.linalg.inv(COVARIANCE),
        "scale_tril": np.linalg.cholesky(COVARIANCE),
    }
    entropy = 0.5 * (3 * (1 + math.log(2 * math.pi)) + math.log(np.linalg.det(COVARIANCE)))
    for name, matrix in forms.items():
        d = D.MultivariateNormal(t(LOC), **{name: t(matrix)})
        assert d.log_prob(t(x)).numpy() == pytest.approx(wanted)
        for other, value in forms.items():
            assert getattr(d, other).numpy() == pytest.approx(value)
        assert d.variance.numpy() == pytest.approx(np.diag(COVARIANCE)) and d.entropy().item() == pytest.approx(entropy)
        batch = D.MultivariateNormal(t(x), **{name: t(matrix).expand(2, 3, 3)})
        assert batch.log_prob(t(LOC)).numpy() == pytest.approx(wanted)


def test_low_rank_normals_equal_full_ones() -> None:
    w, diag = t([[1.0, 0.2], [0.5, -0.3], [0.1, 2.0]]), t([0.5, 0.7, 0.2])
    low = D.LowRankMultivariateNormal(t(LOC), w, diag)
    full = D.MultivariateNormal(t(LOC), w @ w.T + diag.diag())
    for name in ("covariance_matrix", "precision_matrix", "scale_tril", "variance", "mean", "mode"):
        torch.testing.assert_close(getattr(low, name), getattr(full, name))
    x = t([[0.3, 0.2, 1.0], [2.0, -1.0, 0.0]])
    torch.testing.assert_close(low.log_prob(x), full.log_prob(x))
    torch.testing.assert_close(low.entropy(), full.entropy())


def test_dirichlet_integrates_to_one_over_the_simplex() -> None:
    d = D.Dirichlet(t([0.8, 2.0, 1.5]))
    points, weights = nodes(0, 1)
    inside = (points > 0) & (points < 1) & (weights > 1e-30)
    u, du = points[inside][::4], weights[inside][::4] * 4
    first, second = np.meshgrid(u, u, indexing="ij")  # a stick broken twice
    shares = np.stack([first, (1 - first) * second, (1 - first) * (1 - second)], -1)
    d._validate_args = False
    density = d.log_prob(torch.from_numpy(shares)).exp().numpy() * (1 - first)
    total = np.nansum(density * du[:, None] * du[None, :])
    assert total == pytest.approx(1, abs=1e-6)
    mean = np.nansum((density * du[:, None] * du[None, :])[..., None] * shares, (0, 1))
    assert mean == pytest.approx(d.mean.numpy(), abs=1e-6)
    entropy = -np.nansum(np.where(density > 0, d.log_prob(torch.from_numpy(shares)).numpy(), 0) * density * du[:, None] * du)
    assert d.entropy().item() == pytest.approx(entropy, abs=1e-5)
    assert d.variance[0].item() == pytest.approx(0.8 * 3.5 / (4.3**2 * 5.3))
    assert D.Dirichlet(t([2.0, 3.0])).mode.tolist() == pytest.approx([1 / 3, 2 / 3])


def test_wishart_of_one_dimension_is_a_gamma_distribution() -> None:
    d, same = D.Wishart(t(3.0), t([[2.0]])), D.Gamma(t(1.5), t(0.25))
    x = t([0.5, 3.0])
    torch.testing.assert_close(d.log_prob(x.reshape(2, 1, 1)), same.log_prob(x))
    torch.testing.assert_close(d.entropy(), same.entropy())
    torch.testing.assert_close(d.mean.squeeze(), same.mean)
    torch.testing.assert_close(d.variance.squeeze(), same.variance)


def test_wishart_density_written_out() -> None:
    v, x, df = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[3.0, 0.2], [0.2, 4.0]]), 4.5
    log_gamma = 0.5 * math.log(math.pi) + math.lgamma(df / 2) + math.lgamma(df / 2 - 0.5)
    wanted = (
        (df - 3) / 2 * math.log(np.linalg.det(x))
        - np.trace(np.linalg.inv(v) @ x) / 2
        - df * math.log(2)
        - df / 2 * math.log(np.linalg.det(v))
        - log_gamma
    )
    for name, matrix in (("covariance_matrix", v), ("precision_matrix", np.linalg.inv(v)), ("scale_tril", np.linalg.cholesky(v))):
        d = D.Wishart(t(df), **{name: t(matrix)})
        assert d.log_prob(t(x)).item() == pytest.approx(wanted)
        assert d.mode.numpy() == pytest.approx((df - 3) * v) and d.mean.numpy() == pytest.approx(df * v)
        assert d.variance.numpy() == pytest.approx(df * (v**2 + np.outer(np.diag(v), np.diag(v))))
    torch.testing.assert_close(D.ExponentialFamily.entropy(D.Wishart(t(df), t(v))), D.Wishart(t(df), t(v)).entropy())


@pytest.mark.parametrize("concentration", [0.7, 1.0, 3.0])
def test_lkj_density_of_two_dimensions(concentration: float) -> None:
    """Of the factor's entry r, which is the correlation, the density is proportional to (1 - r^2)^(concentration - 1)."""
    d = D.LKJCholesky(2, t(concentration))

    def density(r: torch.Tensor) -> torch.Tensor:
        rest = ((1 - r) * (1 + r)).clamp(min=1e-300).sqrt()
        zero = torch.zeros_like(r)
        factor = torch.stack([torch.stack([zero + 1, zero], -1), torch.stack([r, rest], -1)], -2)
        d._validate_args = False
        return d.log_prob(factor).exp()

    assert integral(density, -1, 1) == pytest.approx(1, abs=1e-6)
    ratio = (density(t([0.5])) / density(t([0.0]))).item()
    assert ratio == pytest.approx(0.75 ** (concentration - 1))


def test_multinomial_and_relaxed_categories() -> None:
    d = D.Multinomial(4, t([0.2, 0.3, 0.5]))
    counts = [[i, j, 4 - i - j] for i in range(5) for j in range(5 - i)]
    log = d.log_prob(t(counts))
    assert log.exp().sum().item() == pytest.approx(1) and d.entropy().item() == pytest.approx(-(log.exp() * log).sum().item())
    assert d.mean.tolist() == pytest.approx([0.8, 1.2, 2.0]) and d.variance[0].item() == pytest.approx(0.64)
    relaxed = D.RelaxedOneHotCategorical(t(0.7), t([0.3, 0.7]))  # of two categories it is the relaxed Bernoulli distribution
    x = t([0.2, 0.6])
    torch.testing.assert_close(relaxed.log_prob(torch.stack([x, 1 - x], -1)), D.RelaxedBernoulli(t(0.7), t(0.3)).log_prob(x))


def test_mixtures_and_logistic_normals() -> None:
    weights, parts = t([0.3, 0.7]), D.MultivariateNormal(t([[0.0, 1.0], [2.0, 3.0]]), t(np.eye(2)))
    d = D.MixtureSameFamily(D.Categorical(weights), parts)
    x = t([[0.5, 0.5], [2.0, 2.0]])
    torch.testing.assert_close(d.log_prob(x), (parts.log_prob(x.unsqueeze(-2)).exp() @ weights).log())
    torch.testing.assert_close(d.mean, t([1.4, 2.4]))
    torch.testing.assert_close(d.variance, t([1.84, 1.84]))
    one = D.LogisticNormal(t([0.5]), t([1.5]))
    points, du = nodes(0, 1)
    inside = (points > 1e-12) & (points < 1 - 1e-12)
    share = torch.from_numpy(points[inside])
    one._validate_args = False
    assert (one.log_prob(torch.stack([share, 1 - share], -1)).exp().numpy() * du[inside]).sum() == pytest.approx(1, abs=1e-6)
