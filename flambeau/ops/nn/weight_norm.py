"""Weights by their direction and their norm: torch._weight_norm and torch.norm_except_dim.

Stands on ops.reduction; loaded when a program asks for it.
"""

from __future__ import annotations

from flambeau.core.operator.define import composite
from flambeau.core.tensor.tensor import Tensor

__all__ = ["_weight_norm", "norm_except_dim"]


@composite(method=False)
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The p-norm over all dimensions but `dim`, which are kept with size 1; over all of them for dim=-1."""
    if dim == -1:
        return v.norm(pow)
    return v.norm(pow, [d for d in range(v._layout.ndim) if d != dim % v._layout.ndim], keepdim=True)


@composite(method=False)
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """g * v / |v|, the norm over all dimensions but `dim`; Salimans and Kingma, https://arxiv.org/abs/1602.07868."""
    return v * (g / norm_except_dim(v, 2, dim))
