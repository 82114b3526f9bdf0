"""QR factorizations and Householder reflectors, with the gradients of Walter and Lehmann (2012), "Algorithmic differentiation of
linear algebra functions".

Stands on ops.linalg.solve; used by ops.linalg.lowrank, torch.linalg.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.warn import warn_once
from flambeau.core.modes.autocast import single
from flambeau.core.modes.overrides import PLAIN
from flambeau.core.operator import return_types
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.out_rules import Out, castable, exact, worded
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg import factorization_plans
from flambeau.ops.linalg.arguments import computed, constant_zero, factorizable, half_diagonal, matrices
from flambeau.ops.linalg.batched_plans import laid_in_columns
from flambeau.ops.linalg.matmul import adjoint, matmul
from flambeau.ops.linalg.solve import linalg_solve_triangular

# ---------------------------------------------------------------- QR and Householder reflectors


@operator(method=False, function=False, out=Out(dtype=exact), node="LinalgQrBackward0", autocast=single)
def linalg_qr(A: Tensor, mode: Any = "reduced"):
    """(Q, R) with A = Q R, Q with orthonormal columns and R upper triangular; mode "reduced", "complete" or "r" (Q is empty)."""
    matrices("linalg.qr", A)
    factorizable("linalg.qr", "geqrf_cpu", A, empty=False)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    if mode == "r":
        return return_types.linalg_qr((A.new_empty([0]), factorization_plans.qr.triangle(A)))
    return return_types.linalg_qr(factorization_plans.qr.factor(A, mode == "complete"))


@linalg_qr.vjp
def _(gs, outs, layouts, mode):
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, "
            "mode='reduced') if you are going to require gradients."
        )
    (gQ, gR), (Q, R) = gs, outs
    m, n = layouts[0].shape[-2:]
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    if gQ is None and gR is None:
        return None
    if m >= n:
        return _qr_gradient(gQ, gR, Q, R)
    # A = [X Y] and R = [U V] with X = Q U square and Y = Q V
    U, Y = R[..., :m], matmul(Q, R[..., m:])
    gU = gV = None
    if gR is not None:
        gU, gV = gR[..., :m], gR[..., m:]
        passed = matmul(Y, adjoint(gV))
        gQ = passed if gQ is None else gQ + passed
    gX = _qr_gradient(gQ, gU, Q, U)
    gY = matmul(Q, gV) if gV is not None else Y * 0
    return NAMESPACE["cat"]([gX, gY], -1)


def _qr_gradient(gQ: Tensor | None, gR: Tensor | None, Q: Tensor, R: Tensor) -> Tensor:
    """The gradient for full column rank: (gQ + Q sym(R gR^H - gQ^H Q)) R^-H, where sym copies the lower triangle up."""
    if gR is not None:
        middle = matmul(R, adjoint(gR))
        if gQ is not None:
            middle = middle - matmul(adjoint(gQ), Q)
    else:
        middle = -matmul(adjoint(gQ), Q)
    if middle.is_complex():
        middle = half_diagonal(middle)
        middle = middle + adjoint(middle)
    else:
        middle = middle.tril() + middle.tril(-1).mT
    made = matmul(Q, middle)
    if gQ is not None:
        made = made + gQ
    return linalg_solve_triangular(adjoint(R), made, upper=False, left=False)


@composite(out=Out(dtype=exact, step="linalg_qr", as_made=True), autocast=single)
def qr(input: Tensor, some: bool = True) -> tuple[Tensor, Tensor]:
    """(Q, R); the full square Q unless `some`. See linalg.qr."""
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\nThe boolean "
        "parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A, some)\nshould be replaced "
        "with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
    )
    return return_types.qr(tuple(linalg_qr(input, "reduced" if some else "complete")))


@operator(out=Out(dtype=castable("torch.geqrf", "a"), as_made=True), autocast=single)
def geqrf(input: Tensor) -> tuple[Tensor, Tensor]:
    """(a, tau): R above the diagonal of a, the Householder vectors below it, their factors in tau."""
    if input._layout.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    computed("geqrf_cpu", input)
    return return_types.geqrf(factorization_plans.qr.reflectors(input))


@operator(method=False, function=False)
def _reflectors_product(input: Tensor, tau: Tensor):
    """linalg.householder_product without a graph."""
    return factorization_plans.qr.orthogonal(input, tau)


@operator(method=False, function=False)
def _reflectors_times(input: Tensor, tau: Tensor, other: Tensor, adjoint_too: bool):
    """ormqr from the left without a graph; adjoint_too: with the adjoint of Q."""
    return factorization_plans.qr.multiply(input, tau, other, adjoint_too)


def _without_graph(*tensors: Tensor) -> bool:
    """Whether these are plain tensors that no derivative is wanted of: the kernels' products have no rule."""
    return all(x._node is None and x.__class__ in PLAIN for x in tensors)


@composite(
    method=False,
    function=False,
    node="LinalgHouseholderProductBackward0",
    autocast=single,
    out=Out(dtype=castable("torch.linalg.householder_product")),
)
def linalg_householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of the reflectors I - tau v v^H, v below the diagonal of (*, m, n) input."""
    name = "torch.linalg.householder_product"
    matrices(name, input, "input")
    m, n = input._layout.shape[-2:]
    k = tau._layout.shape[-1] if tau._layout.ndim else 0
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if n < k:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if input._layout.ndim - tau._layout.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to "
            f"{tau._layout.ndim} "
            f"and input.ndim is equal to {input._layout.ndim}"
        )
    batch, factors = input._layout.shape[:-2], tau._layout.shape[:-1]
    if batch != factors:
        raise RuntimeError(f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(factors)}")
    if input._layout.dtype is not tau._layout.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {tau._layout.dtype.scalar_name} does not match input dtype {input._layout.dtype.scalar_name}"
        )
    computed("orgqr_cpu", input)
    if k and _without_graph(input, tau):
        return _reflectors_product(input, tau)
    start = NAMESPACE["eye"](m, n, dtype=input._layout.dtype, device=input._layout.device).expand(*input._layout.shape)
    if not k:
        return start + constant_zero(input)
    return laid_in_columns(_reflect(input, tau, start, k))


def _reflect(input: Tensor, tau: Tensor, x: Tensor, k: int, adjoint_too: bool = False) -> Tensor:
    """Reflectors 0 to k - 1 (or the adjoint of their product) applied to x from the left."""
    vectors = input[..., :k].tril(-1) + NAMESPACE["eye"](
        input._layout.shape[-2], k, dtype=input._layout.dtype, device=input._layout.device
    )
    for i in range(k) if adjoint_too else range(k - 1, -1, -1):
        v = vectors[..., i : i + 1]
        factor = tau[..., i, None, None]
        factor = factor.conj() if adjoint_too and factor.is_complex() else factor
        x = x - factor * matmul(v, matmul(adjoint(v), x))
    return x


@composite(out=True, autocast=single)
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """See linalg.householder_product."""
    return linalg_householder_product(input, input2)


def _check_product(input: Tensor, tau: Tensor, other: Tensor, left: bool) -> None:
    """RuntimeError unless ormqr's arguments fit each other."""
    name = "torch.ormqr"
    a, t, b = input._layout, tau._layout, other._layout
    for given, layout in (("input", a), ("other", b)):
        if layout.ndim < 2:
            raise RuntimeError(f"{name}: {given} must have at least 2 dimensions.")
    side = -2 if left else -1
    if b.shape[side] != a.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if t.ndim != a.ndim - 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {t.ndim} "
            f"and input.ndim is equal to {a.ndim}"
        )
    if t.shape[-1] != min(b.shape[side], a.shape[-1]):
        raise RuntimeError(f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    if b.ndim != a.ndim:
        raise RuntimeError(
            f"{name}: Expected other to have the same number of dimensions as input, but got other.ndim equal to "
            f"{b.ndim} and input.ndim is equal to {a.ndim}"
        )
    for given, lead in (("tau", t.shape[:-1]), ("other", b.shape[:-2])):
        if lead != a.shape[:-2]:
            raise RuntimeError(
                f"{name}: Expected batch dimensions of {given} to be equal to input.shape[:-2], but got {list(lead)}"
            )
    for given, layout in (("tau", t), ("other", b)):
        if layout.dtype is not a.dtype:
            raise RuntimeError(
                f"{name}: Expected input and {given} to have the same dtype, but input has "
                f"dtype{a.dtype.scalar_name} and {given} has dtype {layout.dtype.scalar_name}"
            )
    computed("ormqr_cpu", input)


_ORMQR_DTYPE = worded(
    "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{have} and result has dtype {got}"
)


@composite(node="OrmqrBackward0", autocast=single, out=Out(dtype=_ORMQR_DTYPE, as_made=True))
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q other (or other Q, or with the adjoint of Q), Q being the full product of the reflectors in `input` and `tau`."""
    _check_product(input, tau, other, left)
    k = tau._layout.shape[-1]
    if k and left and _without_graph(input, tau, other):
        return _reflectors_times(input, tau, other, bool(transpose))
    made = _reflect(input, tau, other, k, transpose) if left else adjoint(_reflect(input, tau, adjoint(other), k, not transpose))
    return laid_in_columns(made)
