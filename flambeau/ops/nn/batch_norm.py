"""Batch norm and instance norm, which is batch norm with the batch folded into the channels.

The kernels are those of ops.nn.norm; a frozen batch norm is a pointwise operator. Stands on ops.nn.norm; used by nn.functional.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base import memory_order
from flambeau.base.layout import Layout, register_cache
from flambeau.core.autograd.node import refuse_gradient
from flambeau.core.modes import modes
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.pointwise import Folded, Pointwise
from flambeau.core.operator.publishing import explained
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.ir import scalar as s
from flambeau.ir.scalar import cast, compute_dtype
from flambeau.ops.indexing.gather_plans import zeros_for
from flambeau.ops.nn.norm import (
    GRADIENT_IMAGES,
    NORMALIZE_IMAGES,
    check_floating,
    check_parameters,
    column,
    gradients_by_operators,
    reshaped,
    values_in,
)


def _check_channels(channels: int, **vectors: Tensor | None) -> None:
    for name, vector in vectors.items():
        if vector is not None and vector._layout.numel != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {vector._layout.numel}")


@operator(method=False, differentiable=1, underneath="batch_norm")
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training,
    momentum,
    eps,
) -> tuple[Tensor, Tensor, Tensor]:
    """(batch norm, mean, 1 / standard deviation) per channel (dimension 1).

    training: by the batch's own statistics, which move `running_mean` and `running_var` in place; else by those two.
    """
    layout = input._layout
    if not training and running_mean is not None and running_var is not None:
        key = (
            layout,
            running_mean._layout,
            running_var._layout,
            None if weight is None else weight._layout,
            None if bias is None else bias._layout,
            eps,
        )
        known = _frozen_plans.get(key)
        if known is not None:
            launch, nothing, own = known
            given = [p for p in (weight, bias) if p is not None]
            return (launch(None, input, running_mean, running_var, *given, *own), empty_layout(nothing), empty_layout(nothing))
    if training:
        key = (layout, *[None if p is None else p._layout for p in (weight, bias, running_mean, running_var)])
        known = _training_plans.get(key)
        if known is not None:
            return _trained(known, input, weight, bias, running_mean, running_var, momentum, eps)
    if layout.numel:
        check_floating("batch_norm", input)
    if layout.ndim < 2 and layout.numel:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {layout.ndim}")
    channels = layout.shape[1] if layout.ndim > 1 else 0
    if (running_mean is None or running_var is None) and not training:
        raise RuntimeError(f"running_{'mean' if running_mean is None else 'var'} must be defined in evaluation mode")
    _check_channels(channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    after = max(layout.ndim - 2, 0)
    if layout.numel:
        check_parameters(input, weight, bias, running_mean, running_var)
    else:
        nothing = Layout.contiguous((channels,), compute_dtype(layout.dtype), layout.device)
        return input.clone(), empty_layout(nothing), empty_layout(nothing)
    if not training:
        strides = memory_order.format_strides(layout.shape, layout.strides)
        nothing = Layout.contiguous((0,), compute_dtype(layout.dtype), layout.device)
        ordered = strides == layout.strides or not memory_order.is_dense(layout.shape, layout.strides)
        ordered = ordered and memory_order.same_order(layout.shape, layout.strides, strides)
        if not ordered:
            input = _in_strides(input, strides)
        operator, operands = _frozen(input, *[column(x, after) for x in (weight, bias, running_mean, running_var)])
        out = operator.compute(operands, (float(eps),))
        if ordered and all(x._layout.flavor is None for x in operands):
            own = () if operator.number_kinds((float(eps),))[0] is Folded else (float(eps),)
            _frozen_plans[key] = (operator.plan(operands, (float(eps),), (), None), nothing, own)
        return out, empty_layout(nothing), empty_layout(nothing)
    over = (0, *range(2, layout.ndim))
    count = values_in(input, over)
    numbers: tuple = (float(count), float(eps))
    inputs = [input, *[column(p, after) for p in (weight, bias) if p is not None]]
    track = running_mean is not None and running_var is not None
    if track:
        inputs += [column(running_mean, after), column(running_var, after)]
        numbers += (float(momentum), count / (count - 1) if count > 1 else math.nan)
    statics = (weight is not None, bias is not None, track, False)
    outs = (None, None, None, running_mean, running_var) if track else None
    vector = Layout.contiguous((channels,), compute_dtype(layout.dtype), layout.device)
    if any(x._layout.flavor is not None for x in inputs):
        out, mean, scale, *_ = NORMALIZE_IMAGES(inputs, over, numbers, statics, outs)
        return out, reshaped(mean, vector), reshaped(scale, vector)
    launch = NORMALIZE_IMAGES.launcher(inputs, over, numbers, statics, (), outs)
    known = _training_plans[key] = launch, numbers[0], numbers[3:], vector
    return _trained(known, input, weight, bias, running_mean, running_var, momentum, eps)


def _in_strides(x: Tensor, strides: tuple[int, ...]) -> Tensor:
    """A plain tensor with these strides: itself, if it lies so but for the strides of dimensions of size 1, or a copy."""
    layout = x._layout
    wanted = Layout.of(layout.shape, strides, layout.dtype, layout.device)
    plain = tensor_from(x._storage, x._offset, layout)
    if all(size == 1 or a == b for size, a, b in zip(layout.shape, layout.strides, strides)):
        return tensor_from(x._storage, x._offset, wanted)
    return empty_layout(wanted).copy_(plain)


_training_plans: dict[Any, tuple] = register_cache({})


def _trained(
    known: tuple,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """A batch norm whose plan is known."""
    launch, count, unbias, vector = known
    given = [p for p in (weight, bias) if p is not None]
    if unbias:
        results = launch(
            None,
            None,
            None,
            running_mean,
            running_var,
            input,
            *given,
            running_mean,
            running_var,
            count,
            float(eps),
            float(momentum),
            *unbias,
        )
    else:
        results = launch(None, None, None, input, *given, count, float(eps))
    return results[0], reshaped(results[1], vector), reshaped(results[2], vector)


def _frozen_body(x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, eps: Any = 0.0) -> Any:
    dtype = x.dtype
    out = (x - cast(mean, dtype)) * (1 / s.sqrt(cast(variance, dtype) + eps))
    if weight is not None:
        out = out * cast(weight, dtype)
    return out if bias is None else out + cast(bias, dtype)


def _frozen_with(weight: bool, bias: bool) -> Pointwise:
    names = ["x", "mean", "variance", *(["weight"] if weight else []), *(["bias"] if bias else [])]

    def body(*values: Any, eps: Any) -> Any:
        return _frozen_body(**dict(zip(names, values)), eps=eps)

    return Pointwise("batch_norm_frozen", body, names, {"eps": 1e-5}, undecided=names[1:], node="NativeBatchNorm")


_FROZEN = {(w, b): _frozen_with(w, b) for w in (False, True) for b in (False, True)}


def _frozen(x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Any, variance: Any) -> tuple[Pointwise, tuple]:
    """The operator of a norm by given statistics, and its operands."""
    return _FROZEN[weight is not None, bias is not None], (x, mean, variance, *[p for p in (weight, bias) if p is not None])


_frozen_plans: dict[Any, tuple] = register_cache({})


def _wide_column(vector: Tensor | None, after: int) -> Tensor | None:
    """A vector (C,) as (C, 1, ..., 1), as a differentiable view."""
    return vector if vector is None or not after else vector.reshape(-1, *(1,) * after)


@native_batch_norm.vjp
def _(g, out1, out2, input, weight, running_mean, running_var, training, eps, need, layouts):
    layout = input._layout
    if not layout.numel:
        return g, *[None if p is None else zeros_for(p, g) for p in layouts[1:3]], None, None
    if modes.local.grad or g._layout.flavor is not None:
        return _batch_gradients_by_operators(g, input, weight, running_mean, running_var, training, eps, need)
    over, after = (0, *range(2, layout.ndim)), layout.ndim - 2
    if training:
        mean, scale = out1, out2
    else:
        mean = running_mean
        scale = (running_var.to(compute_dtype(layout.dtype)) + eps).rsqrt()
    factor = () if weight is None else (weight,)
    key = (layout, g._layout, mean._layout, scale._layout, training, *[w._layout for w in factor])
    known = _gradient_plans.get(key)
    if known is None:
        inputs = (input, g, *[column(x, after) for x in (mean, scale, *factor)])
        count = float(values_in(input, over))
        launch = GRADIENT_IMAGES.launcher(inputs, over, (count,), (weight is not None, True, False, not training))
        known = launch, count, Layout.contiguous((layout.shape[1],), compute_dtype(layout.dtype), layout.device)
        _gradient_plans[key] = known
    launch, count, vector = known
    dx, dw, db = launch(None, None, None, input, g, mean, scale, *factor, count)
    return (
        dx if need["input"] else None,
        reshaped(dw, vector) if need["weight"] else None,
        reshaped(db, vector) if need["bias"] else None,
        None,
        None,
    )


_gradient_plans: dict[Any, tuple] = register_cache({})


def _batch_gradients_by_operators(g, input, weight, running_mean, running_var, training, eps, need) -> tuple:
    """The gradients in differentiable operators, for gradients of gradients."""
    layout = input._layout
    over, after = (0, *range(2, layout.ndim)), layout.ndim - 2
    wide_weight = _wide_column(weight, after)
    if training:
        dx, dw, db = gradients_by_operators(g, input, over, over, wide_weight, eps, need)
    else:
        scale = (_wide_column(running_var, after) + eps).rsqrt()
        dx = g * scale if weight is None else g * scale * wide_weight
        dw = (g * (input - _wide_column(running_mean, after)) * scale).sum(over) if need["weight"] else None
        db = g.sum(over) if need["bias"] else None
    return (
        dx if need["input"] else None,
        None if dw is None else dw.reshape(-1),
        None if db is None else db.reshape(-1),
        None,
        None,
    )


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalise each channel (dimension 1) over the batch and all other dimensions, then scale and shift.

    input: (N, C, ...); running_mean, running_var, weight, bias: (C,) or None. In training the batch's own statistics
    are used, and the running ones move by `momentum` towards them. Raises ValueError when there is one value per
    channel to train on, or for an eps that is not positive.
    """
    if training:
        shape = input.size()
        if shape[0] * math.prod(shape[2:]) == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {shape}")
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    if running_mean is not None:
        refuse_gradient("native_batch_norm", running_mean=running_mean, running_var=running_var)
        if (
            not training
            and getattr(input, "tangent", None) is not None
            and any(getattr(x, "tangent", None) is not None for x in (running_mean, running_var))
        ):
            raise RuntimeError(
                "batch_norm is not differentiable wrt running_mean and running_var, they cannot have forward grad defined"
            )
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@explained
def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum: float = 0.1,
    eps: float = 1e-5,
):
    """Normalise each channel of each sample over its spatial dimensions, then scale and shift per channel.

    input: (N, C, ...); the vectors: (C,) or None. use_input_stats False: by the running statistics, else these move (by
    the mean over the batch) in place. Raises ValueError when there is one element to a channel.
    """
    if use_input_stats:
        size = input.size()
        if math.prod(size[2:]) == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")
    refuse_gradient("native_batch_norm", running_mean=running_mean, running_var=running_var)
    n, c = input.shape[:2]

    def repeated(vector: Any) -> Any:
        return None if vector is None else vector.repeat(n)

    mean, variance = repeated(running_mean), repeated(running_var)
    if mean is not None and variance is not None:
        wide = compute_dtype(input._layout.dtype) if weight is None else weight._layout.dtype
        mean, variance = mean.to(wide), variance.to(wide)
    flat = input.contiguous().view(1, n * c, *input.shape[2:])
    out = native_batch_norm(flat, repeated(weight), repeated(bias), mean, variance, use_input_stats, momentum, eps)[0]
    if use_input_stats:
        for running, moved in ((running_mean, mean), (running_var, variance)):
            if running is not None:
                running.detach().copy_(moved.view(n, c).mean(0))
    return out.view(input.shape)


@composite(method=False, name="batch_norm")
def _torch_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training,
    momentum,
    eps,
    cudnn_enabled,
) -> Tensor:
    """torch.batch_norm: see nn.functional.batch_norm."""
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@composite(method=False)
def batch_norm_update_stats(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float):
    """(mean, variance) per channel (dimension 1) of input (N, C, ...), by which the running ones move in place.

    The variance is that of the values given, n in its denominator; the running one gets n - 1. RuntimeError without elements.
    """
    layout = input._layout
    if not layout.numel:
        raise RuntimeError(f"input tensor must have at least one element, but got input_sizes = {list(layout.shape)}")
    over = [0, *range(2, layout.ndim)]
    _check_channels(layout.shape[1], running_mean=running_mean, running_var=running_var)
    mean, variance = input.mean(over), input.var(over, correction=0)
    count = values_in(input, tuple(over))
    with modes.no_grad():
        if running_mean is not None:
            running_mean.lerp_(mean, momentum)
        if running_var is not None:
            running_var.lerp_(variance * (count / (count - 1) if count > 1 else math.nan), momentum)
    return mean, variance


@composite(method=False, name="instance_norm", asks="size")
def _torch_instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats,
    momentum,
    eps,
    cudnn_enabled,
) -> Tensor:
    """torch.instance_norm: see nn.functional.instance_norm."""
    return instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
