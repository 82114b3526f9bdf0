"""Singular values and vectors: plans of codegen.factorization.svd.

Stands on ops.linalg.batched_plans and qr; used by ops.linalg.spectral.
"""

from __future__ import annotations

from flambeau.base.dtype import int32
from flambeau.base.layout import Layout
from flambeau.codegen.factorization.svd import svd_phases
from flambeau.core.tensor.lazy_conjugate import resolved
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.batched_plans import batch_of, evenly, failed, in_columns, infos, keep, laid_in_columns, plain, plans
from flambeau.ops.linalg.factorization_plans import qr
from flambeau.ops.linalg.matmul import adjoint, matmul

LONG_FROM = 24  # the smaller size from which it pays to find a triangle first


def _plan(a: Layout, slot: int, vectors: str) -> tuple[list, int, int]:
    """(phases, scratch bytes, multiplications) for the input in buffer `slot`."""
    even = batch_of(a)
    assert even is not None
    count, stride = even
    m, n = a.shape[-2:]
    phases, scratch = svd_phases(a.dtype.name, count, m, n, (slot, stride, *a.strides[-2:]), vectors)
    return phases, scratch, count * 8 * m * n * min(m, n)


def _values(a: Layout) -> Layout:
    return plain((*a.shape[:-2], min(a.shape[-2:])), a, a.dtype.to_real() if a.dtype.is_complex else a.dtype)


def _is_long(a: Layout) -> bool:
    """Whether there are so many more rows than columns, or columns than rows, that a triangle of them is found first."""
    m, n = a.shape[-2:]
    return max(m, n) >= 2 * min(m, n) and min(m, n) >= LONG_FROM


def _upright(A: Tensor) -> Tensor:
    """A, or its adjoint if it has more columns than rows."""
    return resolved(adjoint(A)) if A._layout.shape[-2] < A._layout.shape[-1] else A


def _by_triangle(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(U, values, Vh, info) of Q R from those of R."""
    Q, R = qr.factor(_upright(A), False)
    U, values, Vh, info = factor(R, False)
    U = matmul(Q, U)
    if A._layout.shape[-2] < A._layout.shape[-1]:
        U, Vh = adjoint(Vh), adjoint(U)
    return laid_in_columns(U), values, laid_in_columns(Vh), info


def factor(A: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(U, singular values descending, adjoint of V, info) of (*, m, n), which has elements; all of U and V, or their first
    min(m, n) columns. Info is -4 where there is NaN."""
    launch = plans.get(("svd", A._layout, full))
    if launch is None:
        if not full and _is_long(A._layout):
            made = _by_triangle(A)
            if not failed(made[3]):
                return made
        A = evenly(A)
        a = A._layout
        *lead, m, n = a.shape
        phases, scratch, work = _plan(a, 4, "full" if full else "reduced")
        k = min(m, n)
        outputs = [in_columns((*lead, m, m if full else k), a), _values(a), in_columns((*lead, n if full else k, n), a), infos(a)]
        launch = keep(("svd", a, full), phases, outputs, [a], scratch, work)
    return launch(None, None, None, None, A)


def values(A: Tensor) -> tuple[Tensor, Tensor]:
    """(singular values descending, info)."""
    if not A._layout.numel:
        layout = _values(A._layout)
        return A.new_zeros(layout.shape, dtype=layout.dtype), A.new_zeros(A._layout.shape[:-2], dtype=int32)
    launch = plans.get(("svdvals", A._layout))
    if launch is None:
        if _is_long(A._layout):
            made, info = values(qr.triangle(_upright(A)))
            if not failed(info):
                return made, info
        A = evenly(A)
        a = A._layout
        phases, scratch, work = _plan(a, 2, "none")
        launch = keep(("svdvals", a), phases, [_values(a), infos(a)], [a], scratch, work)
    return launch(None, None, A)
