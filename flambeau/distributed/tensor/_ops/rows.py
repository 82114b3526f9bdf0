"""Sharding of what computes rows: softmax, norms, scans, sorts. The dimensions that rows don't run along may be cut."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.distributed.tensor._ops.registry import OpCall, P, R, S, Way, outer_dims, rule


@rule("_softmax", "_log_softmax", "softmax", "log_softmax", "_softmax_backward_data", "_log_softmax_backward_data")
@rule("_safe_softmax")
@rule("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "sort", "topk", "kthvalue", "mode", "cumsum_", "cumprod_")
@rule("glu", "glu_backward", "renorm", "diff")
def along_one_dim(call: OpCall) -> Iterable[Way]:
    """All operands and results have the row's dimension in the same place."""
    ndim = call.operands[0].ndim
    if "dim" not in call.arguments or ndim == 0:
        return
    for dim in outer_dims(call, [call.dim("dim", ndim)]):
        if all(spec.ndim == ndim for spec in call.operands) and all(len(meta.shape) == ndim for meta in call.results):
            yield Way((S(dim),) * len(call.results), (S(dim),) * len(call.operands))


@rule("_real_to_complex", "_complex_to_complex", "_complex_to_real")
def fourier(call: OpCall) -> Iterable[Way]:
    """The dimensions that aren't transformed."""
    for dim in outer_dims(call, call.dims("dims" if "dims" in call.arguments else "dim")):
        yield Way((S(dim),), (S(dim),))


@rule("multinomial")
def draws(call: OpCall) -> Iterable[Way]:
    """Rows of weights are drawn from one by one."""
    if call.operands[0].ndim == 2:
        yield Way((S(0),), (S(0),))


@rule("diagonal", "trace", "histc")
def whole(call: OpCall) -> Iterable[Way]:
    """Only whole: every dimension takes part."""
    return ()


@rule("native_layer_norm", "layer_norm", "rms_norm", "_fused_rms_norm")
def layer_norm(call: OpCall) -> Iterable[Way]:
    """Rows are the last dimensions, `normalized_shape` of them."""
    rows = len(call["normalized_shape"])
    for dim in range(call.operands[0].ndim - rows):
        yield call.way(S(dim), input=S(dim))


@rule("native_layer_norm_backward", "_fused_rms_norm_backward")
def layer_norm_backward(call: OpCall) -> Iterable[Way]:
    """The input's gradient is cut as the input is, the parameters' are sums over rows."""
    rows = len(call["normalized_shape"])
    cut = ("grad_out", "input", "mean", "rstd")
    for dim in range(call.operands[0].ndim - rows):
        results = [p for p, asked in zip((S(dim), P, P), call["output_mask"], strict=False) if asked]
        yield call.way(results, **{name: S(dim) for name in cut if call.operand(name) is not None})


@rule("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(call: OpCall) -> Iterable[Way]:
    """Without reduction the batch may be cut; a sum leaves a sum. An average needs every rank's weights, hence the whole."""
    if call["reduction"] == 0:
        yield call.way([S(0), R], self=S(0), target=S(0))
    elif call["reduction"] == 2:
        yield call.way([P, P], self=S(0), target=S(0))


@rule("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(call: OpCall) -> Iterable[Way]:
    """The gradient of each row; an average's divides by the weights of all, which come along."""
    gradient = S(0) if call["reduction"] == 0 else R
    yield call.way(S(0), grad_output=gradient, self=S(0), target=S(0))


def _targets(call: OpCall) -> Iterable[tuple[int, int]]:
    """(dimension of the input, that of the targets) of those that aren't the classes'."""
    target = call.operand("target")
    assert target is not None
    ndim = target.ndim + 1
    return [(dim, dim - (dim > 1)) for dim in range(ndim) if dim != 1] if ndim > 1 else []


@rule("nll_loss", "cross_entropy_loss")
def nll_loss_of_images(call: OpCall) -> Iterable[Way]:
    """As nll_loss_forward, of classes at places: batch and places may be cut. (Of cross entropy, sums of exponentials too.)"""
    if call["reduction"] == "mean":
        return
    for dim, own in _targets(call):
        each = [S(own) if meta.shape else P for meta in call.results]
        yield call.way(each, input=S(dim), target=S(own))


@rule("_nll_gradient")
def nll_loss_of_images_backward(call: OpCall) -> Iterable[Way]:
    """The gradient of each place."""
    for dim, own in _targets(call):
        ways = {name: S(own) for name in ("g", "total") if (spec := call.operand(name)) is not None and spec.ndim}
        yield call.way(S(dim), input=S(dim), target=S(own), **ways)
