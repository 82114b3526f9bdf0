"""Transforms of vectors and matrices: softmax, stick breaking, Cholesky factors, positive definite matrices,
reshaping."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.transform import Transform, at_least
from flambeau.distributions.transforms_elementwise import _OfOneKind, inside_unit
from flambeau.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from flambeau.nn.functional import logsigmoid, pad, softplus

__all__ = [
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "ReshapeTransform",
    "SoftmaxTransform",
    "StickBreakingTransform",
]


class ReshapeTransform(Transform):
    """Reshapes the last dimensions of a tensor.

    Args: in_shape, out_shape (torch.Size): of an event, before and after; cache_size. Raises ValueError for other
    numbers of elements."""

    _arguments = ("in_shape", "out_shape")
    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = map(Size, (in_shape, out_shape))
        super().__init__(cache_size)
        elements = {shape.numel() for shape in (self.in_shape, self.out_shape)}
        if len(elements) > 1:
            raise ValueError("in_shape, out_shape have different numbers of elements")

    domain = constraints.dependent_property(lambda t: constraints.independent(constraints.real, len(t.in_shape)))
    codomain = constraints.dependent_property(lambda t: constraints.independent(constraints.real, len(t.out_shape)))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(_batch(x, self.in_shape) + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(_batch(y, self.out_shape) + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(_batch(x, self.in_shape))

    def forward_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _batch(x: Tensor, event: Size) -> Size:
    return x.shape[: x.dim() - len(event)]


def _exchanged(shape: Any, old: Size, new: Size) -> Size:
    """The shape with an event of the new shape for one of the old."""
    at_least(len(old), shape)
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != old:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return Size(shape[:cut]) + new


def _longer(by: int) -> Any:
    """A method: the shape with a last dimension longer by this."""

    def change(transform: Any, shape: Any) -> Any:
        at_least(1, shape)
        return shape[:-1] + (shape[-1] + by,) if by else shape

    return change


class _OntoSimplex(_OfOneKind):
    """From real vectors to shares of one."""

    domain = constraints.real_vector
    codomain = constraints.simplex


class SoftmaxTransform(_OntoSimplex):
    """y = softmax(x) over the last dimension; not bijective, the inverse takes the logarithm."""

    forward_shape = inverse_shape = _longer(0)

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(_OntoSimplex):
    """From n real numbers to n + 1 shares of a stick: each takes the part sigmoid(x_i - log(n - i)) of what is
    left, the last the rest."""

    bijective = True
    forward_shape, inverse_shape = _longer(1), _longer(-1)

    def _log_others(self, x: Tensor) -> Tensor:
        """log(n - i): how many shares come behind each."""
        return torch.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        part = inside_unit((x - self._log_others(x)).sigmoid())
        return pad(part, (0, 1), value=1) * pad((1 - part).cumprod(-1), (1, 0), value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        share = y[..., :-1]
        left = (1 - share.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return self._log_others(share) + (share.log() - left.log())

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logit = x - self._log_others(x)
        # of each, log(1 - part) + log(share)
        return (logsigmoid(-logit) + y[..., :-1].log()).sum(-1)


class _OfMatrices(_OfOneKind):
    """From square matrices."""

    domain = constraints.real_matrix


def _with_diagonal(x: Tensor, function: Any) -> Tensor:
    """The lower triangle, with a function of its diagonal."""
    return function(x.diagonal(dim1=-2, dim2=-1)).diag_embed() + x.tril(-1)


class LowerCholeskyTransform(_OfMatrices):
    """From square matrices to lower triangular ones with a positive diagonal: the exponential of the diagonal,
    zeros above it."""

    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return _with_diagonal(x, torch.exp)

    def _inverse(self, y: Tensor) -> Tensor:
        return _with_diagonal(y, torch.log)


class PositiveDefiniteTransform(_OfMatrices):
    """From square matrices to positive definite ones: L L^T with the L of LowerCholeskyTransform."""

    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = _with_diagonal(x, torch.exp)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return _with_diagonal(torch.linalg.cholesky(y), torch.log)


class CorrCholeskyTransform(Transform):
    """From n (n - 1) / 2 real numbers to the Cholesky factor, n x n, of a correlation matrix.

    The tangents z = tanh(x) are the lower triangle, row by row. Row i breaks a stick of length one by its squares:
    entry j is z_ij times the square root of what entries before it have left, the diagonal entry the square root of
    the rest (Lewandowski, Kurowicka and Joe, "Generating random correlation matrices", 2009; Stan's reference
    manual)."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        eps = torch.finfo(x.dtype).eps
        z = vec_to_tril_matrix(x.tanh().clamp(eps - 1, 1 - eps), -1)
        left = (1 - z * z).sqrt().cumprod(-1)
        return _with_diagonal(z, torch.ones_like) * pad(left[..., :-1], (1, 0), value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad(1 - (y * y).cumsum(-1)[..., :-1], (1, 0), value=1)
        z = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()
        return 0.5 * (z.log1p() - (-z).log1p())  # atanh

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        of_stick = tril_matrix_to_vec(left, -2).log().sum(-1) / 2
        of_tanh = 2 * (math.log(2.0) - x - softplus(-2 * x)).sum(-1)
        return of_stick + of_tanh

    def forward_shape(self, shape: Any) -> Any:
        at_least(1, shape)
        n = (1 + math.isqrt(1 + 8 * shape[-1])) // 2
        if n * (n - 1) != 2 * shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Any) -> Any:
        at_least(2, shape)
        *batch, rows, n = shape
        if rows != n:
            raise ValueError("Input is not square")
        return Size((*batch, n * (n - 1) // 2))
