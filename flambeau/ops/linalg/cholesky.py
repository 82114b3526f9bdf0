"""Cholesky factorization, and systems and inverses from its factor.

Values come from ops.linalg.factorization_plans.cholesky; the rule of the factorization is that of Murray (2016),
"Differentiation of the Cholesky decomposition", in differentiable operators. Used by torch.linalg.
"""

from __future__ import annotations

import numpy as np

from flambeau.base import geometry
from flambeau.base.warn import warn_once
from flambeau.core.modes.autocast import single
from flambeau.core.operator import return_types
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.out_rules import SAME_DEVICE, Out, castable, exact
from flambeau.core.tensor.create import array_of, copy_array
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known
from flambeau.ops.linalg import factorization_plans
from flambeau.ops.linalg.arguments import computed, factorizable, square
from flambeau.ops.linalg.batched_plans import failed, refused
from flambeau.ops.linalg.matmul import adjoint, matmul
from flambeau.ops.linalg.solve import linalg_solve_triangular

# ---------------------------------------------------------------- Cholesky


_INDEFINITE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order "
    "{} is not positive-definite)."
)


@operator(
    method=False,
    function=False,
    name="linalg_cholesky_ex",
    node="LinalgCholeskyExBackward0",
    differentiable=1,
    autocast=single,
    out=Out(dtype=exact, device=SAME_DEVICE),
)
def linalg_cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False):
    """(L, info) with L L^H = A for Hermitian positive-definite A (U^H U with `upper`); info tells where it is not."""
    square("linalg.cholesky", input)
    factorizable("linalg.cholesky", "cholesky_cpu", input, empty=False)
    made, info = factorization_plans.cholesky.factor(input, bool(upper))
    if check_errors and failed(info):
        raise refused("linalg.cholesky_ex", info, _INDEFINITE)
    return return_types.linalg_cholesky_ex((made, info))


def _cholesky_gradient(g: Tensor, factor: Tensor, upper: bool) -> Tensor:
    L, gL = (adjoint(factor), adjoint(g)) if upper else (factor, g)
    product = matmul(adjoint(L), gL)
    middle = (product.tril() + adjoint(product.tril(-1))) / 2
    solved = linalg_solve_triangular(adjoint(L), middle, upper=True)
    return linalg_solve_triangular(L, solved, upper=False, left=False)


@linalg_cholesky_ex.vjp
def _(g, out, upper):
    return _cholesky_gradient(g, out, upper)


@composite(method=False, function=False, out=Out(dtype=exact, device=SAME_DEVICE, step="linalg_cholesky_ex"), autocast=single)
def linalg_cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """L with L L^H = A; LinAlgError unless A is positive-definite."""
    made, info = linalg_cholesky_ex(input, upper=upper)
    if failed(info):
        raise refused("linalg.cholesky", info, _INDEFINITE)
    return made


@composite(out=Out(dtype=castable("cholesky")), node="CholeskyBackward0", autocast=single)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The Cholesky factor, lower or `upper`; see linalg.cholesky."""
    warn_once(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch release.\n"
        "L = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\nU = torch.cholesky(A, upper="
        "True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\nThis transform will produce "
        "equivalent results for "
        "all valid (symmetric positive definite) inputs."
    )
    square("cholesky", input)
    computed("cholesky_cpu", input)
    made, info = linalg_cholesky_ex(input, upper=upper)
    if failed(info):
        raise refused("cholesky", info, _INDEFINITE)
    return made


@operator(out=Out(dtype=castable("cholesky_solve")), node="CholeskySolveBackward0", autocast=single)
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with A X = B, where L is the Cholesky factor of A (upper if so said)."""
    for x in (B, L):
        if x._layout.ndim < 2:
            raise RuntimeError(
                f"{'b' if x is B else 'u'} should have at least 2 dimensions, but has {x._layout.ndim} dimensions instead"
            )
    b, a = B._layout, L._layout
    if b.dtype is not a.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {b.dtype.scalar_name} and A of type "
            f"{a.dtype.scalar_name} instead."
        )
    rows, columns = a.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"A must be batches of square matrices, but they are {rows} by {columns} matrices")
    if rows != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {rows} by {rows} but each b matrix "
            f"is {b.shape[-2]} by {b.shape[-1]}"
        )
    geometry.broadcast(b.shape[:-2], a.shape[:-2])
    computed("cholesky_solve_cpu", B)
    return factorization_plans.cholesky.solve(B, L, bool(upper))


@cholesky_solve.vjp
def _(g, out, L, upper, need):
    gB = cholesky_solve(g, L, upper)
    gL = None
    if need["L"]:
        both = matmul(gB, adjoint(out))
        both = both + adjoint(both)
        gL = -matmul(L, both) if upper else -matmul(both, L)
    return gB, gL


@operator(
    node="CholeskyInverseBackward0",
    autocast=single,
    out=Out(dtype=castable("cholesky_inverse"), as_made=True, refuses_first=True),
)
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A from its Cholesky factor."""
    square("cholesky_inverse", L)
    computed("cholesky_inverse_out_cpu", L)
    if known(L) and (zeros := array_of(L).diagonal(0, -2, -1) == 0).any():
        first = np.where(zeros.any(-1), zeros.argmax(-1) + 1, 0).astype(np.int32)
        raise refused(
            "cholesky_inverse",
            copy_array(first),
            "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular.",
        )
    return factorization_plans.cholesky.inverse(L, bool(upper))


@cholesky_inverse.vjp
def _(g, out, L, upper):
    both = matmul(out, matmul(g + adjoint(g), out))
    return -matmul(L, both) if upper else -matmul(both, L)
