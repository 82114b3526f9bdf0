"""Batching rules of normalisations and losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.modes.modes import no_grad
from flambeau.core.operator.pointwise import call as pointwise_call
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.ops.elementwise.ternary import where
from flambeau.ops.nn import batch_norm as nn_batch_norm
from flambeau.ops.nn import cross_entropy as nn_cross_entropy
from flambeau.ops.nn import loss, norm
from flambeau.ops.nn.cross_entropy import by_operators, class_axis
from flambeau.transform.batch_images import into_batch, into_channels, out_of_batch, out_of_channels
from flambeau.transform.batch_rows import bound, call
from flambeau.transform.batched import Batch, rule
from flambeau.transform.levels import operator_of


@rule(norm.native_layer_norm, norm.fused_rms_norm, declared=True)
def layer_norm(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The norm of all examples; weights of their own come after it."""
    named = bound(function, args, kwargs)
    weight, bias = named["weight"], named.get("bias")
    own = batch.has(weight) or batch.has(bias)
    if own or not batch.has(named["input"]):
        named |= {"weight": None} | ({"bias": None} if "bias" in named else {})
        result = call(function, named | {"input": batch.lift(named["input"])})
        out, *rest = batch.wrap(result)
        out = out if weight is None else out * weight
        return (out if bias is None else out + bias, *rest)
    return batch.wrap(call(function, named | {"input": named["input"].value}))


@rule(norm.native_group_norm)
def group_norm(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Each image of each example has its own statistics."""
    named = bound(function, args, kwargs)
    if "N" in named:
        return batch.loop(function, args, kwargs)
    input, weight, bias = named["input"], named["weight"], named["bias"]
    own = batch.has(weight) or batch.has(bias)
    if own:
        named |= {"weight": None, "bias": None}
    result = call(function, named | {"input": into_batch(batch.lift(input))})
    out, *rest = [batch.wrap(out_of_batch(batch, x)) for x in result]
    if own:
        out = _affine(out, weight, bias)
    return (out, *rest)


def _affine(out: Any, weight: Any, bias: Any) -> Any:
    """A weight and a bias per channel."""
    after = (1,) * (out._layout.ndim - 2)
    out = out if weight is None else out * weight.reshape(-1, *after)
    return out if bias is None else out + bias.reshape(-1, *after)


@rule(nn_batch_norm.native_batch_norm)
def batch_norm(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """In training the examples' channels stand side by side, each with its own statistics."""
    named = bound(function, args, kwargs)
    input, weight, bias = named["input"], named["weight"], named["bias"]
    mean, variance = named["running_mean"], named["running_var"]
    if input._layout.ndim < 2:
        return batch.loop(function, args, kwargs)
    if named["training"] and mean is not None and not (batch.has(mean) and batch.has(variance)) and named["momentum"]:
        if batch.has(input):
            raise RuntimeError(
                "Batch norm got a batched tensor as input while the running_mean or running_var, which "
                "will be updated in place, were "
                "not batched.\nIf you are using a module and do not need eval mode, please set "
                "`track_running_stats` to be False.If "
                "you are using a prebuilt module and do not need eval mode, please see the functorch "
                "website for resources on how to "
                "patch your module to work with vmap"
            )
    x = into_channels(batch.lift(input))
    vectors: list[Any] = [None if v is None else batch.lift(v).reshape(-1) for v in (mean, variance)]
    result = call(
        function, named | {"input": x, "weight": None, "bias": None, "running_mean": vectors[0], "running_var": vectors[1]}
    )
    out = result[0]
    out = batch.wrap(out_of_channels(batch, out))
    if named["training"]:
        for vector, moved in zip((mean, variance), vectors):
            if batch.has(vector):
                with no_grad():
                    vector.value.copy_(moved.reshape(vector.value._layout.shape))
    rest = [batch.wrap(x.reshape(batch.size, -1)) if x._layout.numel else x for x in result[1:]]
    return (_affine(out, weight, bias), *rest)


@rule(
    loss.MSE.total,
    loss.L1.total,
    loss.SMOOTH_L1.total,
    loss.HUBER.total,
    loss.BINARY.total,
    loss.LOGITS.total,
    loss.SOFT_MARGIN.total,
    declared=True,
)
def element_loss(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The losses of the elements, then their sum or mean."""
    named = bound(function, args, kwargs)
    losses = pointwise_call(operator_of(function).point, [named["input"], named["target"]], tuple(named["numbers"]))
    return losses.mean() if named["mean"] else losses.sum()


@rule(nn_cross_entropy.fused_cross_entropy)
def cross_entropy(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Logarithms of probabilities, then the loss of these; the other results belong to the kernel that is not used."""
    named = bound(function, args, kwargs)
    return (
        by_operators(
            named["input"], named["target"], named["weight"], named["reduction"], named["ignore_index"], named["smoothing"]
        ),
        None,
        None,
    )


@rule(nn_cross_entropy.fused_nll_loss, declared=True)
def nll_loss(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Minus the logarithm at the target, weighted, where the target counts."""
    named = bound(function, args, kwargs)
    input, target, weight, reduction = named["input"], named["target"], named["weight"], named["reduction"]
    axis = class_axis(input)
    if input._layout.ndim == 1:
        target = target.reshape(())
    counts = target != named["ignore_index"]
    safe = target.masked_fill(counts.logical_not(), 0)
    loss = -input.gather(axis, safe.unsqueeze(axis)).squeeze(axis)
    shares = counts.to(input._layout.dtype)
    if weight is not None:
        shares = shares * weight.detach()[safe]
    loss = where(counts, loss * shares, 0.0)
    total = shares.sum()
    if reduction == "none":
        return loss, total
    return (loss.sum() / total if reduction == "mean" else loss.sum()), total


@rule(nn_cross_entropy._nll_gradient)
def nll_gradient(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The gradient of nll_loss: minus the weight at the target."""
    named = bound(function, args, kwargs)
    g, input, target, weight = named["g"], named["input"], named["target"], named["weight"]
    axis = class_axis(input)
    counts = target != named["ignore_index"]
    safe = target.masked_fill(counts.logical_not(), 0)
    shares = counts.to(input._layout.dtype)
    if weight is not None:
        shares = shares * weight[safe]
    if named["reduction"] == "mean":
        g = g / named["total"]
    values = (-(shares * g)).unsqueeze(axis)
    return NAMESPACE["zeros"](tuple(input._layout.shape), dtype=input._layout.dtype).scatter_add(
        axis, safe.unsqueeze(axis), values
    )
