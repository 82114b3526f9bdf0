"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.chi2 import Chi2
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.multivariate_normal import FORMS, OfFactor, factor_of, half_log_det, one_form
from flambeau.distributions.utils import formula

__all__ = ["Wishart"]


def _multivariate_digamma(x: Tensor, p: int) -> Tensor:
    """The derivative of mvlgamma(x, p)."""
    steps = torch.arange(p, dtype=x.dtype, device=x.device) / 2
    return (x.unsqueeze(-1) - steps).digamma().sum(-1)


def _scalar(x: Tensor) -> Tensor:
    """Numbers that multiply matrices."""
    return x.unsqueeze(-1).unsqueeze(-1)


class Wishart(OfFactor, ExponentialFamily):
    """The sum of df outer products of normal vectors of covariance V: positive definite p x p matrices X of density
    det(X)^((df - p - 1) / 2) exp(-tr(V^-1 X) / 2) / (2^(df p / 2) det(V)^(df / 2) mvgamma_p(df / 2)).

    Samples by Bartlett's decomposition; those that are singular are drawn anew, a few times.

    Args: df (number or Tensor): > p - 1; exactly one of covariance_matrix V, precision_matrix (its inverse) and
    scale_tril (its lower Cholesky factor), each (..., p, p). Raises AssertionError for other numbers of them,
    ValueError for a df that is too small."""

    has_rsample = True
    support = constraints.positive_definite
    _mean_carrier_measure = 0
    _parameters = ("df", *FORMS)
    df: Tensor

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_form((covariance_matrix, precision_matrix, scale_tril), AssertionError, "scale_tril")
        if not isinstance(df, Tensor):
            df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = torch.broadcast_shapes(df.shape, matrix.shape[:-2])
        event_shape = matrix.shape[-2:]
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        p = event_shape[-1]
        if self.df.le(p - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {p - 1}.")
        # arg_constraints need the size of an event
        self._batch_shape, self._event_shape = batch_shape, event_shape
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if self.df.lt(p).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.", stacklevel=2
            )
        self._unbroadcasted_scale_tril = factor_of(name, matrix)
        self._set_chi2()

    def _set_chi2(self) -> None:
        """The squares of the diagonal in Bartlett's decomposition."""
        like = self._unbroadcasted_scale_tril
        row = torch.arange(self._event_shape[-1], dtype=like.dtype, device=like.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - row)

    def _fill_expanded(self, source: Any, batch_shape: Size) -> None:
        self._batch_shape, self._event_shape = batch_shape, source._event_shape
        super()._fill_expanded(source, batch_shape)
        self._unbroadcasted_scale_tril = source._unbroadcasted_scale_tril.expand(batch_shape + source._event_shape)
        self._set_chi2()

    @property
    def arg_constraints(self) -> Any:
        """The constraints of the parameters: that of df goes by the size of the matrices."""
        return {**FORMS, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    mean = formula(lambda d: _scalar(d.df) * d.covariance_matrix)

    @property
    def mode(self) -> Tensor:
        """NaN for df <= p + 1."""
        excess = self.df - (self._event_shape[-1] + 1)
        return _scalar(torch.where(excess > 0, excess, torch.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        own = v.diagonal(dim1=-2, dim2=-1)
        return _scalar(self.df) * (v.square() + own.unsqueeze(-1) * own.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Any = ()) -> Tensor:
        """Samples L A A^T L^T, with A lower triangular of independent entries: chi on the diagonal, normal below
        it."""
        p = self._event_shape[-1]
        a = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed()
        i, j = torch.tril_indices(p, p, offset=-1)
        a[..., i, j] = torch.randn(Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,), dtype=a.dtype, device=a.device)
        factor = self._unbroadcasted_scale_tril @ a
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        """Samples; singular ones are replaced up to `max_try_correction` times, by default 3 for a batch, 10 for one
        distribution."""
        if max_try_correction is None:
            max_try_correction = 3 if self._batch_shape else 10
        sample_shape = Size(sample_shape)
        with torch.no_grad():
            self._bartlett_sampling(sample_shape)  # PyTorch draws twice and keeps the second sample
        sample = self._bartlett_sampling(sample_shape)
        singular = self._singular(sample)
        if singular.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
        while max_try_correction > 0 and singular.any():
            max_try_correction -= 1
            fresh = self._bartlett_sampling((int(singular.sum()),))
            sample = torch.index_put(sample, (singular,), fresh)
            singular = torch.index_put(singular, (singular,), self._singular(fresh))
        return sample

    def _singular(self, sample: Tensor) -> Tensor:
        """Which samples, each a whole batch, hold a matrix that is not positive definite."""
        fine = self.support.check(sample)
        return ~fine.reshape(fine.shape[: fine.dim() - len(self._batch_shape)] + (-1,)).all(-1)

    def _log_norm(self, half: Tensor) -> Tensor:
        """The logarithm of 2^(n p / 2) det(V)^(n / 2) mvgamma_p(n / 2), for n / 2 = `half`."""
        p = self._event_shape[-1]
        log_det = p * math.log(2) + 2 * half_log_det(self._unbroadcasted_scale_tril)
        return half * log_det + half.mvlgamma(p)

    def _log_density(self, x: Tensor) -> Tensor:
        excess = self.df - self._event_shape[-1] - 1
        trace = torch.linalg.diagonal(torch.cholesky_solve(x, self._unbroadcasted_scale_tril)).sum(-1)
        return 0.5 * (excess * torch.linalg.slogdet(x).logabsdet - trace) - self._log_norm(self.df / 2)

    def entropy(self) -> Tensor:
        half, p = self.df / 2, self._event_shape[-1]
        more = (p + 1) / 2
        of_factor = (p * math.log(2) + 2 * half_log_det(self._unbroadcasted_scale_tril)) * more
        return of_factor + half.mvlgamma(p) + (more - half) * _multivariate_digamma(half, p) + p * half

    _natural_params = formula(lambda d: (-0.5 * d.precision_matrix, (d.df - d._event_shape[-1] - 1) / 2))

    def _log_normalizer(self, inverse: Any, power: Any) -> Tensor:  # type: ignore[override]
        p = self._event_shape[-1]
        half = power + (p + 1) / 2
        return half.mvlgamma(p) - half * torch.linalg.slogdet(-inverse).logabsdet
