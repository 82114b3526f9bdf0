"""The LKJ distribution of Cholesky factors of correlation matrices (Lewandowski, Kurowicka and Joe, 2009)."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.beta import Beta
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all, normal_noise

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower factors L of correlation matrices M = L L^T of density det(M)^(concentration - 1); samples by the onion
    method.

    Args: dim (int): n >= 2 of the n x n matrices; concentration (float or Tensor): > 0; 1 makes M uniform, more
    draws it to the identity. Raises ValueError for a smaller dim."""

    _parameters = ("concentration",)
    _copied = ("dim",)
    support = constraints.corr_cholesky
    arg_constraints = {"concentration": constraints.positive}
    concentration: Tensor

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (c,) = (self.concentration,) = broadcast_all(concentration)
        # The squared length of row i without its diagonal is beta distributed; row 0 has none. The onion method asks for a first
        # parameter of i / 2; PyTorch, whose numbers these are, takes i - 1/2, which is the same for 2 x 2 matrices only.
        row = (torch.arange(dim, dtype=c.dtype, device=c.device) - 1).clamp(min=0)
        self._beta = Beta(0.5 + row, c.unsqueeze(-1) + (dim - 2 - row) / 2)
        super().__init__(c.shape, (dim, dim), validate_args=validate_args)

    def _fill_expanded(self, source: Any, batch_shape: Size) -> None:
        super()._fill_expanded(source, batch_shape)
        self._beta = source._beta.expand((*batch_shape, source.dim))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        squares = self._beta.sample(sample_shape).unsqueeze(-1)
        below = normal_noise(self._extended_shape(sample_shape), squares).tril(-1)
        lengths = below.square().sum(-1, keepdim=True).sqrt()
        rows = squares.sqrt() * (below / lengths).nan_to_num()  # the first row has no direction
        rest = (1 - rows.square().sum(-1)).clamp(min=torch.finfo(rows.dtype).tiny)
        return rows + rest.sqrt().diag_embed()

    def _log_density(self, factor: Tensor) -> Tensor:
        n, c = self.dim, self.concentration
        # the Jacobian of L L^T adds n - i to the power 2 (concentration - 1) of the i-th entry
        power = 2 * (c.unsqueeze(-1) - 1) + torch.arange(n - 2, -1, -1, device=c.device)
        top = c + (n - 1) / 2
        log_volume = (n - 1) * (math.log(math.pi) / 2 - top.lgamma()) + (top - 0.5).mvlgamma(n - 1)
        return (power * factor.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1) - log_volume
