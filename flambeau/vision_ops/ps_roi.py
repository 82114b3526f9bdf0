"""ps_roi_align and ps_roi_pool: regions as grids of bins, each taken from channels of its own (Dai et al., R-FCN, 2016).

Stands on codegen.vision.position_sensitive. Differentiable by the images, once.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import int32
from flambeau.codegen.vision import position_sensitive as kernels
from flambeau.codegen.vision.regions import bytes_of, room_of
from flambeau.core.operator.define import operator
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous
from flambeau.vision_ops.plans import (
    accumulated,
    blocks_of_channels,
    check_regions,
    check_same_type,
    kind_for,
    like,
    one_phase,
    plans,
    run_on_regions,
    sizes_of,
)

SAMPLES = 16  # elements that a bin reads, roughly


def _pool(form: str, input: Tensor, rois: Tensor, scale: float, bins: tuple[int, int], samples: int) -> tuple[Tensor, Tensor]:
    """(bins, channels that they are taken from); form: "align" or "pool"."""
    check_regions("Tensor rois should have shape as Tensor[K, 5]", rois)
    name = f"ps_roi_{form}_forward_kernel"
    check_same_type(name, "input", input, rois)
    batch, channels, height, width = sizes_of(input)
    if min(bins) < 0:
        raise RuntimeError("zeros: Dimension size must be non-negative.")
    if not (bins[0] and bins[1]) or channels % (bins[0] * bins[1]):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    count, made = rois._layout.shape[0], channels // (bins[0] * bins[1])
    out = like(input._layout, (count, made, *bins))
    if not out.numel or not input._layout.numel:
        return input.new_zeros(out.shape), input.new_zeros(out.shape, dtype=int32)
    kind = kind_for(name, out.dtype)
    input, rois = contiguous(input), contiguous(rois)
    key = "ps_roi", form, input._layout, rois._layout, out, samples
    launch = plans.get(key)
    if launch is None:
        each, blocks = blocks_of_channels(made, count)
        constants, slice = _constants(kind, (batch, channels, height, width), bins, samples, count, each, blocks)
        kernel = kernels.align_kernel(kind) if form == "align" else kernels.pool_kernel(kind)
        launch = plans[key] = one_phase(
            kernel,
            count * blocks,
            out.numel * SAMPLES,
            constants,
            [out, out.with_dtype(int32)],
            [input._layout, rois._layout],
            "f",
            slice,
        )
    return run_on_regions(launch, None, None, input, rois, float(scale))


def _constants(
    kind: Any, sizes: tuple[int, int, int, int], bins: tuple[int, int], samples: int, count: int, each: int, blocks: int
) -> tuple[list[int], int]:
    """(the kernels' constants, bytes of scratch for each thread)."""
    rooms = [room_of(b, samples, size) for b, size in zip(bins, sizes[2:])]
    slice = -(-sum(bytes_of(kind, b, room) for b, room in zip(bins, rooms)) // 64) * 64
    return [*sizes, *bins, samples, *rooms, count, each, blocks, slice], slice


def _backward(
    form: str, grad: Tensor, rois: Tensor, scale: float, bins: tuple[int, int], samples: int, sizes: tuple[int, int, int, int]
) -> Tensor:
    name = f"ps_roi_{form}_backward_kernel"
    check_same_type(name, "grad", grad, rois)
    out = like(grad._layout, sizes)
    if not out.numel or not grad._layout.numel:
        return grad.new_zeros(out.shape)
    kind = kind_for(name, out.dtype)
    grad, rois = contiguous(grad), contiguous(rois)
    key = "ps_roi_backward", form, grad._layout, rois._layout, out, bins, samples
    launch = plans.get(key)
    if launch is None:
        each, blocks = blocks_of_channels(sizes[1], sizes[0])
        constants, slice = _constants(kind, sizes, bins, samples, rois._layout.shape[0], each, blocks)
        kernel = kernels.align_backward_kernel(kind) if form == "align" else kernels.pool_backward_kernel(kind)
        launch = plans[key] = one_phase(
            kernel,
            sizes[0] * blocks,
            grad._layout.numel * SAMPLES,
            constants,
            [accumulated(out, kind)],
            [grad._layout, rois._layout],
            "f",
            slice,
        )
    return run_on_regions(launch, None, grad, rois, float(scale)).to(out.dtype)


@operator(method=False, function=False, name="torchvision_ps_roi_align", node="TorchvisionPsRoiAlign", differentiable=1)
def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    """(bins, channels) of regions (K, 5; image, x1, y1, x2, y2) of images (N, C * pooled_height * pooled_width, H, W).

    Both are (K, C, pooled_height, pooled_width): means of samples as `aligned` roi_align takes them, and the channels (int32)
    that they were taken from.
    """
    return _pool("align", input, rois, spatial_scale, (pooled_height, pooled_width), sampling_ratio)


@ps_roi_align.vjp
def _(g, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, layouts, need):
    if not need["input"]:
        return None, None
    bins = pooled_height, pooled_width
    return ps_roi_align_backward(g, rois, None, spatial_scale, *bins, sampling_ratio, *layouts[0].shape), None


@operator(method=False, function=False, name="torchvision_ps_roi_align_backward", node="TorchvisionPsRoiAlignBackward")
def ps_roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    channel_mapping: Tensor | None,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """The gradient of ps_roi_align's images. channel_mapping, always the one that ps_roi_align gives, isn't read."""
    return _backward(
        "align", grad, rois, spatial_scale, (pooled_height, pooled_width), sampling_ratio, (batch_size, channels, height, width)
    )


@ps_roi_align_backward.vjp
def _(g) -> Any:
    raise RuntimeError("double backwards on ps_roi_align not supported")


@operator(method=False, function=False, name="torchvision_ps_roi_pool", node="TorchvisionPsRoiPool", differentiable=1)
def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """(bins, channels) as of ps_roi_align, but bins are means of pixels between edges rounded to whole ones; 0 if empty."""
    return _pool("pool", input, rois, spatial_scale, (pooled_height, pooled_width), 1)


@ps_roi_pool.vjp
def _(g, rois, spatial_scale, pooled_height, pooled_width, layouts, need):
    if not need["input"]:
        return None, None
    return ps_roi_pool_backward(g, rois, None, spatial_scale, pooled_height, pooled_width, *layouts[0].shape), None


@operator(method=False, function=False, name="torchvision_ps_roi_pool_backward", node="TorchvisionPsRoiPoolBackward")
def ps_roi_pool_backward(
    grad: Tensor,
    rois: Tensor,
    channel_mapping: Tensor | None,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """The gradient of ps_roi_pool's images. channel_mapping, always the one that ps_roi_pool gives, isn't read."""
    return _backward("pool", grad, rois, spatial_scale, (pooled_height, pooled_width), 1, (batch_size, channels, height, width))


@ps_roi_pool_backward.vjp
def _(g) -> Any:
    raise RuntimeError("double backwards on ps_roi_pool not supported")
