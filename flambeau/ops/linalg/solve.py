"""Linear systems and inverses: triangular ones, general ones by LU factorization, and systems whose factors are given.

Values come from ops.linalg.factorization_plans.lu; the rules are in differentiable operators. Used by
ops.linalg.matrix_functions, its siblings and torch.linalg.
"""

from __future__ import annotations

from typing import Any

from flambeau.base import geometry
from flambeau.base.warn import warn_once
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.core.autograd.inplace import owned
from flambeau.core.modes.autocast import single
from flambeau.core.operator import return_types
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.out_rules import SAME_DEVICE, Out, exact, worded
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg import factorization_plans
from flambeau.ops.linalg.arguments import computed, eye_like, floating, matrices, square
from flambeau.ops.linalg.batched_plans import failed, laid_in_columns, refused
from flambeau.ops.linalg.matmul import adjoint, matmul

# ---------------------------------------------------------------- triangular systems


@operator(
    method=False,
    function=False,
    node="LinalgSolveTriangularBackward0",
    out=Out(dtype=worded("expected scalar type {have} but found {got}")),
)
def linalg_solve_triangular(input: Tensor, B: Tensor, *, upper: Any, left: Any = True, unitriangular: Any = False):
    """X with A X = B (or X A = B if not `left`) for triangular A; batches broadcast, only the triangle is read."""
    square("linalg.solve_triangular", input)
    matrices("linalg.solve_triangular", B, "B")
    if input._layout.dtype is not B._layout.dtype:
        raise RuntimeError(
            "linalg.solve_triangular: Expected A and B to have the same dtype, but found A of type "
            f"{input._layout.dtype.scalar_name} and B of type {B._layout.dtype.scalar_name} instead"
        )
    rows, columns = B._layout.shape[-2:]
    n = input._layout.shape[-1]
    if n != (rows if left else columns):
        shapes = f"({n}x{n} and {rows}x{columns})" if left else f"({rows}x{columns} and {n}x{n})"
        raise RuntimeError(
            f"linalg.solve_triangular: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} {shapes}"
        )
    computed("triangular_solve_cpu", input)
    return factorization_plans.lu.triangular(input, B, bool(upper), bool(left), bool(unitriangular))


@linalg_solve_triangular.vjp
def _(g, out, input, upper, left, unitriangular, need):
    gB = linalg_solve_triangular(adjoint(input), g, upper=not upper, left=left, unitriangular=unitriangular)
    gA = None
    if need["input"]:
        gA = -matmul(gB, adjoint(out)) if left else -matmul(adjoint(out), gB)
        offset = 1 if unitriangular else 0
        gA = gA.triu(offset) if upper else gA.tril(-offset)
    return gA, gB


# ---------------------------------------------------------------- solve


@operator(method=False, function=False, node="LinalgSolveExBackward0", differentiable=1)
def _solve(A: Tensor, B: Tensor, left: bool):
    """A and B are batches of matrices."""
    _, _, info, made = factorization_plans.lu.solve(A, B, left)
    return made, info


@_solve.vjp
def _(g, out, A, left, need):
    gB = _solve(adjoint(A), g, left)[0]
    gA = None
    if need["A"]:
        gA = -matmul(gB, adjoint(out)) if left else -matmul(adjoint(out), gB)
    return gA, gB


def is_vector(A: Tensor, B: Tensor) -> bool:
    a, b = A._layout, B._layout
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and a.shape[:-1] == b.shape)


def _solution(name: str, A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, Tensor]:
    floating(name, A, low=True)
    if A._layout.dtype is not B._layout.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type "
            f"{A._layout.dtype.scalar_name} and B of "
            f"type {B._layout.dtype.scalar_name} instead"
        )
    square(name, A)
    vector = is_vector(A, B)
    if vector and not left:
        raise RuntimeError(
            f"{name}: Vector broadcasting of the left hand side is not supported for left=False. In this case "
            f"{name} is equivalent to B / A.squeeze(-1)"
        )
    right = B.unsqueeze(-1) if vector else B
    matrices(name, right, "B")
    n = A._layout.shape[-1]
    if right._layout.shape[-2 if left else -1] != n:
        rows, columns = right._layout.shape[-2:]
        shapes = f"({n}x{n} and {rows}x{columns})" if left else f"({rows}x{columns} and {n}x{n})"
        raise RuntimeError(f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} {shapes}")
    computed("lu_cpu", A)
    made, info = _solve(A, right, left)
    return (owned(made.squeeze(-1)) if vector else made), info


@composite(method=False, function=False, out=Out(dtype=exact, step="_linalg_solve_ex"), node="LinalgSolveExBackward0")
def linalg_solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False):
    """(X, info) with A X = B (X A = B if not `left`); info is not 0 where A has no inverse."""
    made, info = _solution("linalg.solve", A, B, left)
    if check_errors:
        _check_solved("torch.linalg.solve_ex", info)
    return return_types.linalg_solve_ex((made, info))


def _check_solved(name: str, info: Tensor) -> None:
    if failed(info):
        raise refused(name, info, "The solver failed because the input matrix is singular.")


@composite(
    method=False, function=False, node="LinalgSolveExBackward0", autocast=single, out=Out(dtype=exact, step="_linalg_solve_ex")
)
def linalg_solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B: (*, n, n) by (*, n, k), or by vectors (*, n); LinAlgError if a matrix has no inverse."""
    made, info = _solution("linalg.solve", A, B, left)
    _check_solved("torch.linalg.solve", info)
    return made


@composite(out=Out(dtype=exact, as_made=True), node="TriangularSolveBackward0", autocast=single)
def triangular_solve(b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False):
    """(X, A) with A X = b for triangular A; see linalg.solve_triangular."""
    warn_once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a "
        "future PyTorch "
        "release.\ntorch.linalg.solve_triangular has its arguments reversed and does not return a copy of one "
        "of the inputs."
        "\nX = torch.triangular_solve(B, A).solution\nshould be replaced with\nX = torch.linalg.solve_triangular(A, B)."
    )
    for name, x in (("b", b), ("A", A)):
        if x._layout.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has "
                f"{x._layout.ndim} "
                "dimensions instead"
            )
    matrix = A.transpose(-2, -1) if transpose else A
    made = linalg_solve_triangular(matrix, b, upper=upper != transpose, unitriangular=unitriangular)
    batch = geometry.broadcast(A._layout.shape[:-2], b._layout.shape[:-2])
    return return_types.triangular_solve((made, laid_in_columns(A.expand(*batch, *A._layout.shape[-2:]))))


@operator(method=False, function=False, out=Out(dtype=exact), node="LinalgLuSolveBackward0")
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B (or X A = B, or with the adjoint of A) from the results of lu_factor."""
    floating("torch.linalg.lu_solve", LU)
    square("torch.linalg.lu_solve", LU)
    if LU._layout.dtype is not B._layout.dtype:
        raise RuntimeError(
            "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type "
            f"{LU._layout.dtype.scalar_name} and B of type {B._layout.dtype.scalar_name} instead"
        )
    matrices("linalg.lu_solve", B, "B")
    if pivots._layout.dtype.name != "int32":
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    n, (rows, columns) = LU._layout.shape[-1], B._layout.shape[-2:]
    if pivots._layout.shape[-1:] != (n,):
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    if pivots._layout.shape != LU._layout.shape[:-1]:
        raise RuntimeError(
            "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots._layout.shape)} instead"
        )
    if n != (rows if left else columns):
        shapes = f"({n}x{n} and {rows}x{columns})" if left else f"({rows}x{columns} and {n}x{n})"
        raise RuntimeError(
            f"linalg.lu_solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} {shapes}"
        )
    try:
        return factorization_plans.lu.lu_solve(LU, pivots, B, bool(left), bool(adjoint))
    except KernelCheck:
        words = "greater or equal to 1" if pivots.min() < 1 else "smaller or equal to LU.size(-2)"
        raise RuntimeError(
            f"Pivots given to lu_solve must all be {words}. Did you properly pass the result of lu_factor?"
        ) from None


@linalg_lu_solve.vjp
def _(g, out, LU, pivots, left, adjoint, need):
    gB = linalg_lu_solve(LU, pivots, g, left=left, adjoint=not adjoint)
    if not need["LU"]:
        return None, None, gB
    # the gradient of A itself, then of its factors: A = P L U
    turned = matmul(gB, _adjoint(out)) if left else matmul(_adjoint(out), gB)
    gA = matmul(factorization_plans.lu.permutation_matrix(pivots, LU).mT, -(_adjoint(turned) if adjoint else turned))
    L, U = LU.tril(-1) + eye_like(LU), LU.triu()
    return matmul(gA, _adjoint(U)).tril(-1) + matmul(_adjoint(L), gA).triu(), None, gB


_adjoint = adjoint


@composite(out=Out(dtype=exact, step="linalg_lu_solve", as_made=True), autocast=single)
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """See linalg.lu_solve."""
    warn_once(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a future PyTorch release.\n"
        "Note that torch.linalg.lu_solve has its arguments reversed.\nX = torch.lu_solve(B, LU, pivots)\nshould "
        "be replaced "
        "with\nX = torch.linalg.lu_solve(LU, pivots, B)"
    )
    return linalg_lu_solve(LU_data, LU_pivots, b)


# ---------------------------------------------------------------- inverses


@operator(
    method=False,
    function=False,
    node="LinalgInvExBackward0",
    differentiable=1,
    autocast=single,
    out=Out(dtype=exact, device=SAME_DEVICE),
)
def linalg_inv_ex(A: Tensor, *, check_errors: bool = False):
    """(inverse, info); info is not 0 where there is none."""
    square("linalg.inv", A)
    floating("linalg.inv", A)
    _, _, info, made = factorization_plans.lu.inverse(A)
    if check_errors and failed(info):
        raise refused("linalg.inv_ex", info, _NO_INVERSE)
    return return_types.linalg_inv_ex((made, info))


_NO_INVERSE = "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."


@linalg_inv_ex.vjp
def _(g, out):
    inverse = adjoint(out)
    return -matmul(inverse, matmul(g, inverse))


@composite(method=False, function=False, out=Out(dtype=exact, device=SAME_DEVICE, step="linalg_inv_ex"), autocast=single)
def linalg_inv(A: Tensor) -> Tensor:
    """The inverse of square matrices; LinAlgError where there is none."""
    made, info = linalg_inv_ex(A)
    if failed(info):
        raise refused("linalg.inv", info, _NO_INVERSE)
    return made


@composite(out=Out(dtype=exact), autocast=single)
def inverse(input: Tensor) -> Tensor:
    """See linalg.inv."""
    return linalg_inv(input)
