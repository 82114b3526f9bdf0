"""What follows from a density: its integral is one, its moments are the mean and the variance, its primitive is the cdf."""

from __future__ import annotations

import math

import numpy as np
import pytest
from distribution_cases import CONTINUOUS, DISCRETE, make, t
from quadrature import integral

import flambeau as torch

ids = [case[0] for case in CONTINUOUS]
UNDEFINED = ("Cauchy", "HalfCauchy", "RelaxedBernoulli", "VonMises", "TransformedDistribution")
NO_ENTROPY = ("FisherSnedecor", "MixtureSameFamily", "RelaxedBernoulli", "TransformedDistribution", "VonMises")


def named(expression: str, names: tuple[str, ...]) -> bool:
    return expression.partition("(")[0] in names


@pytest.mark.parametrize("expression, low, high", CONTINUOUS, ids=ids)
def test_density_integrates_to_one_with_the_stated_moments(expression: str, low: float, high: float) -> None:
    d = make(expression)
    assert integral(lambda x: d.log_prob(x).exp(), low, high) == pytest.approx(1, abs=1e-6)
    if named(expression, UNDEFINED):
        return
    mean = integral(lambda x: x * d.log_prob(x).exp(), low, high)
    assert float(d.mean) == pytest.approx(mean, abs=1e-6)
    assert float(d.variance) == pytest.approx(integral(lambda x: (x - mean) ** 2 * d.log_prob(x).exp(), low, high), rel=1e-5)
    assert float(d.stddev) == pytest.approx(math.sqrt(d.variance), rel=1e-12)


@pytest.mark.parametrize("expression, low, high", [c for c in CONTINUOUS if not named(c[0], NO_ENTROPY)])
def test_entropy_is_the_mean_of_minus_the_log_density(expression: str, low: float, high: float) -> None:
    d = make(expression)
    wanted = integral(lambda x: -torch.xlogy(d.log_prob(x).exp(), d.log_prob(x).exp()), low, high)
    assert float(d.entropy()) == pytest.approx(wanted, abs=2e-6)
    assert float(d.perplexity()) == pytest.approx(math.exp(wanted), rel=1e-5)


NO_CDF = ("Beta", "FisherSnedecor", "RelaxedBernoulli", "StudentT", "VonMises")
NO_ICDF = ("Chi2", "Gamma", "InverseGamma", "MixtureSameFamily")


@pytest.mark.parametrize("expression, low, high", [c for c in CONTINUOUS if not named(c[0], NO_CDF)])
def test_cdf_is_the_primitive_of_the_density(expression: str, low: float, high: float) -> None:
    d = make(expression)
    inverse = not named(expression, NO_ICDF)
    x = (d.icdf(t([0.1, 0.4, 0.8])) if inverse else t([0.6, 0.7, 0.9])).detach().requires_grad_()
    probability = d.cdf(x)
    (slope,) = torch.autograd.grad(probability.sum(), x)
    series = expression == "ContinuousBernoulli(t(0.5003))"  # about 1/2 the cdf is taken for the uniform distribution's
    assert slope.numpy() == pytest.approx(d.log_prob(x).exp().detach().numpy(), rel=1e-3 if series else 1e-7)
    assert float(probability[1]) == pytest.approx(
        integral(lambda y: d.log_prob(y).exp(), low, float(x[1]))
        if math.isfinite(low)
        else 1 - integral(lambda y: d.log_prob(y).exp(), float(x[1]), high),
        abs=1e-3 if series else 1e-6,
    )
    if inverse:
        assert probability.detach().numpy() == pytest.approx([0.1, 0.4, 0.8], abs=1e-9)


MODES = (
    "Normal",
    "Laplace",
    "Gumbel",
    "StudentT",
    "LogNormal",
    "InverseGamma",
    "Chi2",
    "FisherSnedecor",
    "Weibull",
    "Kumaraswamy",
    "VonMises",
)


@pytest.mark.parametrize("expression", [c[0] for c in CONTINUOUS if named(c[0], MODES)])
def test_no_density_is_greater_than_that_of_the_mode(expression: str) -> None:
    d = make(expression)
    around = d.mode + t([-0.01, 0.0, 0.01])
    density = d.log_prob(around)
    assert density[1] > density[0] and density[1] > density[2]


@pytest.mark.parametrize("expression, last", DISCRETE)
def test_probabilities_sum_to_one_with_the_stated_moments(expression: str, last: int) -> None:
    d = make(expression)
    k = np.arange(last + 1.0)
    p = d.log_prob(torch.from_numpy(k)).exp().numpy()
    assert p.sum() == pytest.approx(1, abs=1e-12)
    if expression.startswith("Categorical"):
        assert math.isnan(d.mean) and math.isnan(d.variance)
    else:
        mean = (k * p).sum()
        assert float(d.mean) == pytest.approx(mean, rel=1e-9)
        assert float(d.variance) == pytest.approx(((k - mean) ** 2 * p).sum(), rel=1e-9)
    assert int(d.mode) == p.argmax()
    if not expression.startswith("NegativeBinomial"):
        entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
        if not expression.startswith("Poisson"):
            assert float(d.entropy()) == pytest.approx(entropy, rel=1e-9)
    if d.has_enumerate_support:
        assert d.enumerate_support().tolist() == k.tolist()


def test_what_is_certain_has_the_log_probability_zero() -> None:
    d = torch.distributions
    assert d.Bernoulli(torch.tensor([0.0, 1.0])).log_prob(torch.tensor([0.0, 1.0])).abs().max() < 1e-6
    assert d.Geometric(torch.tensor(1.0)).log_prob(torch.tensor([0.0, 2.0])).tolist() == [0, -math.inf]
    assert d.Poisson(torch.tensor(0.0)).log_prob(torch.tensor([0.0, 2.0])).tolist() == [0, -math.inf]
    assert d.Multinomial(2, torch.tensor([0.0, 1.0])).log_prob(torch.tensor([0.0, 2.0])).item() == pytest.approx(0, abs=1e-6)
    assert d.NegativeBinomial(0.0, torch.tensor(0.5)).log_prob(torch.tensor(0.0)).item() == 0
    assert math.isnan(d.Bernoulli(0.5).mode) and math.isnan(d.StudentT(1.0).mean) and d.StudentT(1.5).variance.item() == math.inf
    assert d.Pareto(1.0, 1.0).mean.item() == math.inf and d.InverseGamma(0.5, 1.0).mean.item() == math.inf
