"""Kullback-Leibler divergences against the integral of p log(p / q), and how a rule is found."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from distribution_cases import make, t
from quadrature import integral

import flambeau as torch
from flambeau import distributions as D

INF = math.inf
# p, where it lives, and the q with a rule for the pair
PAIRS = [
    ("Normal(t(0.5), t(1.2))", -INF, INF, ["Normal(t(-0.3), t(0.8))", "Laplace(t(0.2), t(1.5))", "Gumbel(t(0.2), t(1.5))"]),
    ("Laplace(t(0.0), t(0.8))", -INF, INF, ["Laplace(t(0.2), t(1.5))", "Normal(t(-0.3), t(0.8))"]),
    ("Gumbel(t(0.5), t(0.8))", -INF, INF, ["Gumbel(t(0.2), t(1.5))", "Normal(t(-0.3), t(0.8))"]),
    ("Cauchy(t(0.5), t(0.8))", -INF, INF, ["Cauchy(t(0.2), t(1.5))"]),
    (
        "Exponential(t(1.5))",
        0,
        INF,
        ["Exponential(t(0.7))", "Gamma(t(2.5), t(0.7))", "Gumbel(t(0.2), t(1.5))", "Normal(t(-0.3), t(0.8))"],
    ),
    (
        "Gamma(t(2.5), t(1.5))",
        0,
        INF,
        ["Exponential(t(0.7))", "Gamma(t(1.5), t(0.7))", "Gumbel(t(0.2), t(1.5))", "Normal(t(-0.3), t(0.8))"],
    ),
    ("Chi2(t(3.0))", 0, INF, ["Chi2(t(5.0))", "Gamma(t(1.5), t(0.7))"]),
    ("HalfNormal(t(1.5))", 0, INF, ["HalfNormal(t(0.8))"]),
    ("LogNormal(t(0.5), t(0.6))", 0, INF, ["LogNormal(t(0.1), t(0.9))"]),
    (
        "Pareto(t(1.5), t(4.0))",
        1.5,
        INF,
        ["Pareto(t(1.2), t(2.0))", "Exponential(t(0.7))", "Gamma(t(2.5), t(0.7))", "Normal(t(-0.3), t(2.8))"],
    ),
    (
        "Uniform(t(0.2), t(0.9))",
        0.2,
        0.9,
        [
            "Uniform(t(0.1), t(1.5))",
            "Beta(t(1.5), t(2.5))",
            "ContinuousBernoulli(t(0.3))",
            "Exponential(t(0.7))",
            "Gamma(t(2.5), t(0.7))",
            "Gumbel(t(0.2), t(1.5))",
            "Normal(t(-0.3), t(0.8))",
            "Pareto(t(0.1), t(2.0))",
        ],
    ),
    (
        "Beta(t(1.5), t(2.5))",
        0,
        1,
        [
            "Beta(t(0.7), t(1.5))",
            "ContinuousBernoulli(t(0.3))",
            "Exponential(t(0.7))",
            "Gamma(t(2.5), t(0.7))",
            "Normal(t(-0.3), t(0.8))",
            "Uniform(t(-0.5), t(1.5))",
        ],
    ),
    (
        "ContinuousBernoulli(t(0.3))",
        0,
        1,
        ["ContinuousBernoulli(t(0.6))", "Exponential(t(0.7))", "Normal(t(-0.3), t(0.8))", "Uniform(t(0.0), t(1.0))"],
    ),
]


@pytest.mark.parametrize("p, low, high, q", [(p, low, high, q) for p, low, high, many in PAIRS for q in many])
def test_divergence_is_the_mean_of_the_log_quotient(p: str, low: float, high: float, q: str) -> None:
    one, other = make(p), make(q)
    other._validate_args = False

    def integrand(x: torch.Tensor) -> torch.Tensor:
        log = one.log_prob(x)
        return torch.where(log > -600, log.exp() * (log - other.log_prob(x)), 0)

    wanted = integral(integrand, low, high)  # to a few millionths, where Laplace's kink lies between the nodes
    assert float(D.kl_divergence(one, other)) == pytest.approx(wanted, rel=3e-5, abs=1e-6)


@pytest.mark.parametrize(
    "p, q, last",
    [
        ("Bernoulli(t(0.3))", "Bernoulli(t(0.6))", 1),
        ("Bernoulli(t(0.3))", "Poisson(t(0.6))", 1),
        ("Binomial(7, t(0.3))", "Binomial(7, t(0.6))", 7),
        ("Categorical(t([0.2, 0.8]))", "Categorical(t([0.6, 0.4]))", 1),
        ("Geometric(t(0.3))", "Geometric(t(0.6))", 150),
        ("Poisson(t(6.5))", "Poisson(t(2.0))", 80),
    ],
)
def test_divergence_of_discrete_distributions(p: str, q: str, last: int) -> None:
    k = torch.from_numpy(np.arange(last + 1.0))
    one, other = make(p).log_prob(k), make(q).log_prob(k)
    assert float(D.kl_divergence(make(p), make(q))) == pytest.approx(float((one.exp() * (one - other)).sum()), rel=1e-9)


@pytest.mark.parametrize(
    "p, q",
    [
        *itertools.product(
            [
                "Exponential(t(1.0))",
                "Gamma(t(2.0), t(1.0))",
                "Gumbel(t(0.0), t(1.0))",
                "Laplace(t(0.0), t(1.0))",
                "Normal(t(0.0), t(1.0))",
            ],
            ["Beta(t(1.0), t(2.0))", "ContinuousBernoulli(t(0.3))", "Pareto(t(1.0), t(2.0))", "Uniform(t(0.0), t(1.0))"],
        ),
        ("Normal(t(0.0), t(1.0))", "Exponential(t(1.0))"),
        ("Gumbel(t(0.0), t(1.0))", "Gamma(t(1.0), t(1.0))"),
        ("Pareto(t(1.0), t(2.0))", "Uniform(t(0.0), t(5.0))"),
        ("Pareto(t(1.0), t(0.5))", "Exponential(t(1.0))"),
        ("Pareto(t(1.0), t(1.5))", "Normal(t(0.0), t(1.0))"),
        ("Poisson(t(2.0))", "Bernoulli(t(0.3))"),
        ("Uniform(t(-1.0), t(1.0))", "Exponential(t(1.0))"),
        ("Uniform(t(0.0), t(1.0))", "Uniform(t(0.2), t(2.0))"),
        ("Uniform(t(0.0), t(1.5))", "Beta(t(1.0), t(1.0))"),
        ("Beta(t(1.0), t(1.0))", "Uniform(t(0.2), t(2.0))"),
        ("Pareto(t(1.0), t(2.0))", "Pareto(t(2.0), t(2.0))"),
        ("Bernoulli(t(0.5))", "Bernoulli(t(0.0))"),
        ("Categorical(t([0.5, 0.5]))", "Categorical(t([0.0, 1.0]))"),
        ("Binomial(3, t(0.5))", "Binomial(2, t(0.5))"),
    ],
)
def test_divergence_is_infinite_beyond_the_support(p: str, q: str) -> None:
    assert D.kl_divergence(make(p), make(q)).item() == INF


def test_what_p_never_gives_does_not_count() -> None:
    assert D.kl_divergence(make("Bernoulli(t(0.0))"), make("Bernoulli(t(0.25))")).item() == pytest.approx(math.log(4 / 3))
    assert D.kl_divergence(make("Categorical(t([0.0, 1.0]))"), make("Categorical(t([0.5, 0.5]))")).item() == (
        pytest.approx(math.log(2))
    )


def normal(mean: torch.Tensor, covariance: torch.Tensor) -> D.MultivariateNormal:
    return D.MultivariateNormal(mean, covariance)


def test_divergence_of_multivariate_normals() -> None:
    m, n = t([[0.5, -1.0], [0.0, 2.0]]), t([1.0, 0.5])
    a, b = t([[2.0, 0.3], [0.3, 0.7]]), t([[[1.0, -0.2], [-0.2, 1.5]], [[0.6, 0.1], [0.1, 0.9]]])
    inverse, gap = torch.linalg.inv(b), n - m
    wanted = 0.5 * (
        (inverse @ a).diagonal(dim1=-2, dim2=-1).sum(-1)
        - 2
        + (gap.unsqueeze(-2) @ inverse @ gap.unsqueeze(-1)).squeeze()
        + torch.logdet(b)
        - torch.logdet(a)
    )
    torch.testing.assert_close(D.kl_divergence(normal(m, a), normal(n, b)), wanted)


def test_divergence_of_low_rank_normals_is_that_of_full_ones() -> None:
    torch.manual_seed(0)
    low = [
        D.LowRankMultivariateNormal(torch.randn(3, 4).double(), torch.randn(4, 2).double(), torch.rand(4).double() + 0.5)
        for _ in range(2)
    ]
    full = [normal(d.loc, d.covariance_matrix) for d in low]
    wanted = D.kl_divergence(full[0], full[1])
    for p, q in ((low[0], low[1]), (low[0], full[1]), (full[0], low[1])):
        torch.testing.assert_close(D.kl_divergence(p, q), wanted)
    with pytest.raises(ValueError, match="different event shapes cannot be computed"):
        D.kl_divergence(full[0], normal(t([0.0]), t([[1.0]])))


def test_divergence_by_the_log_normalizer_equals_the_formulas() -> None:
    """The rule for any exponential family, called by itself, against the family's own."""
    general = D.kl._KL_REGISTRY[D.ExponentialFamily, D.ExponentialFamily]
    for p, q in (
        ("Normal(t(0.5), t(1.2))", "Normal(t(-0.3), t(0.8))"),
        ("Gamma(t(2.5), t(1.5))", "Gamma(t(1.5), t(0.7))"),
        ("Exponential(t(1.5))", "Exponential(t(0.7))"),
        ("Bernoulli(t(0.3))", "Bernoulli(t(0.6))"),
        ("Poisson(t(6.5))", "Poisson(t(2.0))"),
        ("Beta(t(1.5), t(2.5))", "Beta(t(0.7), t(1.5))"),
        ("Dirichlet(t([1.5, 2.5, 1.0]))", "Dirichlet(t([0.7, 1.5, 2.0]))"),
    ):
        torch.testing.assert_close(general(make(p), make(q)), D.kl_divergence(make(p), make(q)))
    with pytest.raises(NotImplementedError, match="different exponential families"):
        D.kl_divergence(make("Beta(t(1.0), t(2.0))"), make("Dirichlet(t([1.0, 2.0]))"))


def test_entropies_by_the_log_normalizer_equal_the_formulas() -> None:
    for expression in ("Normal(t(0.5), t(1.2))", "Gamma(t(2.5), t(1.5))", "Exponential(t(1.5))", "Bernoulli(t(0.3))"):
        d = make(expression)
        torch.testing.assert_close(D.ExponentialFamily.entropy(d), d.entropy())


def test_independent_and_transformed_distributions() -> None:
    one, other = D.Normal(t([0.0, 1.0]), t(1.0)), D.Normal(t([1.0, 1.0]), t(2.0))
    each = D.kl_divergence(one, other)
    torch.testing.assert_close(D.kl_divergence(D.Independent(one, 1), D.Independent(other, 1)), each.sum())
    shift = D.AffineTransform(1.0, 2.0)
    moved = [D.TransformedDistribution(d, [shift, D.ExpTransform()]) for d in (one, other)]
    torch.testing.assert_close(D.kl_divergence(*moved), each)
    with pytest.raises(NotImplementedError):
        D.kl_divergence(D.Independent(one, 1), D.Independent(other, 0))
    with pytest.raises(NotImplementedError):
        D.kl_divergence(moved[0], D.TransformedDistribution(other, [D.AffineTransform(1.0, 3.0), D.ExpTransform()]))


def test_rules_are_found_by_the_nearest_classes() -> None:
    class Mine(D.Normal):
        pass

    class Yours(D.Normal):
        pass

    standard = Mine(0.0, 1.0)
    assert D.kl_divergence(standard, Yours(1.0, 1.0)).item() == 0.5

    @D.register_kl(Mine, D.Normal)
    def first(p: Any, q: Any) -> str:
        return "first"

    assert D.kl_divergence(standard, Yours(1.0, 1.0)) == "first"

    @D.register_kl(D.Normal, Yours)
    def second(p: Any, q: Any) -> str:
        return "second"

    with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Mine, Yours\). Please register_kl\(Mine, Yours\)"):
        assert D.kl_divergence(standard, Yours(1.0, 1.0)) == "first"
    for pair in ((Mine, D.Normal), (D.Normal, Yours)):
        del D.kl._KL_REGISTRY[pair]
    D.kl._KL_MEMOIZE.clear()
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type Mine and q type VonMises"):
        D.kl_divergence(standard, D.VonMises(0.0, 1.0))
    with pytest.raises(TypeError):
        D.register_kl(3, D.Normal)


def test_classes_of_other_libraries_have_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(D.kl, "_KL_REGISTRY", dict(D.kl._KL_REGISTRY))
    monkeypatch.setattr(D.kl, "_KL_MEMOIZE", {})

    class Meta(type):
        def __subclasscheck__(cls, other: type) -> bool:
            return other is Point or super().__subclasscheck__(other)

    class Base(metaclass=Meta):
        """Not a Distribution."""

    class Point:
        """Counts as a Base."""

    D.register_kl(Base, D.Normal)(lambda p, q: torch.tensor(7.0))
    assert D.kl_divergence(Point(), D.Normal(0.0, 1.0)).item() == 7  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a class"):
        D.register_kl(5, D.Normal)  # type: ignore[arg-type]
