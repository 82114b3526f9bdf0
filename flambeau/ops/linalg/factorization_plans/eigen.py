"""Eigenvalues and eigenvectors of Hermitian matrices: plans of codegen.factorization.eigh.

Stands on ops.linalg.batched_plans; used by ops.linalg.spectral.
"""

from __future__ import annotations

from flambeau.base.dtype import int32
from flambeau.base.layout import Layout
from flambeau.codegen.factorization.eigh import eigh_phases
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.batched_plans import batch_of, evenly, in_columns, infos, keep, plain, plans


def _lower(A: Tensor, upper: bool) -> Tensor:
    """A with what is read in its lower triangle."""
    if not upper:
        return evenly(A)
    return evenly(A.mH.resolve_conj() if A.is_complex() else A.mT)


def _plan(a: Layout, slot: int, vectors: bool) -> tuple[list, int, int]:
    """(phases, scratch bytes, multiplications) for the input in buffer `slot`."""
    even = batch_of(a)
    assert even is not None
    count, stride = even
    n = a.shape[-1]
    phases, scratch = eigh_phases(a.dtype.name, count, n, (slot, stride, *a.strides[-2:]), vectors)
    return phases, scratch, count * (60 * n * n + 4 * n**3)


def _real(a: Layout) -> Layout:
    return plain(a.shape[:-1], a, a.dtype.to_real() if a.dtype.is_complex else a.dtype)


def _none_failed(A: Tensor) -> Tensor:
    return A.new_zeros(A._layout.shape[:-2], dtype=int32)


def factor(A: Tensor, upper: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """(eigenvalues ascending, eigenvectors in columns, info) of (*, n, n), of which one triangle is read."""
    if not A._layout.numel:
        return A.new_empty(A._layout.shape[:-1], dtype=_real(A._layout).dtype), A.new_empty(A._layout.shape), _none_failed(A)
    launch = plans.get(("eigh", A._layout)) if not upper else None
    if launch is None:
        A = _lower(A, upper)
        a = A._layout
        launch = plans.get(("eigh", a))
        if launch is None:
            phases, scratch, work = _plan(a, 3, True)
            launch = keep(("eigh", a), phases, [_real(a), in_columns(a.shape, a), infos(a)], [a], scratch, work)
    return launch(None, None, None, A)


def values(A: Tensor, upper: bool = False) -> tuple[Tensor, Tensor]:
    """(eigenvalues ascending, info)."""
    if not A._layout.numel:
        return A.new_empty(A._layout.shape[:-1], dtype=_real(A._layout).dtype), _none_failed(A)
    launch = plans.get(("eigvalsh", A._layout)) if not upper else None
    if launch is None:
        A = _lower(A, upper)
        a = A._layout
        launch = plans.get(("eigvalsh", a))
        if launch is None:
            phases, scratch, work = _plan(a, 2, False)
            launch = keep(("eigvalsh", a), phases, [_real(a), infos(a)], [a], scratch, work)
    return launch(None, None, A)
