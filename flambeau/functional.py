"""torch.functional: the functions of the namespace that PyTorch writes in Python, where the code of graphs calls them."""

from typing import Any

import flambeau
from flambeau import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    cdist,
    chain_matmul,
    einsum,
    istft,
    lu,
    meshgrid,
    norm,
    split,
    stft,
    tensordot,
    unique,
    unique_consecutive,
    unravel_index,
)

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "einsum",
    "istft",
    "lu",
    "meshgrid",
    "norm",
    "split",
    "stft",
    "tensordot",
    "unique",
    "unique_consecutive",
    "unravel_index",
]


def __getattr__(name: str) -> Any:
    """torch.functional.F, as programs write torch.nn.functional."""
    if name == "F":
        return flambeau.nn.functional
    raise AttributeError(f"module 'flambeau.functional' has no attribute {name!r}")
