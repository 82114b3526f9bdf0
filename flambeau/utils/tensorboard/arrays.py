"""Numbers and tensors as NumPy arrays, which is what summaries are made from."""

from __future__ import annotations

from typing import Any

import numpy as np

import flambeau as torch

__all__ = ["make_np"]


def make_np(x: Any) -> np.ndarray:
    """An array of a tensor, an array or a number (one element). Raises NotImplementedError for anything else."""
    if isinstance(x, list):
        raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, torch.Tensor):
        if x.dtype is torch.bfloat16:
            x = x.to(torch.float16)
        return x.detach().cpu().numpy()
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")
