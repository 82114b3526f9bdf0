"""Fourier transforms with PyTorch's numbers for normalizations (0 none, 1 by the root of the size, 2 by the size).

Stands on ops.fft.transforms.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.fft import transforms


def _norm(normalization: int, forward: bool) -> str:
    """torch.fft's word for a normalization, of a transform in that direction."""
    return ("backward" if forward else "forward", "ortho", "forward" if forward else "backward")[normalization]


@implementation()
def _fft_c2c(self: Tensor, dim: Any, normalization: int, forward: bool) -> Any:
    return (transforms.fftn if forward else transforms.ifftn)(self, dim=dim, norm=_norm(normalization, forward))


@implementation()
def _fft_r2c(self: Tensor, dim: Any, normalization: int, onesided: bool) -> Any:
    return (transforms.rfftn if onesided else transforms.fftn)(self, dim=dim, norm=_norm(normalization, True))


@implementation()
def _fft_c2r(self: Tensor, dim: Any, normalization: int, last_dim_size: int) -> Any:
    sizes = [self._layout.shape[d] for d in dim[:-1]] + [last_dim_size]
    return transforms.irfftn(self, s=sizes, dim=dim, norm=_norm(normalization, False))
