"""Pseudo-inverses, least squares, determinants, functions of matrices; the operators of torch.linalg that are no factorization
(ops.linalg.lu, ops.linalg.qr, ops.linalg.cholesky, ops.linalg.spectral), no system (ops.linalg.solve) and no norm
(ops.linalg.matrix_norm).

Determinants come from ops.linalg.factorization_plans.lu, exponentials from products and a system, the rest from singular
values; the rules are in differentiable operators.
"""

from __future__ import annotations

import functools
import math
import operator as python_operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau.base.dtype import finfo, int64
from flambeau.core.autograd.inplace import owned
from flambeau.core.autograd.node import one_step
from flambeau.core.modes.autocast import lower, single
from flambeau.core.operator import return_types
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import described, record_of
from flambeau.core.operator.out_argument import deliver
from flambeau.core.operator.out_rules import COPIED, SAME_DEVICE, Out, castable, check_early, exact
from flambeau.core.operator.publishing import NAMESPACE, explained
from flambeau.core.tensor.create import array_of, copy_array
from flambeau.core.tensor.lazy_conjugate import resolved
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ops.linalg import factorization_plans
from flambeau.ops.linalg.arguments import COMPUTED, constant_zero, eye_like, factorizable, floating, matrices, square
from flambeau.ops.linalg.batched_plans import in_columns
from flambeau.ops.linalg.matmul import adjoint, matmul
from flambeau.ops.linalg.solve import is_vector, linalg_inv, linalg_inv_ex, linalg_solve, linalg_solve_ex, linalg_solve_triangular
from flambeau.ops.linalg.spectral import linalg_eigvalsh, linalg_svd, linalg_svdvals, singular
from flambeau.ops.reduction.vector_norm import vector_norm

# ---------------------------------------------------------------- pseudo-inverses


@operator(method=False, function=False, node="LinalgPinvBackward0")
def _pinv(A: Tensor, atol: Any, rtol: Any, hermitian: bool):
    """Singular values up to the tolerance count as none (see _tolerances)."""
    if hermitian:
        values, left, _ = factorization_plans.eigen.factor(A)
        right = adjoint(left)
    else:
        U, values, Vh = singular(A, False)
        left, right = adjoint(Vh), adjoint(U)
    sizes = values.abs() if hermitian else values
    limit = _tolerances("torch.linalg.pinv", A, atol, rtol, sizes.amax(-1) if hermitian else sizes[..., 0])
    inverse = NAMESPACE["where"](sizes > limit.unsqueeze(-1), 1 / values, 0.0)
    return matmul(left * inverse.unsqueeze(-2), right)


@_pinv.vjp
def _(g, out, A):
    return _pinv_gradient(g, out, A)


def _pinv_gradient(g: Tensor, P: Tensor, A: Tensor) -> Tensor:
    """Golub and Pereyra's derivative for matrices of constant rank, transposed."""
    Ph, gh = adjoint(P), adjoint(g)
    made = -matmul(Ph, matmul(g, Ph))
    first = matmul(gh, matmul(P, Ph))
    made = made + first - matmul(A, matmul(P, first))
    second = matmul(matmul(Ph, P), gh)
    return made + second - matmul(matmul(second, P), A)


def _real(name: str, **tolerances: Any) -> None:
    """RuntimeError for a complex tensor among tolerances."""
    for title, given in tolerances.items():
        if isinstance(given, Tensor) and given.is_complex():
            raise RuntimeError(f"{name}: {title} tensor of complex type is not supported. Got {given._layout.dtype.scalar_name}")


def _tolerances(name: str, A: Tensor, atol: Any, rtol: Any, largest: Tensor) -> Tensor:
    """max(atol, rtol * largest); rtol is max(m, n) * eps unless one of them is given. RuntimeError for complex ones."""
    _real(name, atol=atol, rtol=rtol)
    as_tensor = functools.partial(NAMESPACE["as_tensor"], device=A._layout.device)
    if rtol is None:
        rtol = finfo(A._layout.dtype).eps * max(A._layout.shape[-2:])
        if atol is not None:
            rtol = NAMESPACE["where"](as_tensor(atol) > 0, 0.0, rtol)
    made = largest * rtol
    return made if atol is None else NAMESPACE["maximum"](as_tensor(atol, dtype=made.dtype), made)


@described(autocast=single, out=Out(dtype=castable("linalg.pinv")))
def linalg_pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Tensor | None = None
) -> Tensor:
    """The Moore-Penrose inverse of (*, m, n): (*, n, m). Singular values up to max(atol, rtol * largest) count as zero."""
    if out is not None:
        check_early(record_of("linalg_pinv"), out, lambda: (A,))
    dtype = A._layout.dtype
    if A._layout.ndim < 2 or not (dtype.is_floating_point or dtype.is_complex) or dtype.itemsize < 4:
        shape = ", ".join(str(n) for n in A._layout.shape)
        raise RuntimeError(
            f"linalg.pinv({dtype.scalar_name}{{[{shape}]}}): expected a tensor with 2 or more dimensions of "
            "float, double, cfloat or cdouble types"
        )
    if hermitian:
        square("linalg.pinv", A)
    if A._layout.numel == 0:
        *batch, m, n = A._layout.shape
        made = A.transpose(-2, -1).reshape(*batch, n, m).clone()
    else:
        _real("torch.linalg.pinv", atol=atol, rcond=rcond, rtol=rtol)
        made = _pinv(A, atol, rcond if rtol is None else rtol, hermitian)
    return made if out is None else deliver(out, made, record_of("linalg_pinv"))


@described(autocast=single)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """See linalg.pinv."""
    return linalg_pinv(input, rcond)


NAMESPACE["pinverse"] = pinverse
Tensor.pinverse = pinverse


@described(autocast=single, out=Out(dtype=castable("torch.linalg.matrix_rank")))
def linalg_matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Tensor | None = None
) -> Tensor:
    """How many singular values (or absolute eigenvalues) are above max(atol, rtol * largest); int64."""
    if out is not None:
        check_early(record_of("linalg_matrix_rank"), out, lambda: (A,))
    matrices("torch.linalg.matrix_rank", A, "input")
    if tol is None and rtol is None:
        _has_epsilon(A)
    A = A.detach()
    values = linalg_eigvalsh(A).abs() if hermitian else linalg_svdvals(A)
    if tol is not None:
        atol, rtol = tol, 0.0
    largest = values.amax(-1) if values._layout.shape[-1] else values.sum(-1)
    limit = _tolerances("torch.linalg.matrix_rank", A, atol, rtol, largest)
    made = (values > limit.unsqueeze(-1)).sum(-1)
    return made if out is None else deliver(out, made, record_of("linalg_matrix_rank"))


# ---------------------------------------------------------------- least squares


def _has_epsilon(A: Tensor) -> None:
    """RuntimeError for a dtype of which PyTorch knows no default tolerance."""
    if A._layout.dtype.name not in COMPUTED:
        raise RuntimeError("This function doesn't handle types other than float and double")


@operator(method=False, function=False, node="LinalgLstsqBackward0")
def _least_squares(A: Tensor, B: Tensor, rcond: float, with_residuals: bool, inclusive: bool):
    """(X, squared residuals, which are empty if some matrix lacks full rank, ranks). inclusive: singular values that are exactly
    rcond times the largest count.
    """
    long = min(A._layout.shape[-2:]) >= factorization_plans.svd.LONG_FROM and known(A)
    solved = _full_rank_solution(A, B, rcond) if long else None
    if solved is not None:
        rank = A.new_full(A._layout.shape[:-2], min(A._layout.shape[-2:]), dtype=int64)
        residuals = (matmul(A, solved) - B).abs().square().sum(-2) if with_residuals else solved.abs().new_empty([0])
        return _in_long_columns(solved, max(A._layout.shape[-2:])), residuals, rank
    U, values, Vh = singular(A, False)
    largest = values.amax(-1, True) if values._layout.shape[-1] else values
    keep = (values >= rcond * largest) & (values > 0) if inclusive else values > rcond * largest
    inverse = NAMESPACE["where"](keep, 1 / values, 0.0)
    found = matmul(adjoint(Vh), inverse.unsqueeze(-1) * matmul(adjoint(U), B))
    residuals = values.new_empty([0])
    if with_residuals and not known(A):  # there are none if some matrix lacks full rank
        raise needs_values(A, "linalg_lstsq.out")
    if with_residuals and keep.all():
        residuals = (matmul(A, found) - B).abs().square().sum(-2)
    return _in_long_columns(found, max(A._layout.shape[-2:])), residuals, keep.sum(-1)


def _in_long_columns(x: Tensor, rows: int) -> Tensor:
    """A copy of x whose columns begin those of matrices with so many rows, where LAPACK leaves a solution."""
    *batch, _, columns = x._layout.shape
    layout = in_columns((*batch, rows, columns), x._layout)
    return NAMESPACE["empty_strided"](x._layout.shape, layout.strides, dtype=layout.dtype, device=layout.device).copy_(x)


def _full_rank_solution(A: Tensor, B: Tensor, rcond: float) -> Tensor | None:
    """X from the triangle of A or of its adjoint; None unless the Frobenius norms of the triangle and of its inverse show that no
    singular value is as small as rcond times the largest."""
    m, n = A._layout.shape[-2:]
    Q, R = factorization_plans.qr.factor(A if m >= n else resolved(adjoint(A)), False)
    inverse = linalg_solve_triangular(R, eye_like(R), upper=True)
    if not (vector_norm(R, 2, (-2, -1)) * vector_norm(inverse, 2, (-2, -1)) * rcond < 1).all():
        return None
    if m >= n:
        return linalg_solve_triangular(R, matmul(adjoint(Q), B), upper=True)
    return matmul(Q, linalg_solve_triangular(adjoint(R), B, upper=False))


@_least_squares.vjp
def _(gs, out0, A, B, rcond, need):
    g, g_residuals = gs[:2]
    gA = gB = None
    if g is not None:
        P = linalg_pinv(A, rtol=rcond)
        gA = _pinv_gradient(matmul(g, adjoint(B)), P, A) if need["A"] else None
        gB = matmul(adjoint(P), g) if need["B"] else None
    if g_residuals is not None and g_residuals._layout.numel:
        # the solution's own change does not count: the residual is stationary there
        turned = 2 * (matmul(A, out0) - B) * g_residuals.unsqueeze(-2)
        if need["A"]:
            other = matmul(turned, adjoint(out0))
            gA = other if gA is None else gA + other
        if need["B"]:
            gB = -turned if gB is None else gB - turned
    return gA, gB


@described(autocast=single)
@explained
def linalg_lstsq(input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """(solution, residuals, rank, singular_values) of the least squares problems min |input X - b|, least norm if there are many.

    driver: "gelsy" (the default), "gels" (full rank is assumed), "gelsd", "gelss" (with singular values).
    """
    name = "torch.linalg.lstsq"
    for given, x, least in (("input", input, 2), ("other", b, 1)):
        if x._layout.ndim < least:
            raise RuntimeError(f"{name}: {given} must have at least {least} dimension{'s' if least > 1 else ''}.")
    if rcond is None:
        _has_epsilon(input)
    floating(name, input)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    driver = driver or "gelsy"
    if input._layout.dtype is not b._layout.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype "
            f"{input._layout.dtype.scalar_name} and other's dtype {b._layout.dtype.scalar_name}"
        )
    vector = is_vector(input, b)
    right = b.unsqueeze(-1) if vector else b
    m, n = input._layout.shape[-2:]
    if right._layout.shape[-2] != m:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-{1 if vector else 2})")
    epsilon = finfo(input._layout.dtype).eps * max(m, n)
    limit = epsilon if rcond is None or rcond < 0 else rcond
    if driver == "gelsd" and limit >= 1:  # which that driver takes for a slip
        limit = epsilon
    made, residuals, rank = _least_squares(input, right, limit, m > n and driver != "gelsy", driver == "gelsy")
    real = input._layout.dtype.to_real() if input._layout.dtype.is_complex else input._layout.dtype
    values = linalg_svdvals(input.detach()) if driver in ("gelsd", "gelss") else input.new_empty([0], dtype=real)
    rank = rank if driver != "gels" else rank.new_empty([0])
    return return_types.linalg_lstsq((made.squeeze(-1) if vector else made, residuals, rank, values))


# ---------------------------------------------------------------- determinants


@operator(
    method=False,
    function=False,
    node="LinalgDetBackward0",
    out=Out(dtype=exact, device=SAME_DEVICE, step="_linalg_det", refuses_first=True),
)
def linalg_det(A: Tensor):
    """The determinants of square matrices: (*, n, n) gives (*)."""
    square("linalg.det", A)
    factorizable("linalg.det", "lu_cpu", A, empty=False)
    return factorization_plans.lu.determinant(A)[3]


@linalg_det.vjp
def _(g, out, A):
    if not A._layout.numel:
        return A * 0
    scaled = g * (out.conj() if out.is_complex() else out)
    if not known(out) or np.all(array_of(out.detach()) != 0):
        return scaled[..., None, None] * adjoint(linalg_inv_ex(A)[0])
    return g[..., None, None] * _cofactors(A)


def _cofactors(A: Tensor) -> Tensor:
    """The conjugated cofactors, also of singular matrices: det(U Vh) U diag(products of the other singular values) Vh."""
    U, S, Vh = linalg_svd(A, False)
    n = S._layout.shape[-1]
    others = NAMESPACE["stack"]([NAMESPACE["cat"]([S[..., :i], S[..., i + 1 :]], -1).prod(-1) for i in range(n)], -1)
    phase = linalg_det(matmul(U, Vh).detach())
    phase = phase.conj() if phase.is_complex() else phase
    return phase[..., None, None] * matmul(U * others.unsqueeze(-2), Vh)


@composite()
def det(input: Tensor) -> Tensor:
    """See linalg.det."""
    return linalg_det(input)


@operator(method=False, function=False, out=Out(dtype=exact, step="_linalg_slogdet"), node="LinalgSlogdetBackward0")
def linalg_slogdet(A: Tensor):
    """(sign, logabsdet): the determinant's sign (or phase) and the logarithm of its size."""
    square("linalg.slogdet", A)
    floating("linalg.slogdet", A)
    return return_types.linalg_slogdet(factorization_plans.lu.logarithm(A)[3:])


@linalg_slogdet.vjp
def _(gs, out0, A):
    gsign, gsize = gs
    if A.is_complex():
        scale: Any = 0 if gsize is None else gsize.to(A.dtype)
        if gsign is not None:
            turn = (gsign.conj() * out0).imag
            scale = scale - NAMESPACE["complex"](turn * 0, turn)
    else:
        scale = gsize
    if scale is None:
        return A * 0
    return scale[..., None, None] * adjoint(linalg_inv_ex(A)[0])


@composite(out=True)
def slogdet(input: Tensor) -> tuple[Tensor, Tensor]:
    """See linalg.slogdet."""
    return return_types.slogdet(tuple(linalg_slogdet(input)))


@composite()
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN for a negative one, -inf for a singular matrix."""
    square("logdet", input)
    floating("logdet", input)
    sign, size = linalg_slogdet(input)
    if input.is_complex():
        return sign.log() + size
    return NAMESPACE["where"]((sign == -1).detach(), math.nan, size)


# ---------------------------------------------------------------- powers and the exponential


@one_step("CopyBackwards")
def _identity(input: Tensor) -> Tensor:
    return eye_like(input) + constant_zero(input)


@composite(method=False, function=False, out=Out(dtype=castable("matrix_power"), graph=COPIED))
def linalg_matrix_power(input: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices; negative ones of the inverse."""
    square("linalg.matrix_power", input)
    n = python_operator.index(n)
    if n == 0:
        return _identity(input)
    given = input
    if n < 0:
        input, n = linalg_inv(input), -n
    made = None
    while n:
        if n & 1:
            made = input if made is None else matmul(made, input)
        n >>= 1
        if n:
            input = matmul(input, input)
    return made.clone() if made is given else made  # type: ignore[union-attr,return-value]


@composite(out=True, autocast=lower)
def matrix_power(input: Tensor, n: int) -> Tensor:
    """See linalg.matrix_power."""
    return linalg_matrix_power(input, n)


@operator(method=False, function=False, node="LinalgMatrixExpBackward0")
def linalg_matrix_exp(input: Tensor):
    """The exponential of square matrices: a diagonal Pade approximant, scaled and squared (Higham, The scaling and squaring
    method for the matrix exponential revisited, 2005).
    """
    square("linalg.matrix_exp", input)
    floating("linalg.matrix_exp", input)
    *batch, n, _ = input._layout.shape
    if not (input._layout.numel and known(input)):
        return input.new_empty(input._layout.shape)
    x = input.reshape(-1, n, n)
    degree, largest = (7, 3.92) if x.dtype.itemsize // (1 + x.dtype.is_complex) == 4 else (13, 5.37)
    sizes = array_of(x.abs().sum(-2).amax(-1).double())
    doublings = np.zeros(len(sizes), int)
    large = np.isfinite(sizes) & (sizes > largest)
    doublings[large] = np.ceil(np.log2(sizes[large] / largest))
    if large.any():
        x = x * copy_array(0.5 ** doublings[:, None, None]).to(x.dtype)
    b = [math.comb(degree, j) * math.factorial(2 * degree - j) // math.factorial(degree) for j in range(degree + 1)]
    x2 = matmul(x, x)
    x4 = matmul(x2, x2)
    x6 = matmul(x4, x2)

    def terms(first: int) -> Tensor:
        """Every second term from the first: of the odd ones, but for a factor of x."""
        made = b[first] * eye_like(x) + b[first + 2] * x2 + b[first + 4] * x4 + b[first + 6] * x6
        if degree == 13:
            made += matmul(x6, b[first + 8] * x2 + b[first + 10] * x4 + b[first + 12] * x6)
        return made

    even, odd = terms(0), matmul(x, terms(1))
    made = linalg_solve_ex(even - odd, even + odd)[0]
    for done in range(doublings.max()):
        made = NAMESPACE["where"](copy_array(doublings[:, None, None] > done), matmul(made, made), made)
    return owned(made.contiguous().reshape(*batch, n, n))


@linalg_matrix_exp.vjp
def _(g, input):
    # the derivative in the direction of g stands in the corner of the exponential of [[A^H, g], [0, A^H]]
    n = input._layout.shape[-1]
    turned = adjoint(input)
    cat = NAMESPACE["cat"]
    zeros = turned.detach() * 0
    return linalg_matrix_exp(cat([cat([turned, g], -1), cat([zeros, turned], -1)], -2))[..., :n, n:]


@composite()
def matrix_exp(input: Tensor) -> Tensor:
    """See linalg.matrix_exp."""
    return linalg_matrix_exp(input)


# ---------------------------------------------------------------- tensors as matrices, diagonals


@composite(method=False, function=False, out=Out(dtype=castable("tensorinv"), graph=COPIED), autocast=single)
def linalg_tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """The inverse of the input taken as a matrix of its first `ind` dimensions by the others."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = input._layout.shape
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {columns} "
            f"!= {rows}"
        )
    return linalg_inv(input.reshape(rows, columns)).reshape(*shape[ind:], *shape[:ind])


@composite(
    method=False, function=False, autocast=single, out=Out(dtype=castable("tensorsolve"), graph=COPIED, refuses_first=True)
)
def linalg_tensorsolve(input: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X with tensordot(input, X, X.ndim) = B; `dims` of the input are moved to the end first."""
    if dims is not None:
        ndim = input._layout.ndim
        input = input.movedim(list(dims), list(range(ndim - len(dims), ndim)))
    shape = input._layout.shape[B._layout.ndim :]
    size = math.prod(shape)
    if size != math.prod(input._layout.shape[: B._layout.ndim]) or size != B._layout.numel:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {size} != {B._layout.numel}"
        )
    return linalg_solve(input.reshape(size, size), B.reshape(-1)).reshape(shape)


@composite(method=False, function=False)
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of the matrices in the last two (or the given) dimensions, as a view."""
    return A.diagonal(offset, dim1, dim2)
