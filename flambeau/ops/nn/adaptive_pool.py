"""Adaptive pooling: the size of the result is given, the windows follow. Stands on ops/nn/max_pool.py and
ops/nn/average_pool.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base import memory_order
from flambeau.base.dtype import int64
from flambeau.base.layout import Layout, register_cache
from flambeau.core.modes import modes
from flambeau.core.modes.autocast import single
from flambeau.core.operator.arguments import within_range
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.publishing import NAMESPACE, renamed
from flambeau.core.tensor.tensor import Tensor, within_memory
from flambeau.ops.nn import pooling_windows
from flambeau.ops.nn.average_pool import mean_backward, mean_forward
from flambeau.ops.nn.max_pool import kind_for, recorded, windowed_maximum

_plans: dict[Any, Callable] = register_cache({})


def _describe(name: str, counts: tuple[int, ...]) -> Callable:
    def describe(layout: Layout) -> tuple:
        dims = len(counts)
        kind = kind_for(name, layout.dtype, False)
        sizes = layout.shape[layout.ndim - dims :]
        within_memory(pooling_windows.result_layout(layout, dims, counts))
        return kind, dims, counts, pooling_windows.adaptive_tables(sizes, counts), 0

    return describe


@operator(method=False, function=False, node=lambda arguments: f"AdaptiveAvgPool{len(arguments[1])}DBackward0", jvp=LINEAR)
def average_adaptively(input: Tensor, counts: tuple[int, ...]) -> Tensor:
    """Means of the windows that cut the image in `counts` parts."""
    return mean_forward(input, counts, _describe(f"adaptive_avg_pool{len(counts)}d", counts))


@average_adaptively.vjp
def _(g, counts, layouts):
    pooling_windows.check_gradient(f"adaptive_avg_pool{len(counts)}d_backward", g._layout)
    return average_adaptively_backward(g, layouts[0], counts)


@operator(method=False, function=False, node=lambda arguments: f"AdaptiveAvgPool{len(arguments[2])}DBackwardBackward0")
def average_adaptively_backward(grad: Tensor, image: Layout, counts: tuple[int, ...]) -> Tensor:
    """The gradient of `average_adaptively`."""
    return mean_backward(grad, image, counts, _describe(f"adaptive_avg_pool{len(counts)}d", counts))


@average_adaptively_backward.vjp
def _(g, counts):
    return average_adaptively(g, counts)


def _target(layout: Layout, output_size: Any, dims: int) -> tuple[int, ...]:
    """The result's spatial shape: a number for all, or one each, None keeping the input's size."""
    sizes = layout.shape[max(0, layout.ndim - dims) :]
    if not isinstance(output_size, (list, tuple)):
        output_size = (output_size,) * dims
    elif layout.ndim <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    elif len(output_size) == 1 and dims > 1:
        output_size = tuple(output_size) * dims
    if len(output_size) == dims == len(sizes):
        return tuple(n if given is None else given.__index__() for given, n in zip(output_size, sizes))
    return tuple(output_size)


def _adaptive_mean(input: Tensor, output_size: Any, dims: int) -> Tensor:
    name = f"adaptive_avg_pool{dims}d"
    layout = input._layout
    counts = _target(layout, output_size, dims)
    within_range(name, ("output_size",) * len(counts), counts)
    if len(counts) != dims:
        raise RuntimeError(f"{name}: output_size must be {dims}")
    if any(n is None or n < 0 for n in counts):
        listed = ", ".join(map(str, counts[:2])) + "".join(f",{n}" for n in counts[2:])
        raise RuntimeError(f"{name}: elements of output_size must be greater than or equal to 0 but received {{{listed}}}")
    if layout.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got {list(layout.shape)}")
    if set(counts) == {1}:
        made = input.mean(tuple(range(-dims, 0)), True)
        if layout.ndim == dims + 2 and memory_order.suggests_channels_last(layout.shape, layout.strides):
            return made.as_strided(made._layout.shape, memory_order.channels_last_strides(made._layout.shape))
        return made
    _not_empty(name, layout, layout.ndim - dims if dims == 2 else 1)
    return average_adaptively(input, counts)


def _not_empty(name: str, layout: Layout, first: int = 1) -> None:
    """Every dimension has elements but those before `first`: the batch, or the channels of an unbatched image."""
    for d in range(first, layout.ndim):
        if layout.shape[d] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(layout.shape)} with dimension {d} being empty"
            )


@composite(method=False, function=False, asks="size")
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of (N, C, H, W) or (C, H, W) over windows that give `output_size` (None: the input's size)."""
    return _adaptive_mean(input, output_size, 2)


@composite(method=False, function=False, autocast=single, asks="size")
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of (N, C, D, H, W) or (C, D, H, W) over windows that give `output_size` (None: the input's size)."""
    return _adaptive_mean(input, output_size, 3)


def _length(name: str, output_size: Any) -> int:
    if isinstance(output_size, (list, tuple)):
        if len(output_size) != 1:
            raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(output_size)})")
        return output_size[0]
    return output_size


@composite(method=False)
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of (N, C, L) or (C, L) over windows that give a length of `output_size`."""
    pooling_windows.check_rank(input._layout, "adaptive_avg_pool1d")
    return _adaptive_mean(input.unsqueeze(-2), (1, _length("adaptive_avg_pool1d", output_size)), 2).squeeze(-2)


# ---------------------------------------------------------------- maximum


def _maximum(input: Tensor, counts: tuple[int, ...], found: bool) -> tuple[Tensor, Any]:
    """(maxima, their places, or None unless `found`)"""
    key = input._layout, counts, found
    launch = _plans.get(key)
    if launch is None:
        layout, dims = input._layout, len(counts)
        kind = kind_for(f"adaptive_max_pool{dims}d", layout.dtype, False)
        out = pooling_windows.result_layout(layout, dims, counts)
        places = Layout.of(out.shape, out.strides, int64, out.device)
        within_memory(out, places)
        taps = max(1, layout.numel // max(out.numel, 1))
        image = layout
        if set(counts) == {1} and pooling_windows.plane_is_dense(layout, dims):  # a single long row
            lead = layout.ndim - dims
            line = (*(1,) * (dims - 1), layout.shape[lead:].numel())
            image = Layout.of((*layout.shape[:lead], *line), (*layout.strides[:lead], *(1,) * dims), layout.dtype, layout.device)
        tables = pooling_windows.adaptive_tables(image.shape[image.ndim - dims :], counts)
        launch = _plans[key] = windowed_maximum(kind, image, [out, places][: 1 + found], tables, (1,) * dims, taps)
    return launch(None, None, input) if found else (launch(None, input), None)


def _adaptive_maximum(input: Tensor, output_size: Any, dims: int, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{dims}d"
    layout = input._layout
    counts = _target(layout, output_size, dims)
    if layout.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(layout.shape)}")
    _not_empty(name, layout)
    if len(counts) != dims:
        raise RuntimeError(f"{name}(): internal error: output_size.size() must be {dims}")
    if any(n < 0 for n in counts):
        shape = [*layout.shape[: layout.ndim - dims], *counts]
        raise RuntimeError(f"Trying to create tensor with negative dimension {next(n for n in counts if n < 0)}: {shape}")
    found = _maximum(input, counts, return_indices or (input._node is not None and modes.local.grad))
    return recorded(input, found, return_indices, "AdaptiveMaxPool", dims)


@composite(method=False, function=False)
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of (N, C, H, W) or (C, H, W) over windows that give `output_size`; places (int64) with return_indices."""
    return _adaptive_maximum(input, output_size, 2, return_indices)


@composite(method=False, function=False, autocast=single)
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of (N, C, D, H, W) or (C, D, H, W) over windows that give `output_size`; places (int64) with return_indices."""
    return _adaptive_maximum(input, output_size, 3, return_indices)


@composite(method=False, function=False)
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of (N, C, L) or (C, L) over windows that give a length of `output_size`; positions with return_indices."""
    pooling_windows.check_rank(input._layout, "adaptive_max_pool1d")
    _not_empty("adaptive_max_pool1d", input._layout)
    made = _adaptive_maximum(input.unsqueeze(-2), (1, _length("adaptive_max_pool1d", output_size)), 2, return_indices)
    return tuple(x.squeeze(-2) for x in made) if return_indices else made.squeeze(-2)


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """`adaptive_max_pool1d` that returns (maxima, positions)."""
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """`adaptive_max_pool2d` that returns (maxima, places)."""
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """`adaptive_max_pool3d` that returns (maxima, places)."""
    return adaptive_max_pool3d(input, output_size, True)


NAMESPACE["adaptive_max_pool1d"] = renamed(adaptive_max_pool1d_with_indices, "adaptive_max_pool1d")
