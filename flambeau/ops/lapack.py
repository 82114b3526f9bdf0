"""Factorizations of batches of matrices on NumPy arrays that numpy.linalg lacks or does otherwise: LU with its pivots, triangular
systems, the symmetric indefinite factorization, the exponential, Cholesky with the place where it fails.

Arrays have shape (*, m, n). The algorithms are LAPACK's (blocked right-looking LU, Bunch-Kaufman pivoting). Used by
ops.linalg and ops.linalg_decompositions, which keep the rules for gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK = 32


def _size(x: np.ndarray) -> np.ndarray:
    """What pivots are chosen by: |x|, or |re| + |im|."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def batched(a: np.ndarray) -> np.ndarray:
    """A copy with one batch dimension."""
    count = int(np.prod(a.shape[:-2], dtype=np.int64))
    return np.array(a, copy=True).reshape(count, *a.shape[-2:])


def lu(a: np.ndarray, pivot: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(LU, pivots counted from one, info): info is the first column without a pivot, counted from one, or 0."""
    made = batched(a)
    count, m, n = made.shape
    k = min(m, n)
    pivots = np.tile(np.arange(1, k + 1, dtype=np.int32), (count, 1))
    info = np.zeros(count, np.int32)
    every = np.arange(count)
    with np.errstate(all="ignore"):
        for start in range(0, k, BLOCK):
            stop = min(start + BLOCK, k)
            for j in range(start, stop):
                if pivot:
                    chosen = np.argmax(_size(made[:, j:, j]), axis=1) + j
                    pivots[:, j] = chosen + 1
                    rows = made[every, chosen]
                    made[every, chosen] = made[:, j]
                    made[:, j] = rows
                diagonal = made[:, j, j]
                info[(diagonal == 0) & (info == 0)] = j + 1
                divisor = np.where(diagonal == 0, 1, diagonal) if pivot else diagonal
                made[:, j + 1:, j] /= divisor[:, None]
                made[:, j + 1:, j + 1:stop] -= made[:, j + 1:, j, None] * made[:, j, None, j + 1:stop]
            if stop < n:
                corner = made[:, start:stop, start:stop]
                made[:, start:stop, stop:] = solve_triangular(corner, made[:, start:stop, stop:], False, True)
                made[:, stop:, stop:] -= made[:, stop:, start:stop] @ made[:, start:stop, stop:]
    return made.reshape(a.shape), pivots.reshape(*a.shape[:-2], k), info.reshape(a.shape[:-2])


def permutation(pivots: np.ndarray, m: int) -> np.ndarray:
    """The order of rows after the swaps that `pivots` (counted from one) tell."""
    flat = pivots.reshape(int(np.prod(pivots.shape[:-1], dtype=np.int64)), pivots.shape[-1])
    order = np.tile(np.arange(m), (flat.shape[0], 1))
    every = np.arange(flat.shape[0])
    for j in range(flat.shape[1]):
        other = flat[:, j].astype(np.int64) - 1
        moved = order[every, other]
        order[every, other] = order[:, j]
        order[:, j] = moved
    return order.reshape(*pivots.shape[:-1], m)


def solve_triangular(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """X with A X = B for triangular A; only that triangle is read. A zero on the diagonal gives inf or NaN."""
    n = a.shape[-1]
    x = np.array(np.broadcast_to(b, np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:]), copy=True)
    starts = list(range(0, n, BLOCK))
    with np.errstate(all="ignore"):
        for start in reversed(starts) if upper else starts:
            stop = min(start + BLOCK, n)
            done = slice(stop, n) if upper else slice(0, start)
            if done.stop > done.start:
                x[..., start:stop, :] -= a[..., start:stop, done] @ x[..., done, :]
            rows = range(stop - 1, start - 1, -1) if upper else range(start, stop)
            for i in rows:
                inside = slice(i + 1, stop) if upper else slice(start, i)
                if inside.stop > inside.start:
                    x[..., i, :] -= (a[..., i, None, inside] @ x[..., inside, :])[..., 0, :]
                if not unit:
                    x[..., i, :] /= a[..., i, i, None]
    return x


def cholesky(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(L, info) from the lower triangle: info is the order of the first leading minor that is not positive-definite, or 0."""
    try:
        factor = np.linalg.cholesky(a)
        if not np.isnan(factor).any():      # of which NumPy's LAPACK says nothing
            return factor, np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        pass
    made = batched(np.tril(a))
    info = np.zeros(made.shape[0], np.int32)
    for matrix, at in zip(made, range(len(made))):
        for j in range(matrix.shape[0]):
            pivot = matrix[j, j].real - np.vdot(matrix[j, :j], matrix[j, :j]).real
            if not pivot > 0:
                matrix[j, j] = pivot
                info[at] = j + 1
                break
            matrix[j, j] = root = np.sqrt(pivot)
            matrix[j + 1:, j] = (matrix[j + 1:, j] - matrix[j + 1:, :j] @ matrix[j, :j].conj()) / root
    return made.reshape(a.shape), info.reshape(a.shape[:-2])


def exponential(a: np.ndarray) -> np.ndarray:
    """exp of square matrices: the diagonal Pade approximant of order 13, scaled and squared, in double precision."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x = batched(a).astype(wide)
    n = x.shape[-1]
    sizes = np.abs(x).sum(-2).max(-1) if n else np.zeros(len(x))
    with np.errstate(all="ignore"):
        large = np.isfinite(sizes) & (sizes > 5.37)
        doublings = np.where(large, np.ceil(np.log2(np.where(large, sizes, 5.37) / 5.37)), 0).astype(int)
        x = x / (2.0 ** doublings)[:, None, None]
        b = (64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800., 129060195264000., 10559470521600.,
             670442572800., 33522128640., 1323241920., 40840800., 960960., 16380., 182., 1.)
        one = np.eye(n, dtype=wide)
        x2 = x @ x
        x4 = x2 @ x2
        x6 = x4 @ x2
        odd = x @ (x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one)
        even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
        made = np.linalg.solve(even - odd, even + odd) if n else x
        for i in range(int(doublings.max(initial=0))):
            more = doublings > i
            made[more] = made[more] @ made[more]
    return made.reshape(a.shape).astype(a.dtype)


# ---------------------------------------------------------------- symmetric indefinite: A = L D L^T with blocks of one and two

_ALPHA = (1 + 17 ** 0.5) / 8


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
        here = abs(a[k, k].real) if hermitian else _size(a[k:k + 1, k])[0]
        column = _size(a[k + 1:, k])
        at = k + 1 + int(np.argmax(column)) if len(column) else k
        largest = column.max() if len(column) else 0
        if max(here, largest) == 0 or np.isnan(here):
            info = info or k + 1
        else:
            if here < _ALPHA * largest:
                row = max(_size(a[at, k:at]).max(), _size(a[at + 1:, at]).max() if at + 1 < n else 0)
                there = abs(a[at, at].real) if hermitian else _size(a[at:at + 1, at])[0]
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
                rest = a[k + 1:, k]
                if len(rest):
                    pivot = a[k, k].real if hermitian else a[k, k]
                    a[k + 1:, k + 1:] -= np.tril(np.outer(rest, conj(rest)) / pivot)
                    rest /= pivot
            elif k + 2 < n:
                block = np.array([[a[k, k], conj(a[k + 1, k])], [a[k + 1, k], a[k + 1, k + 1]]])
                both = a[k + 2:, k:k + 2].copy()
                scaled = both @ np.linalg.inv(block)
                a[k + 2:, k + 2:] -= np.tril(scaled @ conj(both).T)
                a[k + 2:, k:k + 2] = scaled
        if step == 1:
            pivots[k] = other + 1
        else:
            pivots[k] = pivots[k + 1] = -(other + 1)
        k += step
    return info


def _swap(a: np.ndarray, k: int, first: int, other: int, step: int, hermitian: bool) -> None:
    """Exchange rows and columns `first` and `other` of the trailing lower triangle."""
    below = a[other + 1:, first].copy()
    a[other + 1:, first] = a[other + 1:, other]
    a[other + 1:, other] = below
    between = a[first + 1:other, first].copy()
    crossing = a[other, first + 1:other].copy()
    a[first + 1:other, first] = np.conj(crossing) if hermitian else crossing
    a[other, first + 1:other] = np.conj(between) if hermitian else between
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
    flat, swaps = batched(factor), pivots.reshape(-1, pivots.shape[-1])
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
        x[k + step:] -= a[k + step:, k:k + step] @ x[k:k + step]
        if step == 1:
            x[k] /= a[k, k]
        else:
            corner = a[k + 1, k]
            block = np.array([[a[k, k], np.conj(corner) if hermitian else corner], [corner, a[k + 1, k + 1]]])
            x[k:k + 2] = np.linalg.solve(block, x[k:k + 2])
        k += step
    k = n - 1
    while k >= 0:
        step = 1 if pivots[k] > 0 else 2
        start = k - step + 1
        lower = a[k + 1:, start:k + 1]
        x[start:k + 1] -= (lower.conj() if hermitian else lower).T @ x[k + 1:]
        other = abs(int(pivots[k])) - 1
        if other != k:
            x[[k, other]] = x[[other, k]]
        k -= step
