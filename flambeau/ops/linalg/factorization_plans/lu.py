"""LU factorizations, linear systems, inverses, determinants and triangular systems: plans of codegen.factorization's lu,
lu_factors, determinant and triangular.

Stands on ops.linalg.batched_plans; used by ops.linalg.matrix_functions, ops.linalg.lu and ops.linalg.solve.
"""

from __future__ import annotations

from flambeau.base import geometry
from flambeau.base.dtype import int32
from flambeau.base.layout import Layout
from flambeau.codegen.factorization.determinant import determinant_phases
from flambeau.codegen.factorization.lu import lu_phases
from flambeau.codegen.factorization.lu_factors import factors_phases, permutation_phases
from flambeau.codegen.factorization.triangular import BEFORE, BEHIND, Block, Triangle, solve_phase
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.batched_plans import batches, even_batch, evenly, expanded, in_columns, infos, keep, plain, plans


def _factor_layouts(a: Layout) -> list[Layout]:
    """Of LU, the pivots and the infos."""
    return [in_columns(a.shape, a), plain((*a.shape[:-2], min(a.shape[-2:])), a, int32), infos(a)]


def _factor_phases(a: Layout, slot: int, pivot: bool = True) -> tuple[list, int, int]:
    """(phases, scratch bytes, multiplications) of LU factorizations of the input in buffer `slot`."""
    m, n = a.shape[-2:]
    count, stride = even_batch(a)
    phases, scratch = lu_phases(a.dtype.name, count, m, n, (slot, stride, *a.strides[-2:]), pivot)
    return phases, scratch, count * m * n * min(m, n)


def factor(A: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """(LU, pivots, info) of (*, m, n)."""
    launch = plans.get(("lu", A._layout, pivot))
    if launch is None:
        A = evenly(A)
        a = A._layout
        phases, scratch, work = _factor_phases(a, 3, pivot)
        launch = keep(("lu", a, pivot), phases, _factor_layouts(a), [a], scratch, work)
    return launch(None, None, None, A)


def _factors(lu: Layout, slot: int, adjoint: bool, turned: bool, batch: int) -> list[Triangle]:
    """L and U in the buffer `slot`, in the order in which A X = B is solved by them; with the adjoint of A, or (`turned`) with
    its transpose."""
    row, column = lu.strides[-2:]
    lower = Triangle(slot, batch, row, column, False, unit=True)
    upper = Triangle(slot, batch, row, column, True)
    if not (adjoint or turned):
        return [lower, upper]
    return [upper.adjoint(adjoint), lower.adjoint(adjoint)]


def _solution(batch: tuple[int, ...], b: Layout, left: bool) -> Layout:
    """X's layout: in columns, or in rows if it stands on the left."""
    shape = (*batch, *b.shape[-2:])
    return in_columns(shape, b) if left else plain(shape, b)


def _sides(slot: int, layout: Layout, left: bool) -> Block:
    """The right-hand sides or solutions in a buffer; X A = B is A^T X^T = B^T."""
    row, column = layout.strides[-2:]
    return Block(slot, even_batch(layout)[1], *((row, column) if left else (column, row)))


def solve(A: Tensor, B: Tensor, left: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(LU, pivots, info, X) with A X = B, or X A = B; batches broadcast, LU's are A's."""
    launch = plans.get(("solve", A._layout, B._layout, left))
    if launch is not None:
        return launch(None, None, None, None, A, B)
    if A._layout.shape[:-2] != B._layout.shape[:-2]:
        factors = factor(A)
        return *factors, lu_solve(factors[0], factors[1], B, left)
    A, B = evenly(A), evenly(B)
    a, b = A._layout, B._layout
    outputs = [*_factor_layouts(a), _solution(a.shape[:-2], b, left)]
    phases, scratch, work = _factor_phases(a, 4)
    n, columns = a.shape[-1], b.shape[-1 if left else -2]
    lu = _factors(outputs[0], 0, False, not left, n * n)
    solving, more = solve_phase(
        a.dtype.name,
        batches(a.shape),
        n,
        columns,
        _sides(5, b, left),
        _sides(3, outputs[3], left),
        lu,
        BEFORE if left else BEHIND,
        (1, n),
    )
    keep(("solve", a, b, left), phases + solving, outputs, [a, b], max(scratch, more), work + batches(a.shape) * n * n * columns)
    return solve(A, B, left)


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B, X A = B, or with the adjoint of A, from LU and pivots; batches broadcast."""
    key = ("lu solve", LU._layout, pivots._layout, B._layout, left, adjoint)
    launch = plans.get(key)
    if launch is not None:
        return launch(None, LU, pivots, B)
    batch = tuple(geometry.broadcast(LU._layout.shape[:-2], B._layout.shape[:-2]))
    LU, B = expanded(LU, batch), expanded(B, batch)
    pivots = expanded(pivots.unsqueeze(-1), batch).squeeze(-1)
    if pivots._layout.strides[-1] != 1:
        pivots = pivots.contiguous()
    lu, b = LU._layout, B._layout
    out = _solution(batch, b, left)
    n, columns = lu.shape[-1], b.shape[-1 if left else -2]
    # X A = B is A^T X^T = B^T, and X A^H = B is conj(A) X^T = B^T
    plain_order = left != adjoint
    passes = _factors(lu, 1, adjoint and left, not left and not adjoint, even_batch(lu)[1])
    if adjoint and not left:
        passes = [triangle._replace(conjugated=True) for triangle in passes]
    order = even_batch(Layout.of((*batch, *pivots._layout.shape[-1:], 1), (*pivots._layout.strides, 1), int32, lu.device))
    phases, scratch = solve_phase(
        lu.dtype.name,
        batches(b.shape),
        n,
        columns,
        _sides(3, b, left),
        _sides(0, out, left),
        passes,
        BEFORE if plain_order else BEHIND,
        (2, order[1]),
    )
    keep(
        ("lu solve", lu, pivots._layout, b, left, adjoint),
        phases,
        [out],
        [lu, pivots._layout, b],
        scratch,
        batches(b.shape) * n * n * columns,
    )
    return lu_solve(LU, pivots, B, left, adjoint)


def inverse(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(LU, pivots, info, inverse) of (*, n, n)."""
    launch = plans.get(("inverse", A._layout))
    if launch is None:
        A = evenly(A)
        a = A._layout
        n = a.shape[-1]
        outputs = [*_factor_layouts(a), in_columns(a.shape, a)]
        phases, scratch, work = _factor_phases(a, 4)
        solving, more = solve_phase(
            a.dtype.name,
            batches(a.shape),
            n,
            n,
            None,
            _sides(3, outputs[3], True),
            _factors(outputs[0], 0, False, False, n * n),
            BEFORE,
            (1, n),
        )
        launch = keep(("inverse", a), phases + solving, outputs, [a], max(scratch, more), 2 * work)
    return launch(None, None, None, None, A)


def determinant(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(LU, pivots, info, determinant) of (*, n, n)."""
    launch = plans.get(("determinant", A._layout))
    if launch is None:
        A = evenly(A)
        a = A._layout
        phases, scratch, work = _factor_phases(a, 4)
        phases = phases + determinant_phases(a.dtype.name, batches(a.shape), a.shape[-1], 0, 1, 3)
        launch = keep(("determinant", a), phases, [*_factor_layouts(a), plain(a.shape[:-2], a)], [a], scratch, work)
    return launch(None, None, None, None, A)


def logarithm(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(LU, pivots, info, sign, logarithm of the size) of the determinants of (*, n, n)."""
    launch = plans.get(("logarithm", A._layout))
    if launch is None:
        A = evenly(A)
        a = A._layout
        real = a.dtype.to_real() if a.dtype.is_complex else a.dtype
        phases, scratch, work = _factor_phases(a, 5)
        phases = phases + determinant_phases(a.dtype.name, batches(a.shape), a.shape[-1], 0, 1, 3, 4)
        outputs = [*_factor_layouts(a), plain(a.shape[:-2], a), plain(a.shape[:-2], a, real)]
        launch = keep(("logarithm", a), phases, outputs, [a], scratch, work)
    return launch(None, None, None, None, None, A)


def triangular(A: Tensor, B: Tensor, upper: bool, left: bool = True, unit: bool = False) -> Tensor:
    """X with A X = B, or X A = B, for triangular A; batches broadcast; only the triangle is read."""
    launch = plans.get(("triangular", A._layout, B._layout, upper, left, unit))
    if launch is not None:
        return launch(None, A, B)
    batch = tuple(geometry.broadcast(A._layout.shape[:-2], B._layout.shape[:-2]))
    A, B = expanded(A, batch), expanded(B, batch)
    a, b = A._layout, B._layout
    out = in_columns((*batch, *b.shape[-2:]), b)
    n, columns = a.shape[-1], b.shape[-1 if left else -2]
    triangle = Triangle(1, even_batch(a)[1], a.strides[-2], a.strides[-1], upper, unit)
    phases, scratch = solve_phase(
        a.dtype.name,
        batches(b.shape),
        n,
        columns,
        _sides(2, b, left),
        _sides(0, out, left),
        [triangle if left else triangle.adjoint(False)],
    )
    keep(("triangular", a, b, upper, left, unit), phases, [out], [a, b], scratch, batches(b.shape) * n * n * columns)
    return triangular(A, B, upper, left, unit)


# ---------------------------------------------------------------- the factors as matrices


def factors(LU: Tensor) -> tuple[Tensor, Tensor]:
    """(L, U) of both factors in one matrix."""
    launch = plans.get(("factors", LU._layout))
    if launch is None:
        LU = evenly(LU)
        lu = LU._layout
        *batch, m, n = lu.shape
        k = min(m, n)
        outputs = [plain((*batch, m, k), lu), plain((*batch, k, n), lu)]
        phases = factors_phases(lu.dtype.name, batches(lu.shape), m, n, (2, even_batch(lu)[1], *lu.strides[-2:]))
        launch = keep(("factors", lu), phases, outputs, [lu], 0, lu.numel)
    return launch(None, None, LU)


def permutation_matrix(pivots: Tensor, LU: Tensor) -> Tensor:
    """P with A = P L U, of LU's dtype, from row exchanges counted from one."""
    m, dtype = LU._layout.shape[-2], LU._layout.dtype
    launch = plans.get(("permutation", pivots._layout, m, dtype))
    if launch is None:
        pivots = pivots.contiguous()
        p = pivots._layout
        out = plain((*p.shape[:-1], m, m), LU._layout)
        count = batches((*p.shape, 1))
        phases, scratch = permutation_phases(dtype.name, count, m, p.shape[-1])
        launch = keep(("permutation", p, m, dtype), phases, [out], [p], scratch, out.numel)
    return launch(None, pivots)
