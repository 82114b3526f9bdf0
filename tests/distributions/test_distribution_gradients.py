"""Gradients of samples and log densities by the parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from distribution_cases import t
from quadrature import integral

import flambeau as torch
from flambeau import distributions as D


def gamma_cdf(a: float, x: float) -> float:
    return float(torch.special.gammainc(t(a), t(x)))


@pytest.mark.parametrize(
    "a, x", [(0.3, 1e-4), (0.3, 0.4), (0.7, 2.5), (1.0, 1.0), (3.5, 1.2), (3.5, 9.0), (40.0, 38.0), (40.0, 60.0)]
)
def test_gamma_samples_move_along_their_cdf(a: float, x: float) -> None:
    """dx/da = -(dP/da) / density, with dP/da by central differences."""
    step = 1e-4 * a
    slope = (gamma_cdf(a + step, x) - gamma_cdf(a - step, x)) / (2 * step)
    density = math.exp((a - 1) * math.log(x) - x - math.lgamma(a))
    assert float(torch._standard_gamma_grad(t(a), t(x))) == pytest.approx(-slope / density, rel=1e-5)


@pytest.mark.parametrize(
    "a, b, x",
    [
        (0.4, 0.6, 1e-3),
        (0.4, 0.6, 0.7),
        (0.5, 4.0, 0.3),
        (3.0, 0.5, 0.999),
        (2.0, 3.0, 0.4),
        (30.0, 50.0, 0.3),
        (30.0, 50.0, 0.5),
    ],
)
def test_dirichlet_samples_move_along_their_cdf(a: float, b: float, x: float) -> None:
    """dx/da of beta samples is the same quotient; the operator divides it by 1 - x, the others' share."""

    def density(y: torch.Tensor, a: float) -> torch.Tensor:
        log = (a - 1) * y.log() + (b - 1) * (-y).log1p() - math.lgamma(a) - math.lgamma(b) + math.lgamma(a + b)
        return log.exp()

    step = 1e-4 * a
    slope = (integral(lambda y: density(y, a + step), 0, x) - integral(lambda y: density(y, a - step), 0, x)) / (2 * step)
    wanted = -slope / float(density(t(x), a)) / (1 - x)
    assert float(torch._dirichlet_grad(t(x), t(a), t(a + b))) == pytest.approx(wanted, rel=1e-5)


def test_exact_slopes() -> None:
    """Of shape 1 the gamma distribution is exponential; Beta(a, 1) has the cdf x^a, so dx/da = -x log(x) / a."""
    x, a = t([1e-6, 0.2, 0.9]), t([0.05, 1.0, 7.0])
    torch.testing.assert_close(torch._dirichlet_grad(x, a, a + 1), -x * x.log() / a / (1 - x), rtol=1e-8, atol=0)
    tiny = t([1e-250, 1e-30])  # x^a / gamma(a + 1) below
    wanted = -tiny * (tiny.log() - torch.digamma(t(1.01))) / 0.01
    torch.testing.assert_close(torch._standard_gamma_grad(t([0.01, 0.01]), tiny), wanted, rtol=1e-8, atol=0)


def test_slopes_of_extreme_parameters_are_finite_and_positive() -> None:
    a = t(np.exp(np.linspace(math.log(1e-3), math.log(1e6), 60)))
    for dtype in (torch.float32, torch.float64):
        samples = torch._standard_gamma(a.to(dtype))
        assert (torch._standard_gamma_grad(a.to(dtype), samples) > 0).all()
        pairs = torch.stack([a, a.flip(0)], -1).to(dtype)
        shares = torch._sample_dirichlet(pairs)
        slopes = torch._dirichlet_grad(shares, pairs, pairs.sum(-1, True).expand_as(pairs))
        assert (slopes > 0).all() and torch.isfinite(slopes).all()


def test_the_mean_of_dirichlet_samples_has_the_gradient_of_the_mean() -> None:
    concentration = t([0.8, 2.0, 3.0]).requires_grad_()
    d = D.Dirichlet(concentration)
    weights = t([1.0, -2.0, 0.5])
    (drawn,) = torch.autograd.grad((d.rsample((6000,)) @ weights).mean(), concentration)
    (exact,) = torch.autograd.grad(d.mean @ weights, concentration)
    torch.testing.assert_close(drawn, exact, atol=0.02, rtol=0)


REPARAMETERISED: list[tuple[Any, list[float]]] = [
    (D.Normal, [0.5, 1.5]),
    (D.Laplace, [0.5, 1.5]),
    (D.Cauchy, [0.5, 1.5]),
    (D.Gumbel, [0.5, 1.5]),
    (D.LogNormal, [0.5, 0.5]),
    (D.Uniform, [0.5, 1.5]),
    (D.Exponential, [1.5]),
    (D.HalfNormal, [1.5]),
    (D.HalfCauchy, [1.5]),
    (D.Pareto, [1.5, 2.0]),
    (D.Weibull, [1.5, 2.0]),
    (D.Kumaraswamy, [1.5, 2.0]),
    (D.GeneralizedPareto, [0.5, 1.5, 0.3]),
    (D.ContinuousBernoulli, [0.3]),
]


@pytest.mark.parametrize("kind, parameters", REPARAMETERISED, ids=[kind.__name__ for kind, _ in REPARAMETERISED])
def test_samples_are_differentiable_functions_of_the_parameters(kind: Any, parameters: list[float]) -> None:
    def draw(*values: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return kind(*values).rsample((5,))

    inputs = [t(p).requires_grad_() for p in parameters]
    assert torch.autograd.gradcheck(draw, inputs, atol=1e-5)


LOG_DENSITIES: list[tuple[Any, list[float], float]] = [
    *((kind, parameters, 0.6) for kind, parameters in REPARAMETERISED if kind is not D.Pareto),
    (D.Pareto, [1.5, 2.0], 2.5),
    (D.Gamma, [0.7, 1.5], 0.6),
    (D.Beta, [0.7, 1.5], 0.6),
    (D.StudentT, [3.0, 0.5, 1.5], 0.6),
    (D.FisherSnedecor, [3.0, 5.0], 0.6),
    (D.InverseGamma, [3.0, 5.0], 0.6),
    (D.VonMises, [0.5, 2.0], 0.6),
    (D.Poisson, [2.5], 3.0),
    (D.Geometric, [0.3], 3.0),
    (D.NegativeBinomial, [2.5, 0.3], 3.0),
    (D.Bernoulli, [0.3], 1.0),
]


@pytest.mark.parametrize("kind, parameters, value", LOG_DENSITIES, ids=[case[0].__name__ for case in LOG_DENSITIES])
def test_log_densities_are_differentiable(kind: Any, parameters: list[float], value: float) -> None:
    inputs = [t(p).requires_grad_() for p in parameters]
    assert torch.autograd.gradcheck(lambda *values: kind(*values).log_prob(t(value)), inputs)


def test_multivariate_log_densities_are_differentiable() -> None:
    loc, root = t([0.5, -1.0]).requires_grad_(), t([[1.5, 0.0], [0.4, 0.8]]).requires_grad_()
    x = t([0.3, 0.7])
    assert torch.autograd.gradcheck(lambda m, r: D.MultivariateNormal(m, scale_tril=r.tril()).log_prob(x), [loc, root])
    assert torch.autograd.gradcheck(lambda m, r: D.MultivariateNormal(m, r.tril() @ r.tril().mT).log_prob(x), [loc, root])
    assert torch.autograd.gradcheck(
        lambda m, w, d: D.LowRankMultivariateNormal(m, w, d).log_prob(x),
        [loc, root[:, :1].detach().requires_grad_(), root.diag()],
    )
    assert torch.autograd.gradcheck(
        lambda r: D.Wishart(t(4.0), scale_tril=r.tril()).log_prob(t([[2.0, 0.3], [0.3, 1.0]])), [root]
    )


def test_straight_through_samples_have_the_gradient_of_the_probabilities() -> None:
    logits = t([0.1, 0.2, 0.3]).requires_grad_()
    drawn = D.OneHotCategoricalStraightThrough(logits=logits).rsample()
    assert sorted(drawn.detach().round().tolist()) == [0, 0, 1]
    (slope,) = torch.autograd.grad((drawn * t([1.0, 2.0, 3.0])).sum(), logits)
    (wanted,) = torch.autograd.grad((logits.softmax(-1) * t([1.0, 2.0, 3.0])).sum(), logits)
    torch.testing.assert_close(slope, wanted)


def test_parameters_asked_for_without_gradients_still_have_them() -> None:
    probs = t(0.3).requires_grad_()
    d = D.Bernoulli(probs)
    with torch.no_grad():
        d.logits
    assert d.logits.requires_grad


def test_gradients_at_logits_of_zero_and_far_out():
    x = torch.zeros(1, requires_grad=True)
    assert torch.autograd.grad(D.Binomial(1.0, logits=x).log_prob(torch.tensor(0.0)), x)[0].tolist() == [-0.5]
    for logit in (100.0, -100.0):
        x = torch.tensor(logit, requires_grad=True)
        value = D.ContinuousBernoulli(logits=x).log_prob(torch.tensor(0.5))
        assert abs(value.item() + 47.2310) < 1e-3
        assert torch.autograd.grad(value, x)[0].item() == (-0.5 if logit > 0 else 0.5)
