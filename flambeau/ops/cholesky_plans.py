"""Cholesky factorizations of batches of tensors, and systems and inverses from the factors: plans of codegen.cholesky and
codegen.triangular, kept by the operands' layouts.

No function here checks arguments or records. Stands on ops.matrix_plans; used by ops.linalg_cholesky.
"""

from __future__ import annotations

from flambeau.base import geometry
from flambeau.codegen.cholesky import cholesky_phases
from flambeau.codegen.triangular import Block, Triangle, solve_phase
from flambeau.core.tensor import Tensor
from flambeau.ops.matrix_plans import batch_of, batches, evenly, expanded, in_columns, infos, keep, plans


def factor(A: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    """(factor, info) of Hermitian (*, n, n), of which one triangle is read."""
    launch = plans.get(("cholesky", A._layout, upper))
    if launch is None:
        A = evenly(A)
        a = A._layout
        even = batch_of(a)
        assert even is not None
        n = a.shape[-1]
        phases, scratch = cholesky_phases(a.dtype.name, even[0], n, (2, even[1], *a.strides[-2:]), upper)
        launch = keep(("cholesky", a, upper), phases, [in_columns(a.shape, a), infos(a)], [a], scratch, even[0] * n ** 3 / 3)
    return launch(None, None, A)


def _factors(factor: Block, upper: bool) -> list[Triangle]:
    """L and L^H, or U^H and U: what the matrix is the product of."""
    given = Triangle(factor.slot, factor.batch, factor.row, factor.column, upper)
    return [given.adjoint(True), given] if upper else [given, given.adjoint(True)]


def solve(B: Tensor, factor: Tensor, upper: bool) -> Tensor:
    """X with A X = B from A's factor; batches broadcast."""
    launch = plans.get(("cholesky solve", B._layout, factor._layout, upper))
    if launch is not None:
        return launch(None, B, factor)
    batch = tuple(geometry.broadcast(factor._layout.shape[:-2], B._layout.shape[:-2]))
    factor, B = expanded(factor, batch), expanded(B, batch)
    a, b = factor._layout, B._layout
    out = in_columns((*batch, *b.shape[-2:]), b)
    sides = []
    for slot, layout in ((2, a), (1, b), (0, out)):
        even = batch_of(layout)
        assert even is not None
        sides.append(Block(slot, even[1], *layout.strides[-2:]))
    n, columns = b.shape[-2:]
    phases, scratch = solve_phase(a.dtype.name, batches(b.shape), n, columns, sides[1], sides[2], _factors(sides[0], upper))
    keep(("cholesky solve", b, a, upper), phases, [out], [b, a], scratch, batches(b.shape) * n * n * columns)
    return solve(B, factor, upper)


def inverse(factor: Tensor, upper: bool) -> Tensor:
    """The inverse of A from its factor."""
    launch = plans.get(("cholesky inverse", factor._layout, upper))
    if launch is None:
        factor = evenly(factor)
        a = factor._layout
        even = batch_of(a)
        assert even is not None
        n, out = a.shape[-1], in_columns(a.shape, a)
        phases, scratch = solve_phase(a.dtype.name, even[0], n, n, None, Block(0, n * n, 1, n),
                                      _factors(Block(1, even[1], *a.strides[-2:]), upper))
        launch = keep(("cholesky inverse", a, upper), phases, [out], [a], scratch, even[0] * n ** 3)
    return launch(None, factor)
