"""Batching rules of convolutions, pooling and the like: the batch goes into the images' own batch, or into their
channels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.layout import Layout
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nn import adaptive_pool, average_pool, conv, interpolate, max_pool
from flambeau.ops.views import fold
from flambeau.ops.views import pad as views_pad
from flambeau.transform.batch_rows import bound, call
from flambeau.transform.batched import Batch, rule
from flambeau.transform.levels import invoke, mapped, operator_of


def into_batch(x: Any) -> Any:
    """(B, N, ...) as (B N, ...)."""
    return x.reshape(x._layout.shape[0] * x._layout.shape[1], *x._layout.shape[2:])


def out_of_batch(batch: Batch, x: Any) -> Any:
    """(B N, ...) as (B, N, ...)."""
    return x.unflatten(0, (batch.size, x._layout.shape[0] // max(batch.size, 1)))


def into_channels(x: Any) -> Any:
    """(B, N, C, ...) as (N, B C, ...)."""
    shape = x._layout.shape
    return x.movedim(0, 1).reshape(shape[1], shape[0] * shape[2], *shape[3:])


def out_of_channels(batch: Batch, x: Any) -> Any:
    """(N, B C, ...) as (B, N, C, ...)."""
    return x.unflatten(1, (batch.size, x._layout.shape[1] // max(batch.size, 1))).movedim(1, 0)


# ---------------------------------------------------------------- convolution


@rule(conv._convolve, conv._gradient_of_input, conv._gradient_of_weight)
def convolution(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Examples that share the weight are more images; those with their own are more groups."""
    named = bound(function, args, kwargs)
    for_weight = function is conv._gradient_of_weight
    first, second = ("input", "grad") if for_weight else ("input" if "input" in named else "grad", "weight")
    a, b, bias, size = named[first], named[second], named.pop("bias", None), batch.size
    given = dict(named)
    if "bias" in operator_of(function).signature.parameters:
        given["bias"] = None
    if not for_weight and not batch.has(b):
        if bias is not None and not batch.has(bias):
            given["bias"], bias = bias, None
        if not batch.has(a):
            made = call(function, given | {first: a})
        else:
            made = call(function, given | {first: into_batch(a.value)})
            made = batch.wrap(out_of_batch(batch, made))
    else:
        given[first] = into_channels(batch.lift(a))
        given[second] = into_channels(batch.lift(b)) if for_weight else into_batch(batch.lift(b))
        made = call(function, given | {"groups": named["groups"] * size})
        made = batch.wrap(out_of_batch(batch, made) if for_weight else out_of_channels(batch, made))
    return made if bias is None else made + bias.reshape(-1, *(1,) * (made._layout.ndim - 2))


# ---------------------------------------------------------------- one image after the other


_SPATIAL = re.compile(r"(\d)d")


@rule(
    *[
        f"{name}{n}d"
        for n in (1, 2, 3)
        for name in ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "max_unpool", "lp_pool")
    ],
    *[f"max_pool{n}d_with_indices" for n in (1, 2, 3)],
    *[f"adaptive_max_pool{n}d_with_indices" for n in (1, 2, 3)],
)
def pooling(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Pooling of planes: all examples of (C, ...) are a batch, those of (N, C, ...) go into N."""
    spatial = int(_SPATIAL.search(function.__name__).group(1))  # type: ignore[union-attr]
    return planes(batch, function, args, kwargs, spatial)


@rule(
    fold._im2col,
    fold._col2im,
    fold.pixel_shuffle,
    fold.pixel_unshuffle,
    fold.channel_shuffle,
    interpolate.resample,
    "look_up",
    average_pool.average_windows,
    adaptive_pool.average_adaptively,
    views_pad._mirrored,
    declared=True,
)
def images(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Operators on (N, C, ...): the batch goes into N. One on (C, ...) is run on the batch as N."""
    named = bound(function, args, kwargs)
    ndim = max(x._layout.ndim for x in named.values() if isinstance(x, Tensor))
    if function in (fold.pixel_shuffle, fold.pixel_unshuffle):
        return batch.wrap(call(function, named | {"input": named["input"].value}))
    if function is views_pad._mirrored:
        return pad(batch, function, named)
    if ndim < 3:
        return batch.loop(function, args, kwargs)
    return planes(batch, function, args, kwargs, ndim - 2)


def planes(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any], spatial: int) -> Any:
    """The call with the batch merged into the first dimension of tensors of spatial + 2 dimensions, or in front of
    others.
    """
    ndim = max(x._layout.ndim for x in [*args, *kwargs.values()] if isinstance(x, Tensor))
    merge = ndim == spatial + 2
    if ndim not in (spatial + 1, spatial + 2):
        return batch.loop(function, args, kwargs)

    def lifted(x: Any) -> Any:
        x = batch.lift(x)
        return into_batch(x) if merge else x

    result = invoke(
        function,
        [lifted(x) if isinstance(x, Tensor) else x for x in args],
        {k: lifted(x) if isinstance(x, Tensor) else x for k, x in kwargs.items()},
    )
    if merge:
        result = mapped(lambda x: out_of_batch(batch, x), result)
    return batch.wrap(result)


def pad(batch: Batch, function: Callable, named: dict[str, Any]) -> Any:
    """Reflected, replicated or circular padding of the last dimensions."""
    x = named["input"]
    spatial = len(named["pad"]) // 2
    if x._layout.ndim == spatial + 1:
        return batch.wrap(call(function, named | {"input": x.value}))
    made = call(function, named | {"input": into_batch(x.value)})
    return batch.wrap(out_of_batch(batch, made))


@rule(views_pad.constant_pad_nd)
def constant_pad(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Padding counts from the last dimension, so the batch is out of its way."""
    x = args[0]
    rest = [*args[1:], *kwargs.values()]
    if len(rest[0]) > 2 * x._layout.ndim or any(isinstance(r, Tensor) for r in rest):
        return batch.loop(function, args, kwargs)
    return batch.wrap(invoke(function, (x.value, *args[1:]), kwargs))


@rule(
    max_pool.pairs_backward,
    max_pool.pairs_gather,
    max_pool.scatter_planes,
    max_pool.gather_planes,
    average_pool.average_windows_backward,
    adaptive_pool.average_adaptively_backward,
    interpolate.resample_backward,
)
def plane_gradients(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Gradients of planes (any leading dimensions, then the image): the batch goes into the first of them."""
    named = bound(function, args, kwargs)
    for name, x in named.items():
        if isinstance(x, Tensor):
            if x._layout.ndim < 3:
                return batch.loop(function, args, kwargs)
            named[name] = into_batch(batch.lift(x)).contiguous()
        elif name == "image":
            named[name] = Layout.contiguous((batch.size * x.shape[0], *x.shape[1:]), x.dtype, x.device)
    made = call(function, named)
    return batch.wrap(out_of_batch(batch, made))
