"""Sharding of convolutions, pooling and batch norm: batches may be cut, channels where each is computed by itself."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.distributed.tensor._ops.registry import OpCall, P, R, S, Way, localizes, rule
from flambeau.distributed.tensor.placement_types import Placement


@rule("convolution", "_convolution")
def convolution(call: OpCall) -> Iterable[Way]:
    """The batch, or the output's channels."""
    yield call.way(S(0), input=S(0))
    if call["groups"] == 1 and not call["transposed"]:
        yield call.way(S(1), weight=S(0), **({"bias": S(0)} if call.operand("bias") is not None else {}))


@rule("convolution_backward")
def convolution_backward(call: OpCall) -> Iterable[Way]:
    """The weights' gradients are sums over the batch."""
    wanted = call["output_mask"]
    results: list[Placement] = [p for p, asked in zip((S(0), P, P), wanted, strict=True) if asked]
    yield call.way(results, grad_output=S(0), input=S(0))


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "max_pool2d")
@rule("_adaptive_avg_pool3d", "adaptive_max_pool2d", "resample")
@rule("upsample_nearest1d", "upsample_linear1d", "upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d")
@rule("upsample_nearest3d", "upsample_trilinear3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d")
@rule("_upsample_nearest_exact3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
@rule("reflection_pad1d", "reflection_pad2d", "replication_pad2d", "grid_sampler_2d", "max_pool2d_with_indices_backward")
@rule("avg_pool2d_backward", "_adaptive_avg_pool2d_backward")
def each_image(call: OpCall) -> Iterable[Way]:
    """Every operand and result begins with batch and channels, and images are computed one by one."""
    if call.operands[0].ndim < 3:
        return
    channels = "grid_sampler" not in call.func._opname and call.operands[0].ndim > 3
    for dim in (0, 1) if channels else (0,):
        yield Way((S(dim),) * len(call.results), (S(dim),) * len(call.operands))


@rule("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")
def batch_norm(call: OpCall) -> Iterable[Way]:
    """Channels; batches too where the statistics are given."""
    channel = [S(1)] + [S(0) if meta.shape else R for meta in call.results[1:]]
    vectors = [name for name in call.arguments if name != "input" and call.operand(name) is not None]
    if all(tuple(meta.shape) in ((), (call.operands[0].shape[1],)) for meta in call.results[1:]):
        yield call.way(channel, input=S(1), **{name: S(0) for name in vectors})
    if call.func._opname == "_native_batch_norm_legit_no_training" or call.arguments.get("training") is False:
        yield call.way([S(0)] + [R] * (len(call.results) - 1), input=S(0))


@rule("constant_pad_nd")
def constant_pad(call: OpCall) -> Iterable[Way]:
    """Dimensions that nothing is added to."""
    padded = len(call["pad"]) // 2
    for dim in range(call.operands[0].ndim - padded):
        yield Way((S(dim),), (S(dim),))


@rule("native_batch_norm_backward")
def whole(call: OpCall) -> Iterable[Way]:
    """Only whole: all of a channel is needed on one rank."""
    return ()


@rule("native_group_norm")
def group_norm(call: OpCall) -> Iterable[Way]:
    """The batch, whose size is an argument."""
    yield call.way([S(0)] * len(call.results), input=S(0))


@rule("native_group_norm_backward")
def group_norm_backward(call: OpCall) -> Iterable[Way]:
    """The input's gradient is cut as the batch is, the parameters' are sums over it."""
    results = [p for p, asked in zip((S(0), P, P), call["output_mask"], strict=True) if asked]
    yield call.way(results, grad_out=S(0), input=S(0), mean=S(0), rstd=S(0))


localizes("N", "native_group_norm", "native_group_norm_backward")
