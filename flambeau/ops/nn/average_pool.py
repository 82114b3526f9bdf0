"""Average pooling in one to three dimensions, with fixed windows, and the machinery of means that adaptive pooling shares.

Stands on codegen.pooling.windows and ops/nn/max_pool.py; offered by flambeau.nn.functional and the namespace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float32, float64, int64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.pooling import pairs as pool_pairs
from flambeau.codegen.pooling import rows as pool_rows
from flambeau.codegen.pooling import windows as kernels
from flambeau.core.modes.autocast import single
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.out_rules import SAME_DEVICE, Out, exact
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nn import pooling_windows
from flambeau.ops.nn.max_pool import kind_for, launcher, pair_words, pairs_fit
from flambeau.ops.nn.pooling_windows import Window, check_rank, frozen, one_number, window

_plans: dict[Any, Callable] = register_cache({})


def mean_forward(input: Tensor, key: Any, describe: Callable) -> Tensor:
    """Means of windows; `describe(layout)` gives the spatial shape, the tables and the divisor when a plan is made."""
    found = _plans.get((input._layout, key))
    if found is None:
        layout = input._layout
        kind, dims, counts, tables, divisor = describe(layout)
        out = pooling_windows.result_layout(layout, dims, counts)
        if isinstance(key, Window) and dims == 2 and not divisor and pairs_fit(layout, key, counts):
            rows = pooling_windows.planes(out, 2) * counts[0]
            found = _plans[layout, key] = launcher(
                pool_pairs.forward_kernel(kind, "mean", False), rows, layout.numel, pair_words(layout, out), [out], [layout]
            )
            return found(None, input)
        rows = pooling_windows.planes(out, dims) * math.prod(counts[:-1])
        by_rows = kind.floating and layout.strides[-1] == 1
        slice = (layout.shape[-1] * 8 + 127) // 64 * 64 if by_rows else 0
        constants = pooling_windows.constants(layout, out, dims, tables, (), divisor, slice=slice)
        taps = math.prod(map(pooling_windows.most_taps, tables))
        kernel = pool_rows.mean_kernel(kind) if by_rows else kernels.forward_kernel(kind, "mean", None, False)
        found = launcher(kernel, rows, out.numel * taps, constants, [out], [layout], slice)
        _plans[input._layout, key] = found
    return found(None, input)


def mean_backward(grad: Tensor, image: Layout, key: Any, describe: Callable) -> Tensor:
    """Every window's share of the gradient, in an image like `image`."""
    found = _plans.get((grad._layout, image, key))
    if found is None:
        kind, dims, counts, tables, divisor = describe(image)
        out = pooling_windows.result_layout(image, dims, image.shape[image.ndim - dims :])
        if isinstance(key, Window) and dims == 2 and not divisor and pairs_fit(image, key, counts) and grad._layout.is_contiguous:
            rows = pooling_windows.planes(out, 2) * counts[0]
            found = _plans[grad._layout, image, key] = launcher(
                pool_pairs.backward_kernel(kind, "mean"),
                rows,
                image.numel,
                pair_words(image, grad._layout),
                [out],
                [grad._layout],
            )
            return found(None, grad)
        constants = pooling_windows.constants(out, grad._layout, dims, tables, (), divisor)
        unit = out.strides[-1] == 1 or out.shape[-1] == 1
        taps = math.prod(map(pooling_windows.most_taps, tables))
        found = launcher(
            kernels.spread_kernel(kind, unit),
            pooling_windows.planes(out, dims),
            out.numel + grad._layout.numel * taps,
            constants,
            [out],
            [grad._layout],
        )
        _plans[grad._layout, image, key] = found
    return found(None, grad)


def kind_of_means(dims: int, dtype: DType) -> Any:
    """The kernel's kind of element for windows in 2 or 3 dimensions; NotImplementedError for what PyTorch doesn't average."""
    if dims == 3 and dtype not in (float32, float64, int64):
        raise NotImplementedError(f"\"avg_pool3d_out_frame\" not implemented for '{dtype.scalar_name}'")
    return kind_for("avg_pool2d", dtype, dtype is int64)


def _describe_fixed(w: Window) -> Callable:
    def describe(layout: Layout) -> tuple:
        dims = len(w.kernel)
        kind = kind_of_means(dims, layout.dtype)
        if dims == 3:
            sizes = layout.shape[-3:]
            if any(size < kernel for size, kernel in zip(sizes, w.kernel)):
                listed = " ".join(f"{letter}: {n}" for letter, n in zip("THW", sizes))
                kernel = " ".join(f"k{letter}: {n}" for letter, n in zip("THW", w.kernel))
                raise RuntimeError(f"input image ({listed}) smaller than kernel size ({kernel})")
        counts = pooling_windows.pooled_shape(layout, w)
        return kind, dims, counts, pooling_windows.mean_tables(layout.shape[layout.ndim - dims :], counts, w), w.divisor

    return describe


def _average_node(arguments: Any) -> str:
    return f"AvgPool{len(arguments[1].kernel)}DBackward0"


@operator(method=False, function=False, node=_average_node, jvp=LINEAR)
def average_windows(input: Tensor, w: Window) -> Tensor:
    """Means of fixed windows."""
    return mean_forward(input, w, _describe_fixed(w))


@average_windows.vjp
def _(g, w, layouts):
    return average_windows_backward(g, layouts[0], w)


@operator(method=False, function=False, node=lambda arguments: f"AvgPool{len(arguments[2].kernel)}DBackwardBackward0")
def average_windows_backward(grad: Tensor, image: Layout, w: Window) -> Tensor:
    """The gradient of `average_windows` for an input of layout `image`."""
    return mean_backward(grad, image, w, _describe_fixed(w))


@average_windows_backward.vjp
def _(g, w):
    return average_windows(g, w)


@composite(method=False, function=False, out=Out(dtype=exact, device=SAME_DEVICE), written_in_python=False)
def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Any = None,
) -> Tensor:
    """Means of windows of (N, C, H, W) or (C, H, W). RuntimeError for sizes that don't fit."""
    sizes = [frozen(x) for x in (kernel_size, stride, padding)]
    w = window("avg_pool2d", 2, *sizes, 1, ceil_mode, count_include_pad, divisor_override)
    layout = input._layout
    if layout.ndim < 3:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-layout.ndim}, {layout.ndim - 1}], but got -3)")
    pooling_windows.check_image("avg_pool2d", layout, 2, "non-empty 3D or 4D (batch mode) tensor expected for input")
    return average_windows(input, w)


@composite(method=False, function=False, out=Out(dtype=exact), autocast=single, written_in_python=False)
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Any = None,
) -> Tensor:
    """Means of windows of (N, C, D, H, W) or (C, D, H, W). RuntimeError for sizes that don't fit."""
    sizes = [frozen(x) for x in (kernel_size, stride, padding)]
    w = window("avg_pool3d", 3, *sizes, 1, ceil_mode, count_include_pad, divisor_override)
    pooling_windows.check_image("avg_pool3d", input._layout, 3, "non-empty 4D or 5D (batch mode) tensor expected for input")
    return average_windows(input, w)


@composite(method=False)
def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor:
    """Means of windows of (N, C, L) or (C, L)."""
    check_rank(input._layout, "avg_pool1d")
    for argument, value in (("kernel_size", kernel_size), ("stride", stride), ("padding", padding)):
        if isinstance(value, (list, tuple)) and len(value) > 1:
            raise RuntimeError(f"avg_pool1d() argument '{argument}' should contain one int (got {len(value)})")
    kernel = one_number("avg_pool1d", "kernel_size", kernel_size)
    step = kernel if stride is None or stride == () or stride == [] else one_number("avg_pool1d", "stride", stride)
    pad = one_number("avg_pool1d", "padding", padding)
    w = window("avg_pool2d", 2, (1, kernel), (1, step), (0, pad), 1, ceil_mode, count_include_pad)
    image = input.unsqueeze(-2)
    pooling_windows.check_image("avg_pool2d", image._layout, 2, "")
    return average_windows(image, w).squeeze(-2)
