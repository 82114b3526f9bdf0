"""The multivariate normal distribution."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import formula, half_log_tau, lazy_property, normal_noise

__all__ = ["MultivariateNormal"]

# of a covariance matrix
FORMS: dict[str, Any] = {
    "covariance_matrix": constraints.positive_definite,
    "precision_matrix": constraints.positive_definite,
    "scale_tril": constraints.lower_cholesky,
}


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """|L^-1 x|^2 of lower triangular factors L (..., n, n) and vectors x (..., n), broadcast."""
    batch_dim = factor.dim() - 2
    x = x.reshape((1,) * (batch_dim + 1 - x.dim()) + x.shape)
    cut = x.dim() - 1 - batch_dim  # what stands in front are several vectors for each factor: the columns of one system
    columns = x.reshape((-1,) + x.shape[cut:]).movedim(0, -1)
    squares = torch.linalg.solve_triangular(factor, columns, upper=False).pow(2).sum(-2).movedim(-1, 0)
    return squares.reshape(x.shape[:cut] + squares.shape[1:])


def matvec(matrix: Tensor, x: Tensor) -> Tensor:
    """Matrices times vectors, broadcast."""
    return (matrix @ x.unsqueeze(-1)).squeeze(-1)


def half_log_det(factor: Tensor) -> Tensor:
    """log det L of lower triangular factors with a positive diagonal."""
    return torch.linalg.diagonal(factor).log().sum(-1)


def factor_of_precision(precision: Tensor) -> Tensor:
    """The lower triangular L with L L^T the inverse of `precision`.

    The Cholesky factor of the matrix with its axes turned round is, turned back, an upper U with U U^T = precision;
    L = U^-T."""
    upper = torch.flip(torch.linalg.cholesky(torch.flip(precision, (-2, -1))), (-2, -1))
    identity = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.linalg.solve_triangular(upper.mT, identity, upper=False)


def factor_of(name: str, matrix: Tensor) -> Tensor:
    """The lower Cholesky factor of the covariance, of whichever form of it."""
    if name == "scale_tril":
        return matrix
    return torch.linalg.cholesky(matrix) if name == "covariance_matrix" else factor_of_precision(matrix)


def one_form(matrices: tuple[Any, ...], error: type[Exception], called: str = "") -> tuple[str, Tensor]:
    """The name and the matrix of the form that is given. Raises the error unless exactly one is, ValueError for a
    vector, which is called by its own name by default."""
    given = [(name, matrix) for name, matrix in zip(FORMS, matrices) if matrix is not None]
    if len(given) != 1:
        raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    name, matrix = given[0]
    if matrix.dim() < 2:
        raise ValueError(f"{called or name} must be at least two-dimensional, with optional leading batch dimensions")
    return name, matrix


class OfFactor:
    """The forms of a covariance of which `_unbroadcasted_scale_tril` is the lower Cholesky factor."""

    _copied = ("_unbroadcasted_scale_tril",)
    _unbroadcasted_scale_tril: Tensor

    def _whole(self, matrix: Tensor) -> Tensor:
        """The matrix for the whole batch."""
        return matrix.expand(*self._batch_shape, *matrix.shape[-2:])  # type: ignore[attr-defined]

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance matrix."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        return self._whole(self._unbroadcasted_scale_tril.cholesky_inverse())


class MultivariateNormal(OfFactor, Distribution):
    """exp(-(x - loc)^T S^-1 (x - loc) / 2) / sqrt((2 pi)^n det S) for real vectors x, with S the covariance matrix.

    Args: loc (Tensor): batch_shape + (n,); exactly one of covariance_matrix, precision_matrix (its inverse) and
    scale_tril (its lower Cholesky factor), each (..., n, n). Raises ValueError for other numbers of them, or of
    dimensions."""

    has_rsample = True
    support = constraints.real_vector
    _parameters = ("loc", *FORMS)
    arg_constraints = {"loc": constraints.real_vector, **FORMS}
    loc: Tensor

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() == 0:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = one_form((covariance_matrix, precision_matrix, scale_tril), ValueError)
        batch_shape = torch.broadcast_shapes(loc.shape[:-1], matrix.shape[:-2])
        self.loc = loc.expand(*batch_shape, -1)
        setattr(self, name, matrix.expand(*batch_shape, -1, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    mean = mode = formula(lambda d: d.loc)
    variance = formula(lambda d: d._unbroadcasted_scale_tril.square().sum(-1).expand(d.loc.shape))

    def _draw(self, shape: Size) -> Tensor:
        return self.loc + matvec(self._unbroadcasted_scale_tril, normal_noise(shape, self.loc))

    def _log_norm(self) -> Tensor:
        """The logarithm of sqrt((2 pi)^n det S)."""
        return half_log_tau * self._event_shape[0] + half_log_det(self._unbroadcasted_scale_tril)

    def _log_density(self, x: Tensor) -> Tensor:
        return -self._log_norm() - mahalanobis(self._unbroadcasted_scale_tril, x - self.loc) / 2

    def entropy(self) -> Tensor:
        return (self._log_norm() + self._event_shape[0] / 2).expand(self._batch_shape)
