"""Kullback-Leibler divergences of two distributions of one family.

Formulas from the densities; of exponential families as Bregman divergences of the log normaliser (Nielsen and Nock,
2010). Stands on kl.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.distributions.bernoulli import Bernoulli
from flambeau.distributions.beta import Beta
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.cauchy import Cauchy
from flambeau.distributions.continuous_bernoulli import ContinuousBernoulli
from flambeau.distributions.dirichlet import Dirichlet
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.geometric import Geometric
from flambeau.distributions.gumbel import Gumbel
from flambeau.distributions.half_normal import HalfNormal
from flambeau.distributions.independent import Independent
from flambeau.distributions.kl import kl_divergence, register_kl
from flambeau.distributions.laplace import Laplace
from flambeau.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal, lowrank_log_det, lowrank_mahalanobis
from flambeau.distributions.multivariate_normal import MultivariateNormal, half_log_det, mahalanobis
from flambeau.distributions.normal import Normal
from flambeau.distributions.one_hot_categorical import OneHotCategorical
from flambeau.distributions.pareto import Pareto
from flambeau.distributions.poisson import Poisson
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.utils import _sum_rightmost, euler_constant
from flambeau.nn.functional import softplus

# ---- discrete ------------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    def part(of_p: Tensor, of_q: Tensor, difference: Tensor) -> Tensor:
        """of_p log(of_p / of_q): 0 where of_p is 0, else infinite where of_q is 0."""
        term = torch.where(of_q == 0, torch.inf, of_p * difference)
        return torch.where(of_p == 0, 0, term)

    yes = part(p.probs, q.probs, softplus(-q.logits) - softplus(-p.logits))
    no = part(1 - p.probs, 1 - q.probs, softplus(q.logits) - softplus(p.logits))
    return yes + no


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    """Infinite where p has more trials than q; of fewer, there is no closed form."""
    n, of_q = p.total_count, q.total_count
    if (n < of_q).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    failures = torch.log1p(-p.probs) - torch.log1p(-q.probs)
    return torch.where(n == of_q, n * (failures + p.probs * (p.logits - q.logits)), torch.inf)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    term = p.probs * (p.logits - q.logits)
    term = torch.where((q.probs == 0).expand_as(term), torch.inf, term)
    return torch.where((p.probs == 0).expand_as(term), 0, term).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -(p.entropy() + q.probs.log() + p.mean * torch.log1p(-q.probs))


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    a, b = p.rate, q.rate
    return b - a + a * (a.log() - b.log())


# ---- continuous ----------------------------------------------------------------------------------------------------


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total_a, total_b = a.sum(-1), b.sum(-1)
    mean_log = a.digamma() - total_a.digamma().unsqueeze(-1)
    return total_a.lgamma() - total_b.lgamma() - (a.lgamma() - b.lgamma()).sum(-1) + ((a - b) * mean_log).sum(-1)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    """Chyzak and Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy distributions"
    (2019)."""
    return torch.log(((p.loc - q.loc) ** 2 + (p.scale + q.scale) ** 2) / (4 * p.scale * q.scale))


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    constant = [d._cont_bern_log_norm() + torch.log1p(-d.probs) for d in (p, q)]
    return constant[0] - constant[1] + p.mean * (p.logits - q.logits)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    a, b, ratio = p.concentration, q.concentration, q.rate / p.rate
    return b.lgamma() - a.lgamma() + (a - b) * a.digamma() - b * ratio.log() + a * (ratio - 1)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    decay = torch.exp(-shift + torch.lgamma(ratio + 1))  # the mean of exp(-(x - loc) / scale) of q
    return ratio * euler_constant - ratio.log() + shift + decay - (1 + euler_constant)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return (ratio**2 + shift**2 - 1) / 2 - ratio.log()


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    exponents = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - exponents.log() + exponents - 1
    return torch.where(p.scale < q.scale, torch.inf, kl)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    inside = (q.low <= p.low) & (p.high <= q.high)
    return torch.where(inside, q.entropy() - p.entropy(), torch.inf)


# ---- multivariate normal -------------------------------------------------------------------------------------------


def _squares(matrix: Tensor) -> Tensor:
    """The sum of the squares of all elements: the trace of X X^T."""
    return matrix.pow(2).sum((-2, -1))


def _same_event(p: Any, q: Any, kind: str) -> None:
    if p.event_shape != q.event_shape:
        # the run of blanks is PyTorch's
        raise ValueError(f"KL-divergence between two {kind} with{' ' * 26}different event shapes cannot be computed")


def _whitened_factors(q: Any) -> Tensor:
    """A of the precision matrix D^-1 - A^T A of a low-rank normal distribution."""
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    return torch.linalg.solve_triangular(q._capacitance_tril, scaled, upper=False)


def _log_det(distribution: Any) -> Tensor:
    """log det of the covariance."""
    if isinstance(distribution, MultivariateNormal):
        return 2 * half_log_det(distribution._unbroadcasted_scale_tril)
    return lowrank_log_det(distribution._unbroadcasted_cov_diag, distribution._capacitance_tril)


def _normals(p: Any, q: Any, distance: Tensor, trace: Tensor) -> Tensor:
    """From the squared distance of the means and the trace of precision(q) covariance(p)."""
    return 0.5 * (_log_det(q) - _log_det(p) + distance + trace - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "Multivariate Normals")
    factor = q._unbroadcasted_scale_tril
    trace = _squares(torch.linalg.solve_triangular(factor, p._unbroadcasted_scale_tril, upper=False))
    return _normals(p, q, mahalanobis(factor, q.loc - p.loc), trace)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _lowrank(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "Low Rank Multivariate Normals")
    w, d = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    diag, factors = q._unbroadcasted_cov_diag, _whitened_factors(q)
    trace = (
        (d / diag).sum(-1)
        + _squares(w * diag.rsqrt().unsqueeze(-1))
        - _squares(factors * d.sqrt().unsqueeze(-2))
        - _squares(factors @ w)
    )
    distance = lowrank_mahalanobis(q._unbroadcasted_cov_factor, diag, q.loc - p.loc, q._capacitance_tril)
    return _normals(p, q, distance, trace)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _multivariate_lowrank(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "(Low Rank) Multivariate Normals")
    factor, diag = p._unbroadcasted_scale_tril, q._unbroadcasted_cov_diag
    trace = _squares(factor * diag.rsqrt().unsqueeze(-1)) - _squares(_whitened_factors(q) @ factor)
    distance = lowrank_mahalanobis(q._unbroadcasted_cov_factor, diag, q.loc - p.loc, q._capacitance_tril)
    return _normals(p, q, distance, trace)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _lowrank_multivariate(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "(Low Rank) Multivariate Normals")
    factor = q._unbroadcasted_scale_tril
    parts = (p._unbroadcasted_cov_factor, torch.diag_embed(p._unbroadcasted_cov_diag.sqrt()))
    common, own = (_squares(torch.linalg.solve_triangular(factor, part, upper=False)) for part in parts)
    return _normals(p, q, mahalanobis(factor, q.loc - p.loc), common + own)


# ---- of any base ---------------------------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Tensor:
    if type(p) is not type(q):
        # the run of blanks is PyTorch's
        raise NotImplementedError(
            f"The cross KL-divergence between different exponential families cannot{' ' * 29}"
            "be computed using Bregman divergences"
        )
    eta, normalizer, means = p._dual()
    theirs = q._natural_params
    terms = (_sum_rightmost((t - o) * mean, len(q.event_shape)) for o, t, mean in zip(eta, theirs, means))
    return q._log_normalizer(*theirs) - normalizer - sum(terms)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    """The bases', if the transforms are the same."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), len(p.event_shape) - len(p.base_dist.event_shape))


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
