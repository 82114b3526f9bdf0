"""Matrices for tests: the same one as tensors may have it in memory."""

import numpy as np

import flambeau as torch


def layouts(values):
    """The same matrices in rows, in columns, and with gaps."""
    yield torch.from_numpy(values)
    yield torch.from_numpy(np.ascontiguousarray(values.swapaxes(-2, -1))).mT
    wide = np.zeros((*values.shape[:-2], 2 * values.shape[-2], 3 * values.shape[-1]), values.dtype)
    wide[..., ::2, ::3] = values
    yield torch.from_numpy(wide)[..., ::2, ::3]
