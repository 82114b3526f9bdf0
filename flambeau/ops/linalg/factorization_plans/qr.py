"""QR factorizations and products with Q: plans of codegen.factorization.qr.

Stands on ops.linalg.batched_plans; used by ops.linalg.qr and svd.
"""

from __future__ import annotations

from flambeau.base.layout import Layout
from flambeau.codegen.factorization.qr import Matrices, Work, qr_phases
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.batched_plans import even_batch, evenly, in_columns, keep, plain, plans


def _matrices(slot: int, layout: Layout) -> tuple[int, Matrices]:
    """(how many, where) the matrices of the tensor in buffer `slot` are."""
    count, stride = even_batch(layout)
    return count, Matrices(slot, stride, *layout.strides[-2:])


def factor(A: Tensor, complete: bool) -> tuple[Tensor, Tensor]:
    """(Q, R) of (*, m, n): all m columns of Q, or min(m, n)."""
    launch = plans.get(("qr", A._layout, complete))
    if launch is None:
        A = evenly(A)
        a = A._layout
        *lead, m, n = a.shape
        k = min(m, n)
        width = m if complete else k
        count, source = _matrices(2, a)
        phases, scratch = qr_phases(a.dtype.name, count, Work(m, n, k, source, r=1, r_rows=width, q=0, q_columns=width))
        outputs = [in_columns((*lead, m, width), a), in_columns((*lead, width, n), a)]
        launch = keep(("qr", a, complete), phases, outputs, [a], scratch, 4 * count * m * n * k)
    return launch(None, None, A)


def triangle(A: Tensor) -> Tensor:
    """R of (*, m, n), min(m, n) rows."""
    launch = plans.get(("qr triangle", A._layout))
    if launch is None:
        A = evenly(A)
        a = A._layout
        *lead, m, n = a.shape
        k = min(m, n)
        count, source = _matrices(1, a)
        phases, scratch = qr_phases(a.dtype.name, count, Work(m, n, k, source, r=0, r_rows=k))
        launch = keep(("qr triangle", a), phases, [in_columns((*lead, k, n), a)], [a], scratch, 2 * count * m * n * k)
    return launch(None, A)


def reflectors(A: Tensor) -> tuple[Tensor, Tensor]:
    """(a, tau): R with the reflectors below its diagonal, and their factors."""
    launch = plans.get(("geqrf", A._layout))
    if launch is None:
        A = evenly(A)
        a = A._layout
        *lead, m, n = a.shape
        k = min(m, n)
        count, source = _matrices(2, a)
        phases, scratch = qr_phases(a.dtype.name, count, Work(m, n, k, source, r=0, r_rows=m, raw=True, tau=1))
        launch = keep(("geqrf", a), phases, [in_columns(a.shape, a), plain((*lead, k), a)], [a], scratch, 2 * count * m * n * k)
    return launch(None, None, A)


def orthogonal(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns, as many as A's, of the product of the reflectors in A and tau."""
    launch = plans.get(("orgqr", A._layout, tau._layout))
    if launch is None:
        A, tau = evenly(A), tau.contiguous()
        a, t = A._layout, tau._layout
        *_, m, n = a.shape
        k = t.shape[-1]
        count, source = _matrices(1, a)
        work = Work(m, k, k, source, factors=(2, k), q=0, q_columns=n)
        phases, scratch = qr_phases(a.dtype.name, count, work)
        launch = keep(("orgqr", a, t), phases, [in_columns(a.shape, a)], [a, t], scratch, 2 * count * m * n * k)
    return launch(None, A, tau)


def multiply(A: Tensor, tau: Tensor, other: Tensor, adjoint: bool) -> Tensor:
    """Q other, or with the adjoint of Q, the full product of the reflectors in A and tau; equal batches."""
    launch = plans.get(("ormqr", A._layout, tau._layout, other._layout, adjoint))
    if launch is None:
        A, tau, other = evenly(A), tau.contiguous(), evenly(other)
        a, t, b = A._layout, tau._layout, other._layout
        m, k = a.shape[-2], t.shape[-1]
        columns = b.shape[-1]
        count, source = _matrices(1, a)
        start = _matrices(3, b)[1]
        work = Work(m, k, k, source, factors=(2, k), q=0, q_columns=columns, start=start, forward=adjoint)
        phases, scratch = qr_phases(a.dtype.name, count, work)
        amount = 2 * count * m * columns * k
        launch = keep(("ormqr", a, t, b, adjoint), phases, [in_columns(b.shape, b)], [a, t, b], scratch, amount)
    return launch(None, A, tau, other)
