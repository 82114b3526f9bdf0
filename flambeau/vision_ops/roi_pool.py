"""roi_pool: regions of images as grids of bins, each the maximum of its elements (Girshick, Fast R-CNN, 2015).

Stands on codegen.vision.roi_pool. Differentiable by the images, once.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import int32
from flambeau.codegen.vision import roi_pool as kernels
from flambeau.core.operator.define import operator
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous
from flambeau.vision_ops.plans import (
    accumulated,
    blocks_of_channels,
    check_same_type,
    kind_for,
    like,
    one_phase,
    plans,
    run_on_regions,
    sizes_of,
)


@operator(method=False, function=False, name="torchvision_roi_pool", node="TorchvisionRoiPool", differentiable=1)
def roi_pool(input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int) -> tuple[Tensor, Tensor]:
    """(bins, places of the maxima) of regions (K, 5; image, x1, y1, x2, y2) of images (N, C, H, W).

    Both are (K, C, pooled_height, pooled_width). Coordinates are multiplied by spatial_scale and rounded; the pixel at x2, y2
    belongs to a region. Places are int32, y * W + x, and -1 for an empty bin, which is 0.
    """
    name = "roi_pool_forward_kernel"
    check_same_type(name, "input", input, rois)
    batch, channels, height, width = sizes_of(input)
    count = rois.size(0)
    out = like(input._layout, (count, channels, pooled_height, pooled_width))
    if not out.numel:
        return input.new_zeros(out.shape), input.new_zeros(out.shape, dtype=int32)
    kind = kind_for(name, out.dtype)
    if rois._layout.ndim != 2 or rois._layout.shape[1] != kernels.NUMBERS:
        raise RuntimeError(f"rois must have shape as Tensor[K, 5], got {list(rois._layout.shape)}")
    input, rois = contiguous(input), contiguous(rois)
    key = "roi_pool", input._layout, rois._layout, out
    launch = plans.get(key)
    if launch is None:
        each, blocks = blocks_of_channels(channels, count)
        slice = kernels.slice_of(kind, width, (pooled_height, pooled_width))
        constants = [batch, channels, height, width, pooled_height, pooled_width, count, each, blocks, slice]
        work = count * channels * (out.shape[2] * out.shape[3] + height * width // 16)
        launch = plans[key] = one_phase(
            kernels.forward_kernel(kind),
            count * blocks,
            work,
            constants,
            [out, out.with_dtype(int32)],
            [input._layout, rois._layout],
            "f",
            slice,
        )
    return run_on_regions(launch, None, None, input, rois, float(spatial_scale))


@roi_pool.vjp
def _(g, rois, spatial_scale, pooled_height, pooled_width, out1, layouts, need):
    if not need["input"]:
        return None, None
    return roi_pool_backward(g, rois, out1, spatial_scale, pooled_height, pooled_width, *layouts[0].shape), None


@operator(method=False, function=False, name="torchvision_roi_pool_backward", node="TorchvisionRoiPoolBackward")
def roi_pool_backward(
    grad: Tensor,
    rois: Tensor,
    argmax: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """The gradient of roi_pool's images (batch_size, channels, height, width), from that of its bins and the maxima's places."""
    name = "roi_pool_backward_kernel"
    check_same_type(name, "grad", grad, rois)
    out = like(grad._layout, (batch_size, channels, height, width))
    if not out.numel or not grad._layout.numel:
        return grad.new_zeros(out.shape)
    kind = kind_for(name, out.dtype)
    grad, rois, argmax = contiguous(grad), contiguous(rois), contiguous(argmax)
    if argmax._layout.dtype is not int32:
        raise RuntimeError(f"expected scalar type Int but found {argmax._layout.dtype.scalar_name}")
    key = "roi_pool_backward", grad._layout, rois._layout, argmax._layout, out, pooled_height, pooled_width
    launch = plans.get(key)
    if launch is None:
        each, blocks = blocks_of_channels(channels, batch_size)
        constants = [batch_size, channels, height, width, pooled_height, pooled_width, rois._layout.shape[0], each, blocks, 0]
        launch = plans[key] = one_phase(
            kernels.backward_kernel(kind),
            batch_size * blocks,
            grad._layout.numel * 4,
            constants,
            [accumulated(out, kind)],
            [grad._layout, rois._layout, argmax._layout],
        )
    return launch(None, grad, rois, argmax).to(out.dtype)


@roi_pool_backward.vjp
def _(g) -> Any:
    raise RuntimeError("double backwards on roi_pool not supported")
