"""Kullback-Leibler divergences of distributions of two families: minus the entropy of p, minus the mean of log q.

Infinite where p reaches beyond the support of q. Stands on kl.
"""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions.bernoulli import Bernoulli
from flambeau.distributions.beta import Beta
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.continuous_bernoulli import ContinuousBernoulli
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.gumbel import Gumbel
from flambeau.distributions.kl import register_kl
from flambeau.distributions.laplace import Laplace
from flambeau.distributions.normal import Normal
from flambeau.distributions.pareto import Pareto
from flambeau.distributions.poisson import Poisson
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.utils import euler_constant, log_beta

# ---- the mean of -log q, from what is known of p -------------------------------------------------------------------


def _to_normal(q: Any, mean: Tensor, variance: Tensor) -> Tensor:
    square = q.scale.pow(2)
    return 0.5 * (2 * math.pi * square).log() + 0.5 * (variance + (mean - q.loc).pow(2)) / square


def _to_exponential(q: Any, mean: Tensor) -> Tensor:
    return q.rate * mean - q.rate.log()


def _to_gamma(q: Any, mean: Tensor, mean_log: Tensor) -> Tensor:
    c = q.concentration
    return c.lgamma() - c * q.rate.log() - (c - 1) * mean_log + q.rate * mean


def _to_gumbel(q: Any, mean: Tensor, decay: Tensor) -> Tensor:
    """`decay` is the mean of exp(-(x - loc) / scale)."""
    return q.scale.log() + (mean - q.loc) / q.scale + decay


def _to_continuous_bernoulli(q: Any, mean: Tensor) -> Tensor:
    return -(q._cont_bern_log_norm() + torch.log1p(-q.probs) + mean * q.logits)


def _to_uniform(q: Any) -> Tensor:
    return (q.high - q.low).log()


def _infinite(where: Tensor, kl: Tensor) -> Tensor:
    return torch.where(where, torch.inf, kl)


# ---- p reaches beyond q whatever the parameters --------------------------------------------------------------------


def _beyond(p: Any, q: Any) -> Tensor:
    """Infinity, of the shape of p."""
    return torch.full_like(p.mean, torch.inf)


_BOUNDED = (Beta, ContinuousBernoulli, Pareto, Uniform)
for _p, _others in (
    (Beta, (Pareto,)),
    (ContinuousBernoulli, (Pareto,)),
    (Exponential, _BOUNDED),
    (Gamma, _BOUNDED),
    (Gumbel, (*_BOUNDED, Exponential, Gamma)),
    (Laplace, (*_BOUNDED, Exponential, Gamma)),
    (Normal, (*_BOUNDED, Exponential, Gamma)),
    (Pareto, (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, (Bernoulli, Binomial)),
):
    for _q in _others:
        register_kl(_p, _q)(_beyond)


# ---- pairs ---------------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    kl = -p.entropy() + _to_continuous_bernoulli(q, p.mean)
    return _infinite((p.high > 1) | (p.low < 0), kl) if isinstance(p, Uniform) else kl


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() + _to_exponential(q, p.mean)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    return -p.entropy() + _to_normal(q, p.mean, p.variance)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    return _infinite((q.low > 0) | (q.high < 1), -p.entropy() + _to_uniform(q))


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration1, p.concentration0
    return -p.entropy() + _to_gamma(q, p.mean, a.digamma() - (a + b).digamma())


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    return -p.entropy() + _to_gamma(q, p.mean, -p.rate.log() - euler_constant)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    product = p.rate * q.scale
    return -p.entropy() + _to_gumbel(q, p.mean, torch.exp(q.loc / q.scale) * product / (product + 1))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    decay = torch.exp(q.loc / q.scale) * (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration)
    return -p.entropy() + _to_gumbel(q, p.mean, decay)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    return -p.entropy() + _to_gumbel(q, p.mean, torch.exp((q.loc - p.loc) / q.scale + 0.5 * (p.scale / q.scale).pow(2)))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    away = p.loc - q.loc
    ratio = away / p.scale
    spread = p.scale * math.sqrt(2 / math.pi)
    distance = spread * (-(ratio**2) / 2).exp() + away * (ratio / math.sqrt(2)).erf()
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    return _infinite(p.alpha <= 1, -p.entropy() + _to_exponential(q, p.mean))


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    return _infinite(p.alpha <= 1, -p.entropy() + _to_gamma(q, p.mean, p.scale.log() + p.alpha.reciprocal()))


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    return _infinite(p.alpha <= 2, -p.entropy() + _to_normal(q, p.mean, p.variance))


def _mean_log(p: Any) -> Tensor:
    """The mean of log(x) of a uniform distribution."""
    return (torch.xlogy(p.high, p.high) - torch.xlogy(p.low, p.low)) / (p.high - p.low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    # 1 - x is uniform too
    rest = (torch.xlogy(1 - p.low, 1 - p.low) - torch.xlogy(1 - p.high, 1 - p.high)) / (p.high - p.low) - 1
    kl = -p.entropy() + log_beta(a, b) - (a - 1) * _mean_log(p) - (b - 1) * rest
    return _infinite((p.high > 1) | (p.low < 0), kl)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    return _infinite(p.low < 0, -p.entropy() + _to_exponential(q, p.mean))


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    return _infinite(p.low < 0, -p.entropy() + _to_gamma(q, p.mean, _mean_log(p)))


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    decay = (torch.exp((q.loc - p.low) / q.scale) - torch.exp((q.loc - p.high) / q.scale)) * q.scale / (p.high - p.low)
    return -p.entropy() + _to_gumbel(q, p.mean, decay)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    kl = -p.entropy() - q.alpha.log() - q.alpha * q.scale.log() + (q.alpha + 1) * _mean_log(p)
    return _infinite(p.low < q.scale, kl)
