"""Sharding of matrix products: rows, columns, batches, or the summed dimension, which leaves a sum to be made; of factorizations
and Fourier transforms: batches."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.distributed.tensor._ops.registry import OpCall, P, R, S, Way, partials, rule
from flambeau.distributed.tensor.placement_types import Placement, Shard


def _linear_in_each(call: OpCall, first: str, second: str) -> Iterable[Way]:
    """A factor whose parts are still to be summed, with a whole one."""
    for partial in partials(call):
        if partial.reduce_op in ("sum", "avg"):
            yield call.way(partial, **{first: partial})
            yield call.way(partial, **{second: partial})


@rule("mm", "bmm")
def product(call: OpCall) -> Iterable[Way]:
    """`self @ mat2`, of matrices or batches of them."""
    first, second = ("self", "mat2")
    rows = call.operands[0].ndim - 2
    if rows:
        yield call.way(S(0), **{first: S(0), second: S(0)})
    yield call.way(S(rows), **{first: S(rows)})
    yield call.way(S(rows + 1), **{second: S(rows + 1)})
    yield call.way(P, **{first: S(rows + 1), second: S(rows)})
    yield from _linear_in_each(call, first, second)


@rule("addmm", "baddbmm", "addmm_", "baddbmm_")
def product_and_sum(call: OpCall) -> Iterable[Way]:
    """`self + a @ b`; the summand is broadcast."""
    names = ("batch1", "batch2") if "batch1" in call.arguments else ("mat1", "mat2")
    left = call.operand(names[0])
    summand = call.operand("self")
    assert left is not None and summand is not None
    ndim = left.ndim
    rows = ndim - 2

    def broadcast(dim: int) -> Placement:
        own = dim - (ndim - summand.ndim)
        return R if own < 0 or summand.shape[own] == 1 else Shard(own)

    if rows:
        yield call.way(S(0), **{"self": broadcast(0), names[0]: S(0), names[1]: S(0)})
    yield call.way(S(rows), **{"self": broadcast(rows), names[0]: S(rows)})
    yield call.way(S(rows + 1), **{"self": broadcast(rows + 1), names[1]: S(rows + 1)})
    yield call.way(P, **{"self": P, names[0]: S(rows + 1), names[1]: S(rows)})


@rule("mv")
def matrix_vector(call: OpCall) -> Iterable[Way]:
    """A matrix times a vector."""
    yield call.way(S(0), self=S(0))
    yield call.way(P, self=S(1), vec=S(0))


@rule("dot", "vdot")
def dot(call: OpCall) -> Iterable[Way]:
    """Two vectors' product."""
    yield Way((P,), (S(0), S(0)))


@rule("linear")
def linear(call: OpCall) -> Iterable[Way]:
    """`input @ weight.T + bias`."""
    ndim = call.operands[0].ndim
    for dim in range(ndim - 1):
        yield call.way(S(dim), input=S(dim))
    bias = {"bias": S(0)} if call.operand("bias") is not None else {}
    yield call.way(S(ndim - 1), weight=S(0), **bias)
    partial = {"bias": P} if call.operand("bias") is not None else {}
    yield call.way(P, input=S(ndim - 1), weight=S(1), **partial)


@rule("_cdist_forward")
def distances(call: OpCall) -> Iterable[Way]:
    """Rows of both sides may be cut, and batches where both have them."""
    first, second = call.operands
    rows = call.results[0].shape
    if first.ndim == second.ndim == len(rows):
        for dim in range(len(rows) - 2):
            if first.shape[dim] == second.shape[dim]:
                yield call.way(S(dim), x1=S(dim), x2=S(dim))
        yield call.way(S(len(rows) - 2), x1=S(first.ndim - 2))
        yield call.way(S(len(rows) - 1), x2=S(second.ndim - 2))


@rule("svd", "_singular_values", "linalg_eigh", "linalg_eigvalsh", "linalg_qr", "linalg_det", "linalg_slogdet")
@rule("_linalg_svd", "_linalg_eigh", "_linalg_det", "_linalg_slogdet")
@rule("tril", "triu", "tril_", "triu_", "linalg_inv_ex", "linalg_cholesky_ex", "_linalg_solve_ex", "inverse")
def each_matrix(call: OpCall) -> Iterable[Way]:
    """Matrix by matrix: batches may be cut."""
    batches = min(spec.ndim for spec in call.operands) - 2
    if all(spec.ndim == call.operands[0].ndim for spec in call.operands):
        for dim in range(batches):
            yield call.way(S(dim), **{name: S(dim) for name in call.arguments if call.operand(name) is not None})
    if call.func._opname in ("tril", "triu"):
        for partial in partials(call):
            yield Way((partial,), (partial,))


@rule("_fft_r2c", "_fft_c2c", "_fft_c2r")
def fourier_transform(call: OpCall) -> Iterable[Way]:
    """Dimensions that aren't transformed may be cut."""
    ndim = call.operands[0].ndim
    transformed = {d % ndim for d in call["dim"]}
    for dim in range(ndim):
        if dim not in transformed:
            yield Way((S(dim),), (S(dim),))
