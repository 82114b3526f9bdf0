"""Cholesky factorizations, and systems and inverses from the factors: plans of codegen.factorization.cholesky and triangular.

Stands on ops.linalg.batched_plans; used by ops.linalg.cholesky.
"""

from __future__ import annotations

from flambeau.base import geometry
from flambeau.base.layout import Layout
from flambeau.codegen.factorization.cholesky import cholesky_phases
from flambeau.codegen.factorization.triangular import Block, Triangle, solve_phase
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.batched_plans import batches, even_batch, evenly, expanded, in_columns, infos, keep, plans


def factor(A: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    """(factor, info) of Hermitian (*, n, n), of which one triangle is read."""
    launch = plans.get(("cholesky", A._layout, upper))
    if launch is None:
        A = evenly(A)
        a = A._layout
        n = a.shape[-1]
        count, stride = even_batch(a)
        phases, scratch = cholesky_phases(a.dtype.name, count, n, (2, stride, *a.strides[-2:]), upper)
        launch = keep(("cholesky", a, upper), phases, [in_columns(a.shape, a), infos(a)], [a], scratch, count * n**3 / 3)
    return launch(None, None, A)


def _block(slot: int, layout: Layout) -> Block:
    """The matrices of the tensor in buffer `slot`."""
    return Block(slot, even_batch(layout)[1], *layout.strides[-2:])


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
    factors, given, found = (_block(slot, layout) for slot, layout in ((2, a), (1, b), (0, out)))
    n, columns = b.shape[-2:]
    phases, scratch = solve_phase(a.dtype.name, batches(b.shape), n, columns, given, found, _factors(factors, upper))
    keep(("cholesky solve", b, a, upper), phases, [out], [b, a], scratch, batches(b.shape) * n * n * columns)
    return solve(B, factor, upper)


def inverse(factor: Tensor, upper: bool) -> Tensor:
    """The inverse of A from its factor."""
    launch = plans.get(("cholesky inverse", factor._layout, upper))
    if launch is None:
        factor = evenly(factor)
        a = factor._layout
        n, out = a.shape[-1], in_columns(a.shape, a)
        phases, scratch = solve_phase(a.dtype.name, batches(a.shape), n, n, None, _block(0, out), _factors(_block(1, a), upper))
        launch = keep(("cholesky inverse", a, upper), phases, [out], [a], scratch, batches(a.shape) * n**3)
    return launch(None, factor)
