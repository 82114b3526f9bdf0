"""Low-rank approximation of gradients over several processes: the steps of PowerSGD that both its hooks share.

One step of subspace iteration (Vogels et al. 2019, PowerSGD: Practical Low-Rank Gradient Compression, algorithm 1): with M the
sum over processes, P = orthonormal(M Q), Q = M^T P / processes, and P Q^T stands for the mean. Matrices come in batches [n, rows,
columns]. Stands on public operators; powerSGD_hook uses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flambeau as torch


def worth_it(rows: int, columns: int, rank: int, rate: float) -> tuple[bool, int, int]:
    """Whether rank rows and columns are fewer by `rate` than the matrix's elements; those before and after."""
    before, after = rows * columns, (rows + columns) * rank
    return after * rate < before, before, after


def orthonormalize(matrices: Any, epsilon: float) -> None:
    """Make the columns of matrices[n, rows, rank] orthonormal, in place; epsilon is added to their lengths."""
    if epsilon == 0 and matrices.dtype in (torch.float32, torch.float64):
        matrices.copy_(torch.linalg.qr(matrices)[0])
        return
    for column in range(matrices.shape[2]):
        this, rest = matrices[:, :, column : column + 1], matrices[:, :, column + 1 :]
        length = torch.linalg.vector_norm(this, dim=1, keepdim=True)
        # A column of zeros stays one when nothing keeps its length from being zero.
        this.div_(length + epsilon if epsilon else torch.where(length == 0, torch.ones_like(length), length))
        if rest.shape[2]:
            rest.sub_((this * rest).sum(1, keepdim=True) * this)


def side(count: int) -> int:
    """Of the smallest square matrix with place for count numbers."""
    return math.isqrt(count - 1) + 1 if count else 0


def fill_normal(matrices: Sequence[Any], seed: int) -> None:
    """Fill matrices from a normal distribution, the same on every process, and leave the program's own random numbers alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for each in matrices:
            each.copy_(torch.randn(each.shape, dtype=each.dtype))


def carve(memory: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Views of these shapes into a flat tensor, one after another."""
    return [part.view(shape) for part, shape in zip(memory.split([math.prod(each) for each in shapes]), shapes, strict=True)]


def alike(tensors: Sequence[Any]) -> list[list[Any]]:
    """Tensors by shape, in the order in which shapes appear."""
    found: dict[tuple[int, ...], list[Any]] = {}
    for each in tensors:
        found.setdefault(tuple(each.shape), []).append(each)
    return list(found.values())
