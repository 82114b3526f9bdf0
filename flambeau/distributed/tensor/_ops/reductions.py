"""Sharding of reductions: kept dimensions stay cut; reduced ones leave a reduction over the mesh to be made."""

from __future__ import annotations

import math
from collections.abc import Iterable

from flambeau.distributed.tensor._ops.registry import OpCall, R, S, Way, partials, rule
from flambeau.distributed.tensor.placement_types import Partial, _NormPartial

#: Which reduction over the mesh a reduction leaves; None: it needs all of the dimension on one rank.
_OVER_MESH = {
    "sum": "sum", "mean": "avg", "amax": "max", "amin": "min", "prod": "product", "nansum": "sum", "any": "sum",
    "all": "product", "max": "max", "min": "min", "count_nonzero": "sum", "std": None, "var": None, "logsumexp": None,
    "argmax": None, "argmin": None, "median": None, "nanmedian": None, "var_mean": None, "std_mean": None,
}  # fmt: skip


@rule(*_OVER_MESH)
def reduction(call: OpCall) -> Iterable[Way]:
    """Over some dimensions, or all."""
    name = call.func._opname
    op = _OVER_MESH[name]
    reduced = call.dims("dim")
    if "dim" in call.arguments and name in ("max", "min"):
        op = None  # a place comes with the value
    keepdim = bool(call.arguments.get("keepdim", False))
    count = len(call.results)
    kept = [dim for dim in range(call.operands[0].ndim) if dim not in reduced]
    for place, dim in enumerate(kept):
        yield Way((S(dim if keepdim else place),) * count, (S(dim),))
    if op is not None:
        for dim in reduced:
            if op != "avg" or call.even(0, dim, call.operands[0].shape[dim]):
                yield Way((Partial(op),) * count, (S(dim),))
    for partial in partials(call):
        if partial.reduce_op == op or (op in ("sum", "avg") and partial.reduce_op in ("sum", "avg")):
            yield Way((partial,) * count, (partial,))


@rule("linalg_vector_norm", "norm")
def vector_norm(call: OpCall) -> Iterable[Way]:
    """A norm of parts leaves the norm of these over the mesh, or their largest or smallest."""
    given = call["ord" if "ord" in call.arguments else "p"]
    order = 2.0 if given is None else float(given)
    left = Partial("max" if order > 0 else "min") if math.isinf(order) else _NormPartial(order) if order > 0 else None
    reduced, keepdim = call.dims("dim"), bool(call.arguments.get("keepdim"))
    kept = [dim for dim in range(call.operands[0].ndim) if dim not in reduced]
    for place, dim in enumerate(kept):
        yield Way((S(dim if keepdim else place),), (S(dim),))
    if left is not None and not call.now(0).is_partial():  # a norm of norms that are reduced first is whole at once
        for dim in reduced:
            yield Way((left,), (S(dim),))


@rule("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy")
def elementwise_loss(call: OpCall) -> Iterable[Way]:
    """A loss of each element, none, all averaged, or all summed."""
    result = {0: None, 1: Partial("avg"), 2: Partial("sum")}[call["reduction"]]
    shape = call.operands[0].shape
    if any(spec.shape != shape for spec in call.operands):
        return
    for dim, size in enumerate(shape):
        if call["reduction"] != 1 or call.even(0, dim, size):
            yield Way((result if result is not None else S(dim),), (S(dim),) * len(call.operands))


@rule("mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward")
def elementwise_loss_backward(call: OpCall) -> Iterable[Way]:
    """The gradient of a loss of each element; an average's divides by the part's size, and so needs the whole."""
    shape = call.results[0].shape
    if call["reduction"] == 1:
        return
    for dim in range(len(shape)):
        yield Way((S(dim),), tuple(S(dim) if spec.shape == shape else R for spec in call.operands))
