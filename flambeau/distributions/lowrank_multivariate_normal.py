"""The multivariate normal distribution with a covariance of low rank and a diagonal."""

from __future__ import annotations

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.multivariate_normal import half_log_det, mahalanobis, matvec
from flambeau.distributions.utils import formula, half_log_tau, lazy_property, normal_noise

__all__ = ["LowRankMultivariateNormal"]


def capacitance_factor(w: Tensor, d: Tensor) -> Tensor:
    """The lower Cholesky factor of I + W^T D^-1 W, (..., m, m)."""
    scaled = w.mT / d.unsqueeze(-2)
    return torch.linalg.cholesky(scaled @ w + torch.eye(w.shape[-1], dtype=w.dtype, device=w.device))


def lowrank_log_det(d: Tensor, factor: Tensor) -> Tensor:
    """log det (W W^T + D) = log det C + log det D (the matrix determinant lemma), with `factor` that of C = I + W^T
    D^-1 W."""
    return 2 * half_log_det(factor) + d.log().sum(-1)


def lowrank_mahalanobis(w: Tensor, d: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """x^T (W W^T + D)^-1 x = x^T D^-1 x - |C^-1/2 W^T D^-1 x|^2 (Woodbury's identity)."""
    scaled = x / d
    return (x * scaled).sum(-1) - mahalanobis(factor, (w.mT @ scaled.unsqueeze(-1)).squeeze(-1))


def _checked_event(loc: Tensor, w: Tensor, d: Tensor) -> Size:
    """The shape of an event. Raises ValueError for parameters whose last dimensions don't fit."""
    if loc.dim() == 0:
        raise ValueError("loc must be at least one-dimensional.")
    if w.dim() < 2:
        raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
    event_shape = loc.shape[-1:]
    if w.shape[-2] != event_shape[0]:
        raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
    if d.shape[-1:] != event_shape:
        raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
    return event_shape


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of real vectors with covariance W W^T + D.

    Args: loc (Tensor): batch_shape + (n,); cov_factor (Tensor): W, (..., n, m); cov_diag (Tensor): the diagonal of
    D, (..., n), > 0. Costs grow with n m^2 instead of n^3. Raises ValueError for other shapes."""

    has_rsample = True
    support = constraints.real_vector
    _parameters = ("loc", "cov_factor", "cov_diag")
    _copied = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")
    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.real_matrix,
        "cov_diag": constraints.positive_vector,
    }
    loc: Tensor
    cov_factor: Tensor
    cov_diag: Tensor

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        given = {"loc": (loc, 1), "cov_factor": (cov_factor, 2), "cov_diag": (cov_diag, 1)}
        event_shape = _checked_event(loc, cov_factor, cov_diag)
        try:
            batch_shape = torch.broadcast_shapes(*(x.shape[: x.dim() - dims] for x, dims in given.values()))
        except RuntimeError as error:
            shapes = ", ".join(f"{name} {x.shape}" for name, (x, _) in given.items())
            raise ValueError(f"Incompatible batch shapes: {shapes}") from error
        for name, (x, dims) in given.items():
            setattr(self, name, x.expand(*batch_shape, *x.shape[x.dim() - dims :]))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = capacitance_factor(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(*self._batch_shape, *matrix.shape[-2:])

    mean = mode = formula(lambda d: d.loc)

    @lazy_property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        own = self._unbroadcasted_cov_diag + self._unbroadcasted_cov_factor.square().sum(-1)
        return own.expand(self.loc.shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """W W^T + D."""
        w = self._unbroadcasted_cov_factor
        return self._whole(torch.diag_embed(self._unbroadcasted_cov_diag) + w @ w.mT)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance: sqrt(D) times that of I + D^-1/2 W W^T D^-1/2, which is
        better conditioned."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inner = torch.eye(self._event_shape[0], dtype=scaled.dtype, device=scaled.device) + scaled @ scaled.mT
        return self._whole(torch.linalg.cholesky(inner) * root)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance: D^-1 - A^T A with A = C^-1/2 W^T D^-1."""
        d = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / d.unsqueeze(-2)
        a = torch.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._whole(d.reciprocal().diag_embed() - a.mT @ a)

    def _draw(self, shape: Size) -> Tensor:
        factors = normal_noise(shape[:-1] + self.cov_factor.shape[-1:], self.loc)
        own = normal_noise(shape, self.loc)
        common = matvec(self._unbroadcasted_cov_factor, factors)
        return self.loc + common + own * self._unbroadcasted_cov_diag.sqrt()

    def _log_norm(self) -> Tensor:
        """The logarithm of sqrt((2 pi)^n det S)."""
        log_det = lowrank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)
        return half_log_tau * self._event_shape[0] + 0.5 * log_det

    def _log_density(self, x: Tensor) -> Tensor:
        distance = lowrank_mahalanobis(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, x - self.loc, self._capacitance_tril
        )
        return -(self._log_norm() + distance / 2)

    def entropy(self) -> Tensor:
        return (self._log_norm() + self._event_shape[0] / 2).expand(self._batch_shape)
