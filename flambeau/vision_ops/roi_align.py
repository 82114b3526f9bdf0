"""roi_align: regions of images as grids of bins, each the mean of samples between the pixels (He et al., Mask R-CNN, 2017).

Stands on codegen.vision.roi_align. Differentiable by the images, once.
"""

from __future__ import annotations

from typing import Any

from flambeau.codegen.vision import roi_align as kernels
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

PLACES = 4  # multiplications for an element of the result, roughly


@operator(method=False, function=False, name="torchvision_roi_align", node="TorchvisionRoiAlign")
def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    """Bins (K, C, pooled_height, pooled_width) of regions (K, 5; image, x1, y1, x2, y2) of images (N, C, H, W).

    Coordinates are multiplied by spatial_scale; `aligned`: then the middle of the first pixel is 0.5, else 0, and regions are at
    least a pixel long. A bin has sampling_ratio x sampling_ratio samples; if it is not positive, about one per pixel.
    """
    check_regions("rois must have shape as Tensor[K, 5]", rois)
    name = "roi_align_forward_kernel"
    check_same_type(name, "input", input, rois)
    batch, channels, height, width = sizes_of(input)
    count = rois._layout.shape[0]
    out = like(input._layout, (count, channels, pooled_height, pooled_width))
    if not out.numel or not input._layout.numel:
        return input.new_zeros(out.shape)
    kind = kind_for(name, out.dtype)
    input, rois = contiguous(input), contiguous(rois)
    key = "roi_align", input._layout, rois._layout, out, sampling_ratio, aligned
    launch = plans.get(key)
    if launch is None:
        bins = pooled_height, pooled_width
        each, blocks = blocks_of_channels(channels, count)
        room_y, room_x, row, slice = kernels.scratch_of(kind, (height, width), bins, sampling_ratio)
        constants = [
            batch,
            channels,
            height,
            width,
            *bins,
            sampling_ratio,
            room_y,
            room_x,
            count,
            each,
            blocks,
            int(aligned),
            row,
            slice,
        ]
        launch = plans[key] = one_phase(
            kernels.forward_kernel(kind),
            count * blocks,
            out.numel * PLACES,
            constants,
            [out],
            [input._layout, rois._layout],
            "f",
            slice,
        )
    return run_on_regions(launch, None, input, rois, float(spatial_scale))


@roi_align.vjp
def _(g, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned, layouts, need):
    if not need["input"]:
        return None, None
    bins = pooled_height, pooled_width
    return roi_align_backward(g, rois, spatial_scale, *bins, *layouts[0].shape, sampling_ratio, aligned), None


@operator(method=False, function=False, name="torchvision_roi_align_backward", node="TorchvisionRoiAlignBackward")
def roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """The gradient of roi_align's images (batch_size, channels, height, width), from that of its result."""
    name = "roi_align_backward_kernel"
    check_same_type(name, "grad", grad, rois)
    out = like(grad._layout, (batch_size, channels, height, width))
    if not out.numel or not grad._layout.numel:
        return grad.new_zeros(out.shape)
    kind = kind_for(name, out.dtype)
    grad, rois = contiguous(grad), contiguous(rois)
    key = "roi_align_backward", grad._layout, rois._layout, out, pooled_height, pooled_width, sampling_ratio, aligned
    launch = plans.get(key)
    if launch is None:
        bins, count = (pooled_height, pooled_width), rois._layout.shape[0]
        each, blocks = blocks_of_channels(channels, batch_size)
        room_y, room_x, row, slice = kernels.scratch_of(kind, (height, width), bins, sampling_ratio)
        constants = [
            batch_size,
            channels,
            height,
            width,
            *bins,
            sampling_ratio,
            room_y,
            room_x,
            count,
            each,
            blocks,
            int(aligned),
            row,
            slice,
        ]
        work = grad._layout.numel * PLACES
        launch = plans[key] = one_phase(
            kernels.backward_kernel(kind),
            batch_size * blocks,
            work,
            constants,
            [accumulated(out, kind)],
            [grad._layout, rois._layout],
            "f",
            slice,
        )
    return run_on_regions(launch, None, grad, rois, float(spatial_scale)).to(out.dtype)


@roi_align_backward.vjp
def _(g) -> Any:
    raise RuntimeError("double backwards on roi_align not supported")
