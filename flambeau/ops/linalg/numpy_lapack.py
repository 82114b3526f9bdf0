"""What numpy.linalg lacks, on NumPy arrays: the symmetric indefinite factorization with LAPACK's (Bunch-Kaufman) pivoting, and
systems from it.

Arrays have shape (*, m, n). Used by ops.linalg.lu, which keeps the rules for gradients.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def _size(x: np.ndarray) -> np.ndarray:
    """What pivots are chosen by: |x|, or |re| + |im|."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def batched(a: np.ndarray) -> np.ndarray:
    """A copy with one batch dimension."""
    count = int(np.prod(a.shape[:-2], dtype=np.int64))
    return np.array(a, copy=True).reshape(count, *a.shape[-2:])


# ---------------------------------------------------------------- symmetric indefinite: A = L D L^T with blocks of one and two

_ALPHA = (1 + 17**0.5) / 8


def ldl(a: np.ndarray, hermitian: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(LD, pivots, info) of the lower triangle as LAPACK's sytrf and hetrf give them; negative pivots mark blocks of two."""
    flat = batched(a)
    pivots = np.zeros((len(flat), a.shape[-1]), np.int32)
    info = np.zeros(len(flat), np.int32)
    for matrix, swaps, at in zip(flat, pivots, range(len(flat))):
        info[at] = _ldl(matrix, swaps, hermitian and a.dtype.kind == "c")
    return flat.reshape(a.shape), pivots.reshape(a.shape[:-1]), info.reshape(a.shape[:-2])


def _ldl(a: np.ndarray, pivots: np.ndarray, hermitian: bool) -> int:
    n, k, info = len(a), 0, 0

    def conj(x: Any) -> Any:
        return np.conj(x) if hermitian else x

    while k < n:
        step, other = 1, k
        here = abs(a[k, k].real) if hermitian else _size(a[k : k + 1, k])[0]
        column = _size(a[k + 1 :, k])
        at = k + 1 + int(np.argmax(column)) if len(column) else k
        largest = column.max() if len(column) else 0
        if max(here, largest) == 0 or np.isnan(here):
            info = info or k + 1
        else:
            if here < _ALPHA * largest:
                row = max(_size(a[at, k:at]).max(), _size(a[at + 1 :, at]).max() if at + 1 < n else 0)
                there = abs(a[at, at].real) if hermitian else _size(a[at : at + 1, at])[0]
                if here >= _ALPHA * largest * (largest / row):
                    pass
                elif there >= _ALPHA * row:
                    other = at
                else:
                    step, other = 2, at
            first = k + step - 1
            if other != first:
                _swap(a, k, first, other, step, hermitian)
            elif hermitian:
                a[first, first] = a[first, first].real
            if step == 1:
                rest = a[k + 1 :, k]
                if len(rest):
                    pivot = a[k, k].real if hermitian else a[k, k]
                    a[k + 1 :, k + 1 :] -= np.tril(np.outer(rest, conj(rest)) / pivot)
                    rest /= pivot
            elif k + 2 < n:
                block = np.array([[a[k, k], conj(a[k + 1, k])], [a[k + 1, k], a[k + 1, k + 1]]])
                both = a[k + 2 :, k : k + 2].copy()
                scaled = both @ np.linalg.inv(block)
                a[k + 2 :, k + 2 :] -= np.tril(scaled @ conj(both).T)
                a[k + 2 :, k : k + 2] = scaled
        if step == 1:
            pivots[k] = other + 1
        else:
            pivots[k] = pivots[k + 1] = -(other + 1)
        k += step
    return info


def _swap(a: np.ndarray, k: int, first: int, other: int, step: int, hermitian: bool) -> None:
    """Exchange rows and columns `first` and `other` of the trailing lower triangle."""
    below = a[other + 1 :, first].copy()
    a[other + 1 :, first] = a[other + 1 :, other]
    a[other + 1 :, other] = below
    between = a[first + 1 : other, first].copy()
    crossing = a[other, first + 1 : other].copy()
    a[first + 1 : other, first] = np.conj(crossing) if hermitian else crossing
    a[other, first + 1 : other] = np.conj(between) if hermitian else between
    if hermitian:
        a[other, first] = np.conj(a[other, first])
        a[first, first], a[other, other] = a[other, other].real, a[first, first].real
    else:
        a[first, first], a[other, other] = a[other, other], a[first, first]
    if step == 2:
        a[first, k], a[other, k] = a[other, k], a[first, k]
        if hermitian:
            a[k, k] = a[k, k].real


def ldl_solve(factor: np.ndarray, pivots: np.ndarray, b: np.ndarray, hermitian: bool) -> np.ndarray:
    """X with A X = B from the results of `ldl`; batch dimensions are equal."""
    made = batched(b)
    flat, swaps = batched(factor), pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    hermitian = hermitian and factor.dtype.kind == "c"
    for x, a, p in zip(made, flat, swaps):
        _ldl_solve(x, a, p, hermitian)
    return made.reshape(b.shape)


def _ldl_solve(x: np.ndarray, a: np.ndarray, pivots: np.ndarray, hermitian: bool) -> None:
    n, k = len(a), 0
    while k < n:
        step = 1 if pivots[k] > 0 else 2
        first, other = k + step - 1, abs(int(pivots[k])) - 1
        if other != first:
            x[[first, other]] = x[[other, first]]
        x[k + step :] -= a[k + step :, k : k + step] @ x[k : k + step]
        if step == 1:
            x[k] /= a[k, k]
        else:
            corner = a[k + 1, k]
            block = np.array([[a[k, k], np.conj(corner) if hermitian else corner], [corner, a[k + 1, k + 1]]])
            x[k : k + 2] = np.linalg.solve(block, x[k : k + 2])
        k += step
    k = n - 1
    while k >= 0:
        step = 1 if pivots[k] > 0 else 2
        start = k - step + 1
        lower = a[k + 1 :, start : k + 1]
        x[start : k + 1] -= (lower.conj() if hermitian else lower).T @ x[k + 1 :]
        other = abs(int(pivots[k])) - 1
        if other != k:
            x[[k, other]] = x[[other, k]]
        k -= step
