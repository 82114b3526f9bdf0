"""Singular values and vectors of batches of tensors: plans of codegen.svd, kept by the operands' layouts.

No function here checks arguments or records. Stands on ops.matrix_plans; used by ops.linalg_decompositions.
"""

from __future__ import annotations

from flambeau.base.dtype import int32
from flambeau.base.layout import Layout
from flambeau.codegen.svd import svd_phases
from flambeau.core.tensor import Tensor
from flambeau.ops.matrix_plans import batch_of, evenly, in_columns, infos, keep, plain, plans


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


def factor(A: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(U, singular values descending, adjoint of V, info) of (*, m, n), which has elements; all of U and V, or their first
    min(m, n) columns. Info is -4 where there is NaN."""
    launch = plans.get(("svd", A._layout, full))
    if launch is None:
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
        values = _values(A._layout)
        return A.new_zeros(values.shape, dtype=values.dtype), A.new_zeros(A._layout.shape[:-2], dtype=int32)
    launch = plans.get(("svdvals", A._layout))
    if launch is None:
        A = evenly(A)
        a = A._layout
        phases, scratch, work = _plan(a, 2, "none")
        launch = keep(("svdvals", a), phases, [_values(a), infos(a)], [a], scratch, work)
    return launch(None, None, A)
