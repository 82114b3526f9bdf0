"""Pooling that is not regular: fractional maximum pooling (random windows), power averages, and the inverse of maximum pooling.

Stands on ops/nn/max_pool.py; offered by flambeau.nn.functional.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base.dtype import int64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.pooling import windows as kernels
from flambeau.codegen.pooling.fractional import tables_plan
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.core.modes.autocast import single
from flambeau.core.modes.settings import alert
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import WHOLE
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nn import pooling_windows
from flambeau.ops.nn.average_pool import avg_pool1d, avg_pool2d, avg_pool3d
from flambeau.ops.nn.max_pool import (
    INDEX,
    gather_planes,
    kind_for,
    launcher,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    recorded,
    scatter_planes,
)

_plans: dict[Any, Any] = register_cache({})
_settled: dict[Any, tuple] = register_cache({})  # sizes and taps of fractional pooling, by its arguments
UNROLLED = 27  # taps of a window that are written out
AXES = {2: ("height", "width"), 3: ("time", "height", "width")}


# ---------------------------------------------------------------- fractional


def _fractional_forward(
    input: Tensor, counts: tuple[int, ...], kernel: tuple[int, ...], samples: Tensor
) -> tuple[Tensor, Tensor]:
    layout, dims = input._layout, len(kernel)
    samples = samples.contiguous()
    key = layout, samples._layout, counts, kernel
    launches = _plans.get(key)
    if launches is None:
        kind = kind_for(f"fractional_max_pool{dims}d_out_frame", layout.dtype, False)
        out = Layout.contiguous((*layout.shape[:-dims], *counts), layout.dtype, layout.device)
        rows = pooling_windows.planes(out, dims) * math.prod(counts[:-1])
        taps = (1,) * (3 - dims) + kernel
        tables = tables_plan(samples._layout, layout.shape[-dims:], counts, kernel)
        made = Layout.contiguous((samples._layout.numel // dims, 3 * (3 - dims) + 3 * sum(counts)), int64, layout.device)
        words = pooling_windows.constants(layout, out, dims, (), (), 0, made.shape[1])
        launches = _plans[key] = (
            tables,
            launcher(
                kernels.forward_kernel(kind, "max", INDEX[int64], True, taps if math.prod(taps) <= UNROLLED else None),
                rows,
                out.numel * math.prod(kernel),
                words,
                [out, out.with_dtype(int64)],
                [layout, made],
            ),
        )
    return launches[1](None, None, input, launches[0](None, samples))


def _spatial(name: str, argument: str, value: Any, dims: int) -> tuple[int, ...]:
    numbers = tuple(value) if isinstance(value, (list, tuple)) else (value,) * dims
    if len(numbers) != dims:
        of = "of three Ints" if dims == 3 else "of Ints"
        raise RuntimeError(f"{name}: {argument} must either be a single Int or tuple {of}")
    return numbers


def _check_images(name: str, dims: int, shape: tuple[int, ...]) -> None:
    """RuntimeError unless `shape` is that of images of `dims` dimensions, of one (C, ...) or several (N, C, ...)."""
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}: Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(shape)}")
    for dim in range(len(shape) - dims - 1, len(shape)):
        if not shape[dim]:
            raise RuntimeError(
                f"{name}: Expected input to have non-zero size for non-batch dimensions, but got{list(shape)} "
                f"with dimension {dim} being empty."
            )


def _check_samples(dims: int, images: Layout, samples: Layout) -> None:
    """RuntimeError unless there is a sample for every image, channel and dimension."""
    if samples.dtype is not images.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    if samples.shape[0] < (images.shape[0] if images.ndim == dims + 2 else 1):
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.shape[1] != images.shape[-dims - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.shape[2] != dims:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {dims}; got {samples.shape[2]}.")


def _fractional_sizes(
    dims: int, layout: Layout, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Layout | None
) -> tuple:
    """(output size, taps, shape of the samples) as numbers for each dimension, all of which fit together."""
    name = f"fractional_max_pool{dims}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if samples is None and layout.ndim < dims + 1:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-layout.ndim}, {layout.ndim - 1}], but got -{dims + 1})"
        )
    if output_size is None:
        if len(output_ratio) > dims:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = [int(n * ratio) for n, ratio in zip(layout.shape[-dims:], output_ratio, strict=True)]
    if samples is None:
        images = 1 if layout.ndim == dims + 1 else layout.shape[0]
        samples = Layout.contiguous((images, layout.shape[-dims - 1], dims), layout.dtype, layout.device)
    kernel = _spatial(name, "kernel_size", kernel_size, dims)
    counts = _spatial(name, "output_size", output_size, dims)
    underneath = f"{name}{'_out' if dims == 3 else ''}()"
    _check_images(underneath, dims, layout.shape)
    _check_samples(dims, layout, samples)
    for axis, count, taps, size in zip(AXES[dims], counts, kernel, layout.shape[-dims:]):
        if count + taps - 1 > size - (dims == 3):  # PyTorch refuses windows in three dimensions that just fit
            raise RuntimeError(f"{underneath}: pool {axis} {taps} too large relative to input {axis} {size}")
    if min(counts) < 0:
        sizes = [*layout.shape[:-dims], *counts]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(counts)}: {sizes}")
    return counts, kernel, samples.shape


def _fractional(
    dims: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool, samples: Tensor | None
) -> Any:
    layout = input._layout
    given = None if samples is None else samples._layout
    try:
        key = dims, layout, kernel_size, output_size, output_ratio, given
        settled = _settled.get(key)
    except TypeError:  # lists
        key = settled = None
    if settled is None:
        settled = _fractional_sizes(dims, layout, kernel_size, output_size, output_ratio, given)
        if key is not None:
            _settled[key] = settled
    counts, kernel, shape = settled
    if samples is None:
        samples = NAMESPACE["rand"](shape, dtype=layout.dtype, device=layout.device)
    return recorded(input, _fractional_forward(input, counts, kernel, samples), return_indices, "FractionalMaxPool", dims)


@composite(method=False, function=False, autocast=single, jvp=WHOLE)
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima of windows at random, evenly spread places of (N, C, H, W) or (C, H, W); sized by output_size or output_ratio.

    ValueError if neither is given, RuntimeError if windows don't fit.
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@composite(method=False, function=False, autocast=single, jvp=WHOLE)
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima of windows at random, evenly spread places of (N, C, D, H, W) or (C, D, H, W)."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool2d` that returns (maxima, places)."""
    return fractional_max_pool2d(input, kernel_size, output_size, output_ratio, True, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool3d` that returns (maxima, places)."""
    return fractional_max_pool3d(input, kernel_size, output_size, output_ratio, True, _random_samples)


# ---------------------------------------------------------------- back to where the maxima were


@operator(method=False, function=False, node=lambda arguments: f"MaxUnpool{len(arguments[2])}DBackward0")
def unpool(input: Tensor, indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Planes of zeros of size `sizes` with the input's values at their indices."""
    dims = len(sizes)
    try:
        return scatter_planes(input, indices, pooling_windows.result_layout(input._layout, dims, sizes), dims, False)
    except KernelCheck as check:
        code = check.args[0]
        raise RuntimeError(
            f"Found an invalid max index: {code - 1 if code > 0 else code} (output volumes are of size "
            f"{'x'.join(map(str, sizes))})"
        ) from None


@unpool.vjp
def _(g, indices, sizes):
    return gather_planes(g, indices, len(sizes))


def _unpool(input: Tensor, indices: Tensor, sizes: list[int], dims: int) -> Tensor:
    alert(f"max_unpooling{dims}d_forward_out")
    layout, places = input._layout, indices._layout
    if places.dtype is not int64:
        got = f" but got: {places.dtype.scalar_name}" if dims == 2 else ""
        raise RuntimeError(f"elements in indices should be type int64{got}")
    if layout.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Input to max_unpooling{dims}d should be a {dims + 1}d or {dims + 2}d Tensor, but got a tensor with "
            f"{layout.ndim} dimensions."
        )
    if layout.shape != places.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(layout.shape)}) but got indices "
            f"tensor with shape: {list(places.shape)}"
        )
    for d in range(1, layout.ndim):
        if layout.shape[d] == 0:
            raise RuntimeError(
                f"max_unpooling{dims}d_forward_out_cpu(): Expected input to have non-zero size for non-batch "
                f"dimensions, but got {list(layout.shape)} with dimension {d} being empty."
            )
    kind_for(f"max_unpool{dims}d", layout.dtype, False)
    return unpool(input, indices, tuple(sizes))


def _unpool_size(input: Tensor, kernel_size: tuple, stride: tuple, padding: tuple, output_size: Any) -> list[int]:
    """The size that was pooled: the default, or `output_size` if it differs by less than a stride."""
    dims = len(kernel_size)
    shape = input._layout.shape
    if output_size is None:
        return [(shape[d - dims] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(dims)]
    default = [(shape[d - dims] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(dims)]
    if len(output_size) == dims + 2:
        output_size = output_size[2:]
    if len(output_size) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of "
            f"'{len(output_size)}'"
        )
    for d in range(dims):
        least, most = default[d] - stride[d], default[d] + stride[d]
        if not least < output_size[d] < most:
            raise ValueError(f'invalid output_size "{output_size}" (dim {d} must be between {least} and {most})')
    return list(output_size)


def _repeated(value: Any, dims: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,) * dims


def _arguments(input: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any, dims: int) -> list[int]:
    kernel, pads = _repeated(kernel_size, dims), _repeated(padding, dims)
    steps = _repeated(stride, dims) if stride is not None else kernel
    if len(kernel) < dims:
        number, names = ("two", "height, width") if dims < 3 else ("three", "depth, height, width")
        raise RuntimeError(f"There should be exactly {number} elements ({names}) in output_size, but got {len(kernel)} elements.")
    if not len(kernel) == len(steps) == len(pads) == dims:
        raise IndexError("tuple index out of range")
    return _unpool_size(input, kernel, steps, pads, output_size)


@composite(method=False, function=False, asks="size")
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Values of (N, C, L) or (C, L) put back where `max_pool1d` found them; zeros elsewhere."""
    sizes = _arguments(input, kernel_size, stride, padding, output_size, 1)
    return _unpool(input.unsqueeze(-1), indices.unsqueeze(-1), [*sizes, 1], 2).squeeze(-1)


@composite(method=False, function=False, autocast=single, asks="size")
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Values of (N, C, H, W) or (C, H, W) put back where `max_pool2d` found them; zeros elsewhere."""
    return _unpool(input, indices, _arguments(input, kernel_size, stride, padding, output_size, 2), 2)


@composite(method=False, function=False, autocast=single, asks="size")
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Values of (N, C, D, H, W) or (C, D, H, W) put back where `max_pool3d` found them; zeros elsewhere."""
    return _unpool(input, indices, _arguments(input, kernel_size, stride, padding, output_size, 3), 3)


# ---------------------------------------------------------------- power averages


def _power_pool(input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool, dims: int) -> Tensor:
    if norm_type == math.inf:
        return (max_pool1d, max_pool2d, max_pool3d)[dims - 1](input, kernel_size, stride, 0, 1, ceil_mode)
    taps = math.prod(_repeated(kernel_size, dims))
    mean = (avg_pool1d, avg_pool2d, avg_pool3d)[dims - 1](input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu()).mul(taps).pow(1.0 / norm_type)


@composite(method=False, function=False, asks="pow")
def lp_pool1d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """(sum of x ** norm_type) ** (1 / norm_type) of windows of (N, C, L) or (C, L)."""
    return _power_pool(input, norm_type, kernel_size, stride, ceil_mode, 1)


@composite(method=False, function=False, asks="pow")
def lp_pool2d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """(sum of x ** norm_type) ** (1 / norm_type) of windows of (N, C, H, W) or (C, H, W)."""
    return _power_pool(input, norm_type, kernel_size, stride, ceil_mode, 2)


@composite(method=False, function=False)
def lp_pool3d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """(sum of x ** norm_type) ** (1 / norm_type) of windows of (N, C, D, H, W) or (C, D, H, W)."""
    return _power_pool(input, norm_type, kernel_size, stride, ceil_mode, 3)
