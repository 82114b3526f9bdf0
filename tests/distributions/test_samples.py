"""Samples: PyTorch's numbers from a seed, the stream where PyTorch leaves it, moments of many samples."""

from __future__ import annotations

import math
import warnings

import pytest
from distribution_cases import CONTINUOUS, DISCRETE, make

import flambeau as torch
from flambeau import distributions as D
from flambeau import tensor

# expression; two samples after torch.manual_seed(7) in PyTorch 2.13; the next torch.rand(())
RECORDED = [
    ("D.Normal(tensor([0., 1.]), tensor([1., 2.]))", [-0.146795, 2.57228, 0.946822, -1.22869], 0.365316),
    ("D.Uniform(tensor([0., 1.]), tensor([1., 3.]))", [0.534923, 1.39761, 0.659212, 2.31378], 0.232762),
    ("D.Laplace(tensor([0., 1.]), 2.0)", [0.144808, -0.844585, 0.766693, 1.75312], 0.232762),
    ("D.Cauchy(0.0, tensor([1., 2.]))", [-0.830556, -1.72241, 2.16189, 1.07257], 0.365316),
    ("D.Exponential(tensor([0.5, 2.]))", [0.655288, 0.159892, 3.96235, 0.534558], 0.365316),
    ("D.Gamma(tensor([0.5, 3.]), 2.0)", [0.227434, 3.67302, 0.0105964, 2.61393], 0.882878),
    ("D.Chi2(tensor([1., 6.]))", [0.909737, 14.6921, 0.0423857, 10.4557], 0.882878),
    ("D.Beta(tensor([0.5, 3.]), 2.0)", [0.0736808, 0.791795, 0.0462592, 0.580907], 0.388742),
    ("D.Dirichlet(tensor([0.5, 2., 3.]))", [0.0472037, 0.593447, 0.35935, 0.00622201, 0.419573, 0.574205], 0.765274),
    ("D.StudentT(tensor([2., 5.]))", [-0.0818137, 1.18602, 1.06799, -2.45752], 0.52093),
    ("D.FisherSnedecor(tensor([2., 5.]), 3.0)", [0.628248, 1.60836, 3.33902, 0.470854], 0.740524),
    ("D.GeneralizedPareto(0.0, 1.0, tensor([-0.5, 0.5]))", [0.636068, 0.234397, 0.832458, 1.41439], 0.232762),
    ("D.VonMises(tensor([0., 1.]), tensor([0.5, 4.]))", [0.586742, 1.22783, -2.48262, 0.209949], 0.52093),
    ("D.Bernoulli(tensor([0.2, 0.8]))", [0.0, 1.0, 0.0, 1.0], 0.232762),
    ("D.Geometric(tensor([0.2, 0.6]))", [2.0, 1.0, 1.0, 0.0], 0.232762),
    ("D.Binomial(20, tensor([0.2, 0.7]))", [6.0, 16.0, 1.0, 17.0], 0.388742),
    ("D.NegativeBinomial(5.0, tensor([0.2, 0.7]))", [2.0, 7.0, 0.0, 4.0], 0.374202),
    ("D.Poisson(tensor([2., 30.]))", [1.0, 37.0, 3.0, 19.0], 0.52093),
    ("D.ContinuousBernoulli(tensor([0.2, 0.5]))", [0.369917, 0.198803, 0.491978, 0.65689], 0.232762),
    ("D.Categorical(tensor([0.2, 0.3, 0.5]))", [1.0, 1.0], 0.232762),
    ("D.OneHotCategorical(tensor([0.2, 0.3, 0.5]))", [0.0, 1.0, 0.0, 0.0, 1.0, 0.0], 0.232762),
    ("D.Multinomial(10, tensor([0.2, 0.3, 0.5]))", [5.0, 2.0, 3.0, 2.0, 1.0, 7.0], 0.740524),
    ("D.RelaxedBernoulli(tensor(0.5), tensor([0.2, 0.7]))", [0.0763678, 0.251056, 0.189537, 0.952281], 0.232762),
    (
        "D.RelaxedOneHotCategorical(tensor(0.5), tensor([0.2, 0.3, 0.5]))",
        [0.0648276, 0.0218777, 0.913295, 0.371055, 0.0693828, 0.559562],
        0.207086,
    ),
    ("D.LogNormal(0.0, tensor([0.5, 1.]))", [0.929231, 2.19491, 1.60546, 0.32813], 0.365316),
    ("D.LogisticNormal(tensor([0., 1.]), 0.5)", [0.317227, 0.546957, 0.135816, 0.445286, 0.337784, 0.216931], 0.365316),
    ("D.HalfNormal(tensor([0.5, 1.]))", [0.0733975, 0.786141, 0.473411, 1.11434], 0.365316),
    ("D.HalfCauchy(tensor([0.5, 1.]))", [0.415278, 0.861203, 1.08095, 0.536283], 0.365316),
    ("D.Gumbel(tensor([0., 1.]), 2.0)", [0.937981, 0.0407851, 1.75073, 2.73387], 0.232762),
    ("D.Pareto(tensor([1., 2.]), 3.0)", [1.1154, 2.22497, 1.93555, 2.85628], 0.365316),
    ("D.Weibull(tensor([1., 2.]), 1.5)", [0.475264, 0.935264, 1.57742, 2.09113], 0.365316),
    ("D.Kumaraswamy(tensor([0.5, 2.]), 3.0)", [0.0354324, 0.645264, 0.016819, 0.36154], 0.232762),
    ("D.InverseGamma(tensor([2., 5.]), 1.0)", [0.673742, 0.151993, 0.202386, 0.334645], 0.72038),
    ("D.MultivariateNormal(tensor([1., 2.]), tensor([[2., 0.5], [0.5, 1.]]))", [0.7924, 2.68347, 2.33901, 1.29238], 0.365316),
    (
        "D.LowRankMultivariateNormal(tensor([1., 2.]), tensor([[1.], [2.]]), tensor([0.5, 0.25]))",
        [1.52271, 1.14924, 2.98171, 3.12487],
        0.286839,
    ),
    ("D.LKJCholesky(2, 1.5)", [1.0, 0.0, 0.0828239, 0.996564, 1.0, 0.0, -0.0862897, 0.99627], 0.636068),
    (
        "D.Wishart(tensor(4.), tensor([[2., 0.5], [0.5, 1.]]))",
        [8.44539, 7.61775, 7.61775, 9.17435, 16.3224, 7.75853, 7.75853, 14.7476],
        0.413419,
    ),
    ("D.MixtureSameFamily(D.Categorical(tensor([0.3, 0.7])), D.Normal(tensor([-5., 5.]), 1.0))", [-4.05318, -3.30921], 0.286839),
    ("D.Independent(D.Poisson(tensor([2., 3.])), 1)", [1.0, 7.0, 0.0, 1.0], 0.879704),
]


@pytest.mark.parametrize("expression, values, following", RECORDED, ids=[case[0] for case in RECORDED])
def test_samples_are_those_of_pytorch(expression: str, values: list[float], following: float) -> None:
    d = eval(expression, {"D": D, "tensor": tensor})
    torch.manual_seed(7)
    drawn = d.sample((2,))
    assert drawn.shape == (2, *d.batch_shape, *d.event_shape) and not drawn.requires_grad
    assert drawn.reshape(-1).tolist() == pytest.approx(values, rel=2e-5, abs=1e-6)
    assert torch.rand(()).item() == pytest.approx(following, rel=1e-5)
    if d.has_rsample:
        torch.manual_seed(7)
        assert torch.equal(d.rsample((2,)), drawn)


WILD = (
    "Cauchy",
    "HalfCauchy",
    "VonMises",
    "RelaxedBernoulli",
    "TransformedDistribution",
    "Pareto",
    "InverseGamma",
    "Categorical",
)


@pytest.mark.parametrize("expression", [c[0] for c in CONTINUOUS + DISCRETE if c[0].partition("(")[0] not in WILD])
def test_many_samples_have_the_mean_and_the_variance(expression: str) -> None:
    d = make(expression)
    count = 4000
    drawn = d.sample((count,))
    assert d.support.check(drawn).all()
    tolerance = 6 * math.sqrt(float(d.variance) / count)
    assert float(drawn.mean()) == pytest.approx(float(d.mean), abs=tolerance)
    assert float(drawn.var()) == pytest.approx(float(d.variance), rel=0.35)


def test_angles_lie_on_the_circle() -> None:
    d = D.VonMises(tensor(3.0), tensor(4.0))
    drawn = d.sample((4000,))
    assert drawn.abs().max() <= math.pi
    assert 1 - (drawn - 3).cos().mean().item() == pytest.approx(d.variance.item(), abs=0.02)


def test_samples_of_many_dimensions() -> None:
    covariance = tensor([[2.0, 0.5], [0.5, 1.0]])
    drawn = D.MultivariateNormal(tensor([1.0, -1.0]), covariance).sample((20000,))
    torch.testing.assert_close(torch.cov(drawn.T), covariance, atol=0.1, rtol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wishart = D.Wishart(tensor(5.0), covariance)
        torch.testing.assert_close(wishart.sample((3000,)).mean(0), wishart.mean, atol=0.6, rtol=0)
    assert D.constraints.corr_cholesky.check(D.LKJCholesky(4, 2.0).sample((2000,))).all()
    # a correlation is 2 b - 1 with b of the beta distribution (concentration, concentration): of variance
    # 1 / (2 concentration + 1)
    assert D.LKJCholesky(2, 2.0).sample((4000,))[:, 1, 0].var().item() == pytest.approx(1 / 5, abs=0.02)
    counts = D.Multinomial(10, tensor([0.2, 0.3, 0.5])).sample((2000,))
    assert (counts.sum(-1) == 10).all() and counts.mean(0).tolist() == pytest.approx([2, 3, 5], abs=0.2)


def test_gamma_samples_of_tiny_shapes_are_positive() -> None:
    drawn = D.Gamma(torch.full((200,), 1e-3), 1.0).sample()
    assert (drawn > 0).all() and torch.isfinite(drawn.log()).all()
    shares = D.Dirichlet(torch.full((200, 3), 1e-3)).sample()
    assert (shares > 0).all() and (shares < 1).all()


def test_samplers_refuse_what_pytorch_refuses() -> None:
    with pytest.raises(NotImplementedError, match="\"gamma_cpu\" not implemented for 'Half'"):
        torch._standard_gamma(torch.ones(2, dtype=torch.float16))
    with pytest.raises(NotImplementedError, match="\"poisson_cpu\" not implemented for 'Long'"):
        torch.poisson(tensor([1, 2]))
    with pytest.raises(ValueError, match="binomial only supports floating-point dtypes for count, got: Long"):
        torch.binomial(tensor([1]), tensor([0.5]))
    with pytest.raises(NotImplementedError, match="\"binomial_cpu\" not implemented for 'Half'"):
        torch.binomial(torch.ones(1, dtype=torch.float16), torch.ones(1, dtype=torch.float16))
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        torch.binomial(tensor([1.0]), tensor([0.5], dtype=torch.float64))
    assert torch._standard_gamma(tensor([-1.0, math.nan])).tolist() == [torch.finfo(torch.float32).tiny] * 2
