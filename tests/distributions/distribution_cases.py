"""Univariate distributions with parameters inside their ranges, and where they live."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch

INF = math.inf

# expression, the ends of the support
CONTINUOUS = [
    ("Normal(t(0.5), t(2.0))", -INF, INF),
    ("Laplace(t(0.0), t(1.5))", -INF, INF),
    ("Cauchy(t(0.5), t(2.0))", -INF, INF),
    ("Gumbel(t(0.5), t(2.0))", -INF, INF),
    ("StudentT(t(5.0), t(0.5), t(1.5))", -INF, INF),
    ("LogNormal(t(0.5), t(0.8))", 0, INF),
    ("Exponential(t(1.5))", 0, INF),
    ("Gamma(t(0.7), t(1.5))", 0, INF),
    ("Gamma(t(3.5), t(0.5))", 0, INF),
    ("InverseGamma(t(4.5), t(2.0))", 0, INF),
    ("Chi2(t(3.0))", 0, INF),
    ("FisherSnedecor(t(3.0), t(9.0))", 0, INF),
    ("HalfNormal(t(1.5))", 0, INF),
    ("HalfCauchy(t(1.5))", 0, INF),
    ("Weibull(t(1.5), t(2.5))", 0, INF),
    ("Pareto(t(1.5), t(4.0))", 1.5, INF),
    ("GeneralizedPareto(t(0.5), t(2.0), t(0.2))", 0.5, INF),
    ("GeneralizedPareto(t(0.5), t(2.0), t(-0.5))", 0.5, 4.5),
    ("GeneralizedPareto(t(0.5), t(2.0), t(0.0))", 0.5, INF),
    ("Uniform(t(-1.0), t(2.5))", -1, 2.5),
    ("Beta(t(0.6), t(2.5))", 0, 1),
    ("Kumaraswamy(t(1.6), t(2.5))", 0, 1),
    ("ContinuousBernoulli(t(0.2))", 0, 1),
    ("ContinuousBernoulli(t(0.5003))", 0, 1),
    ("RelaxedBernoulli(t(0.7), t(0.3))", 0, 1),
    ("VonMises(t(0.5), t(2.0))", -math.pi, math.pi),
    ("TransformedDistribution(Normal(t(0.5), t(1.0)), [TanhTransform(), AffineTransform(1.0, -2.0)])", -1, 3),
    ("MixtureSameFamily(Categorical(t([0.3, 0.7])), Normal(t([-1.0, 2.0]), t([0.5, 1.5])))", -INF, INF),
]

# expression, the largest value that matters
DISCRETE = [
    ("Bernoulli(t(0.3))", 1),
    ("Bernoulli(logits=t(0.3))", 1),
    ("Binomial(7, t(0.3))", 7),
    ("Categorical(t([0.2, 0.3, 0.5]))", 2),
    ("Geometric(t(0.3))", 150),
    ("NegativeBinomial(t(4.5), t(0.4))", 150),
    ("Poisson(t(6.5))", 80),
]


def t(value: Any) -> torch.Tensor:
    """A float64 tensor."""
    return torch.tensor(value, dtype=torch.float64)


def make(expression: str) -> Any:
    """The distribution that an expression in the names of torch.distributions gives."""
    return eval(expression, {**vars(torch.distributions), "t": t, "torch": torch})
