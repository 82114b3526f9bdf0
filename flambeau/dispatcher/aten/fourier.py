"""Fourier transforms with PyTorch's numbers for normalizations (0 none, 1 by the root of the size, 2 by the size).

Stands on ops.fft.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops import fft


def _norm(normalization: int, forward: bool) -> str:
    """torch.fft's word for a normalization, of a transform in that direction."""
    return ("backward" if forward else "forward", "ortho", "forward" if forward else "backward")[normalization]


@implementation()
def _fft_c2c(self: Tensor, dim: Any, normalization: int, forward: bool) -> Any:
    return (fft.fftn if forward else fft.ifftn)(self, dim=dim, norm=_norm(normalization, forward))


@implementation()
def _fft_r2c(self: Tensor, dim: Any, normalization: int, onesided: bool) -> Any:
    return (fft.rfftn if onesided else fft.fftn)(self, dim=dim, norm=_norm(normalization, True))


@implementation()
def _fft_c2r(self: Tensor, dim: Any, normalization: int, last_dim_size: int) -> Any:
    sizes = [self._layout.shape[d] for d in dim[:-1]] + [last_dim_size]
    return fft.irfftn(self, s=sizes, dim=dim, norm=_norm(normalization, False))
